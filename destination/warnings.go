package destination

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"

	"lockstep/destination/internal/wording"
	"lockstep/internal/fetch"
)

// warningCounts counts the warnings of a report by their kind: a Source of which
// every document is wrong in the same way fills neither memory nor a screen.
type warningCounts struct {
	kinds map[string]*warningCount
	other int64 // of kinds beyond maxListed
}

type warningCount struct {
	index int // of the first, in Report.Warnings
	more  int64
}

// particulars are the parts of a warning that differ between two of one kind:
// addresses, quoted text, digests and numbers.
var particulars = regexp.MustCompile(`[a-z]+://[^\s"]+|"(?:[^"\\]|\\.)*"|\b[0-9a-f]{16,}\b|[0-9]+`)

// warn notes something a person should know. Of several warnings of one kind the
// first is kept and the others are counted; warn reports whether it is the first.
func (r *Report) warn(text string) (first bool) {
	if r.repeated == nil {
		r.repeated = &warningCounts{kinds: map[string]*warningCount{}}
	}
	c, kind := r.repeated, particulars.ReplaceAllString(text, "*")
	if known := c.kinds[kind]; known != nil {
		known.more++
		return false
	}
	if len(r.Warnings) >= maxListed {
		c.other++
		return false
	}
	c.kinds[kind] = &warningCount{index: len(r.Warnings)}
	r.Warnings = append(r.Warnings, fetch.Printable(text))
	return true
}

// countWarnings appends to each warning how many more there were of its kind,
// and passes the resulting sentences to tell.
func (r *Report) countWarnings(tell func(text string)) {
	if r.repeated == nil {
		return
	}
	for _, known := range slices.SortedFunc(maps.Values(r.repeated.kinds), func(a, b *warningCount) int { return a.index - b.index }) {
		if known.more > 0 {
			text := &r.Warnings[known.index]
			*text += fmt.Sprintf(" (and %s more like it)", wording.Grouped(known.more))
			tell(*text)
		}
	}
	if n := r.repeated.other; n > 0 {
		r.Warnings = append(r.Warnings, fmt.Sprintf("%s of other kinds", wording.Plural(n, "more warning")))
		tell(r.Warnings[len(r.Warnings)-1])
	}
	r.repeated = nil
}

// tellCounts ends the warnings of a run.
func (s *session) tellCounts() {
	s.report.countWarnings(func(text string) {
		s.d.emit(Event{Kind: EventWarning, Err: errors.New(text)})
	})
}
