// Package future keeps track of times in our future that a harvest reads.
//
// A feed or a repository whose clock is ahead dates its records in our future. When
// the clock is corrected, the next changes are dated earlier than those before. So
// times in our future are reported when they are first read, and order nothing: the
// position up to which a harvest has read is never later than our own clock, and a
// feed that was read up to such a time is read as a whole when it changes next.
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
	Reported    time.Time // the latest that was reported by this harvest or one before

	count  int64 // of those that were not reported before
	name   string
	first  time.Time
	Latest time.Time // of all that lie in our future
}

// IsDue reports whether what was done last at t, by our clock, is to be done again:
// after every, or if t lies in our future, because our clock was set back since.
func IsDue(t time.Time, every time.Duration) bool {
	age := time.Since(t)
	return age < 0 || age >= every
}

// IsAhead reports whether t lies in our future.
func (f *Times) IsAhead(t time.Time) bool { return t.After(f.Now.Add(TrustedSkew)) }

// Has reports whether t lies in our future, or did when it was read: it orders
// nothing.
func (f *Times) Has(t time.Time) bool {
	return f.IsAhead(t) || t.After(f.Since) && !t.After(f.Till)
}

// Note takes in the time of what has this name.
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

// Report returns what is to be reported, once; nil if there is nothing.
func (f *Times) Report() error {
	if f.count == 0 {
		return nil
	}
	err := fmt.Errorf("it has times in our future, %d in all, the first %s of %s: its clock or that of this machine is wrong",
		f.count, f.first.UTC().Format(time.RFC3339), fetch.Printable(f.name))
	f.count, f.Reported = 0, f.Latest
	return err
}
