package intake

import (
	"fmt"
	"time"

	"lockstep/internal/fetch"
)

// A feed or a repository whose clock is ahead dates its records in our future. When
// the clock is corrected, the next changes are dated earlier than those before. So
// times in our future are reported when they are first read, and order nothing: the
// position up to which a harvest has read is never later than our own clock, and a
// feed that was read up to such a time is read as a whole when it changes next.

const (
	// trustedSkew is how far a time may be ahead of our clock and still be used.
	trustedSkew = 10 * time.Second

	// reportedSkew is how far a time is ahead of our clock when it is reported.
	reportedSkew = time.Minute
)

// futureTimes are the times in our future that a harvest reads.
type futureTimes struct {
	now         time.Time // the clock of this machine when the harvest began
	since, till time.Time // times in this interval were in our future when they were read; zero: none
	reported    time.Time // the latest that was reported by this harvest or one before

	count  int64 // of those that were not reported before
	name   string
	first  time.Time
	latest time.Time // of all that lie in our future
}

// isDue reports whether what was done last at t, by our clock, is to be done again:
// after every, or if t lies in our future, because our clock was set back since.
func isDue(t time.Time, every time.Duration) bool {
	age := time.Since(t)
	return age < 0 || age >= every
}

// isAhead reports whether t lies in our future.
func (f *futureTimes) isAhead(t time.Time) bool { return t.After(f.now.Add(trustedSkew)) }

// has reports whether t lies in our future, or did when it was read: it orders
// nothing.
func (f *futureTimes) has(t time.Time) bool {
	return f.isAhead(t) || t.After(f.since) && !t.After(f.till)
}

// note takes in the time of what has this name.
func (f *futureTimes) note(name string, t time.Time) {
	if !f.isAhead(t) {
		return
	}
	if t.After(f.latest) {
		f.latest = t
	}
	if t.After(f.now.Add(reportedSkew)) && t.After(f.reported) {
		if f.count++; f.count == 1 {
			f.name, f.first = name, t
		}
	}
}

// report returns what is to be reported, once; nil if there is nothing.
func (f *futureTimes) report() error {
	if f.count == 0 {
		return nil
	}
	err := fmt.Errorf("it has times in our future, %d in all, the first %s of %s: its clock or that of this machine is wrong",
		f.count, f.first.UTC().Format(time.RFC3339), fetch.Printable(f.name))
	f.count, f.reported = 0, f.latest
	return err
}
