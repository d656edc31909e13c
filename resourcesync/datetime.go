package resourcesync

import "time"

// A Datetime is an instant as a document states it: with the granularity it
// was written in (RS-DT-02, RS-DT-04). The zero value means absent.
type Datetime struct {
	sec         int64 // seconds since the year 1, so that zero means absent
	nsec        int32
	granularity Granularity
}

// Granularity is the unit down to which a Datetime is stated.
type Granularity uint8

// The granularities of the W3C Datetime profile.
const (
	Nanosecond Granularity = iota // seconds with a fraction; also what NewDatetime gives
	Second
	Minute
	Day
	Month
	Year
)

const secondsToUnix = 62135596800 // from the year 1 to 1970

// NewDatetime returns the Datetime of t, which has the finest granularity.
func NewDatetime(t time.Time) Datetime {
	if t.IsZero() {
		return Datetime{}
	}
	return Datetime{sec: t.Unix() + secondsToUnix, nsec: int32(t.Nanosecond())}
}

// IsZero reports whether d is absent.
func (d Datetime) IsZero() bool { return d.sec == 0 && d.nsec == 0 }

// Time returns the first instant d denotes, in UTC.
func (d Datetime) Time() time.Time {
	if d.IsZero() {
		return time.Time{}
	}
	return time.Unix(d.sec-secondsToUnix, int64(d.nsec)).UTC()
}

// Compare orders instants; granularity is not looked at.
func (d Datetime) Compare(o Datetime) int {
	switch {
	case d.sec != o.sec && d.sec < o.sec, d.sec == o.sec && d.nsec < o.nsec:
		return -1
	case d == o, d.sec == o.sec && d.nsec == o.nsec:
		return 0
	}
	return 1
}
