package mirrors

import (
	"fmt"
	"strings"

	"lockstep/cmd/lockstep/internal/auditing"
	"lockstep/cmd/lockstep/internal/term"
	"lockstep/destination"
)

// progress describes the mirrors that are worked on in at most columns columns; 0 is any
// number.
func progress(done, all int, active []string, columns int) string {
	text := fmt.Sprintf("%d of %s done", done, term.Count(all, "mirror"))
	for i, a := range active {
		more := text + "  " + a
		if columns > 0 && len([]rune(more)) >= columns || columns == 0 && i == maxShown {
			return text + fmt.Sprintf("  +%d", len(active)-i)
		}
		text = more
	}
	return text
}

// maxShown is how many mirrors a line of a log shows the progress of.
const maxShown = 4

// verdict is the error of a run over several mirrors of which some are not in step.
type verdict struct {
	all     int
	failed  []string // names
	causes  []error  // of each
	refused bool     // all of them, for safety
	differs bool     // all of them that were not refused, as an audit has found
}

// Is reports whether all mirrors that are not in step are so for one reason.
func (v *verdict) Is(target error) bool {
	switch target {
	case destination.ErrRefused:
		return v.refused
	case auditing.ErrDifferences:
		return v.differs && !v.refused
	}
	return false
}

// ReportCauses prints why each mirror is not in step.
func (v *verdict) ReportCauses(io term.IO) {
	for i, cause := range v.causes {
		term.ReportError(io.Named(v.failed[i]), cause)
	}
}

func (v *verdict) Error() string {
	const most = 10
	names := strings.Join(v.failed[:min(len(v.failed), most)], ", ")
	if n := len(v.failed) - most; n > 0 {
		names += fmt.Sprintf(" and %d more", n)
	}
	return fmt.Sprintf("%d of %s not in step: %s", len(v.failed), term.Count(v.all, "mirror"), names)
}
