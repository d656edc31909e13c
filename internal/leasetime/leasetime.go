// Package leasetime says how long the leases of processes last that renew them in a table of a database.
package leasetime

import "time"

// A lease lasts at least as long as this many answers of the database take, and not longer than
// mostStretched for that reason.
const (
	answers       = 16
	mostStretched = time.Minute
)

// renewals is how often a lease is renewed in its time.
const renewals = 4

// Stretched returns the lease to ask for where one of the time least is enough, and the database
// took answer to answer. It is longer if it could not be kept otherwise, also when a
// connection breaks, since a new one needs half a dozen answers.
func Stretched(least, answer time.Duration) time.Duration {
	return max(least, min(answers*answer, mostStretched))
}

// Pause returns how long to wait between two renewals.
func Pause(lease time.Duration) time.Duration { return lease / renewals }

// Limit returns how long to wait for the answer to a renewal before another one is tried: half of a
// lease of the time least, which is enough to find out that the database has become slow.
func Limit(least, lease time.Duration) time.Duration { return max(least/2, Pause(lease)) }
