package mirrors

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"sync"

	"lockstep/cmd/lockstep/internal/auditing"
	"lockstep/cmd/lockstep/internal/term"
	"lockstep/destination"
)

// prefixed passes on whole lines, each with the name of a mirror before it.
type prefixed struct {
	w    io.Writer
	head string

	mu   sync.Mutex // guards rest
	rest []byte     // of a line that is not whole
}

// named returns io with writers whose lines name a mirror.
func named(io term.IO, name string) term.IO {
	io.Out, io.Err = &prefixed{w: io.Out, head: name + ": "}, &prefixed{w: io.Err, head: name + ": "}
	return io
}

// maxRest caps a line that is held back until it is whole: the output of a command that a
// user runs may have no newlines.
const maxRest = 64 << 10

func (p *prefixed) Write(text []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rest = append(p.rest, text...)
	end := bytes.LastIndexByte(p.rest, '\n') + 1
	if end == 0 && len(p.rest) > maxRest {
		p.rest = append(p.rest, '\n')
		end = len(p.rest)
	}
	if end == 0 {
		return len(text), nil
	}
	var out []byte
	for line := range bytes.Lines(p.rest[:end]) {
		out = append(append(out, p.head...), line...)
	}
	p.rest = append(p.rest[:0], p.rest[end:]...)
	if _, err := p.w.Write(out); err != nil {
		return 0, err
	}
	return len(text), nil
}

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

func (v *verdict) Error() string {
	const most = 10
	names := strings.Join(v.failed[:min(len(v.failed), most)], ", ")
	if n := len(v.failed) - most; n > 0 {
		names += fmt.Sprintf(" and %d more", n)
	}
	return fmt.Sprintf("%d of %s not in step: %s", len(v.failed), term.Count(v.all, "mirror"), names)
}
