// Package future keeps track of times in our future that a harvest reads.
//
// A feed or a repository whose clock is ahead dates its records in our future. When
// the clock is corrected, the next changes are dated earlier than those before. So
// times in our future are reported when they are first read, and are not used for
// ordering: the position up to which a harvest has read is never later than our own
// clock, and a feed that was read up to such a time is read as a whole when it changes
// next.
package future

import (
	"fmt"
	"time"

	"lockstep/internal/fetch"
)

const (
	// TrustedSkew is how far a time may be ahead of our clock and still be used.
	TrustedSkew = 10 * time.Second

	// reportedSkew is how far a time is ahead of our clock when it is reported.
	reportedSkew = time.Minute
)

// Times are the times in our future that a harvest reads.
type Times struct {
	Now         time.Time // the clock of this machine when the harvest began
	Since, Till time.Time // times in this interval were in our future when they were read; zero: none
	Reported    time.Time // the latest time that this harvest or an earlier one reported

	count  int64 // of times that were not yet reported
	name   string
	first  time.Time
	Latest time.Time // the latest time in our future
}

// IsDue reports whether an action that was last done at t, by our clock, is due again:
// after every, or if t is in our future because our clock was set back since.
func IsDue(t time.Time, every time.Duration) bool {
	age := time.Since(t)
	return age < 0 || age >= every
}

// IsAhead reports whether t is in our future.
func (f *Times) IsAhead(t time.Time) bool { return t.After(f.Now.Add(TrustedSkew)) }

// Has reports whether t is in our future, or was when it was read: then it must not be
// used for ordering.
func (f *Times) Has(t time.Time) bool {
	return f.IsAhead(t) || t.After(f.Since) && !t.After(f.Till)
}

// Note records t, the time of the object with this name, if it is in our future.
func (f *Times) Note(name string, t time.Time) {
	if !f.IsAhead(t) {
		return
	}
	if t.After(f.Latest) {
		f.Latest = t
	}
	if t.After(f.Now.Add(reportedSkew)) && t.After(f.Reported) {
		if f.count++; f.count == 1 {
			f.name, f.first = name, t
		}
	}
}

// Report returns an error that describes the times not yet reported; nil if there are
// none.
func (f *Times) Report() error {
	if f.count == 0 {
		return nil
	}
	err := fmt.Errorf("it has times in our future, %d in all, the first %s of %s: its clock or that of this machine is wrong",
		f.count, f.first.UTC().Format(time.RFC3339), fetch.Printable(f.name))
	f.count, f.Reported = 0, f.Latest
	return err
}
