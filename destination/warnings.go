package destination

import (
	"errors"

	"lockstep/destination/internal/repeats"
	"lockstep/internal/fetch"
)

// warn records a warning. Of several warnings of one kind the first is kept and the
// others are counted; warn reports whether it is the first.
func (r *Report) warn(text string) (first bool) {
	if r.repeated == nil {
		r.repeated = &repeats.Counts{}
	}
	if first = r.repeated.Add(text, len(r.Warnings), maxListed); first {
		r.Warnings = append(r.Warnings, fetch.Printable(text))
	}
	return first
}

// countWarnings appends to each warning how many more there were of its kind, and
// reports the resulting sentences.
func (s *session) countWarnings() {
	r := &s.report
	if r.repeated == nil {
		return
	}
	r.Warnings = r.repeated.Finish(r.Warnings, func(text string) {
		s.d.emit(Event{Kind: EventWarning, Err: errors.New(text)})
	})
	r.repeated = nil
}
