package resourcesync

import (
	"errors"
	"fmt"
	"time"

	"lockstep/internal/xmlscan"
	"lockstep/resourcesync/internal/datetime"
)

// A Datetime is an instant as stated in a document, with the granularity of its
// text (RS-DT-02, RS-DT-04). The zero value means absent.
//
// Compare instants with [Datetime.Compare]: == also compares the granularity.
type Datetime struct{ at datetime.Instant }

// Granularity is the smallest unit that the text of a Datetime states.
type Granularity uint8

// The granularities of the W3C Datetime profile, in the order of datetime.Unit.
const (
	Nanosecond Granularity = iota // seconds with a fraction; also returned by NewDatetime
	Second
	Minute
	Day
	Month
	Year
)

// ErrDatetime reports a text that is no datetime.
var ErrDatetime = errors.New("invalid datetime")

// NewDatetime returns the Datetime of t, which has the finest granularity.
func NewDatetime(t time.Time) Datetime { return Datetime{datetime.FromTime(t)} }

// ParseDatetime parses s in one of the six forms of the W3C Datetime profile
// (RS-DT-02). A Datetime of coarse granularity is the first instant of its
// unit, in UTC.
func ParseDatetime(s string) (Datetime, error) {
	at, liberty, ok := datetime.Parse(s)
	if !ok || liberty != "" {
		return Datetime{}, fmt.Errorf("%w %q", ErrDatetime, xmlscan.Clip(s))
	}
	return Datetime{at}, nil
}

// ParseDatetimeLenient is like ParseDatetime, but also accepts common
// deviations (RS-DT-05). liberty describes the deviation; it is empty if there
// was none.
func ParseDatetimeLenient(s string) (d Datetime, liberty string, err error) {
	at, liberty, ok := datetime.Parse(s)
	if !ok {
		return Datetime{}, "", fmt.Errorf("%w %q", ErrDatetime, xmlscan.Clip(s))
	}
	return Datetime{at}, liberty, nil
}

// IsZero reports whether d is absent.
func (d Datetime) IsZero() bool { return d.at.IsZero() }

// Granularity returns the smallest unit that d states.
func (d Datetime) Granularity() Granularity { return Granularity(d.at.Unit) }

// WithGranularity returns d with granularity g: the instant is the same.
func (d Datetime) WithGranularity(g Granularity) Datetime {
	d.at.Unit = datetime.Unit(g)
	return d
}

// Time returns the first instant that d denotes, in UTC.
func (d Datetime) Time() time.Time { return d.at.Time() }

// End returns the first instant after the unit that d states, in UTC: for
// 2026-05-01 midnight at the end of that day. For a fraction of a second it is
// Time.
func (d Datetime) End() time.Time { return d.at.End() }

// before reports whether d is before o, and not in the same unit (RS-DT-04): a
// text of coarse granularity may mean any instant of its unit.
func (d Datetime) before(o Datetime) bool {
	return d.Compare(o) < 0 && !d.End().After(o.Time())
}

// Compare orders instants; it ignores granularity.
func (d Datetime) Compare(o Datetime) int { return d.at.Compare(o.at) }

// String returns d as the Writer writes it, or "" if d is absent.
func (d Datetime) String() string { return string(d.AppendTo(nil)) }

// AppendTo appends d to b: in UTC, in full, with as many decimal places of a
// second as it needs (RS-DT-01). An absent d appends nothing.
func (d Datetime) AppendTo(b []byte) []byte { return d.at.AppendTo(b) }
