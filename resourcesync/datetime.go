package resourcesync

import (
	"errors"
	"fmt"
	"time"

	"lockstep/internal/xmlscan"
)

// A Datetime is an instant as stated in a document, with the granularity of its
// text (RS-DT-02, RS-DT-04). The zero value means absent.
//
// Compare instants with [Datetime.Compare]: == also compares the granularity.
type Datetime struct {
	sec         int64 // seconds since the year 1, so that zero means absent
	nsec        int32
	granularity Granularity
}

// Granularity is the smallest unit that the text of a Datetime states.
type Granularity uint8

// The granularities of the W3C Datetime profile.
const (
	Nanosecond Granularity = iota // seconds with a fraction; also returned by NewDatetime
	Second
	Minute
	Day
	Month
	Year
)

const secondsToUnix = 62135596800 // from the year 1 to 1970

// ErrDatetime reports a text that is no datetime.
var ErrDatetime = errors.New("invalid datetime")

// NewDatetime returns the Datetime of t, which has the finest granularity.
func NewDatetime(t time.Time) Datetime {
	if t.IsZero() {
		return Datetime{}
	}
	return Datetime{sec: t.Unix() + secondsToUnix, nsec: int32(t.Nanosecond())}
}

// ParseDatetime parses s in one of the six forms of the W3C Datetime profile
// (RS-DT-02). A Datetime of coarse granularity is the first instant of its
// unit, in UTC.
func ParseDatetime(s string) (Datetime, error) {
	d, liberty, ok := parseDatetime(s)
	if !ok || liberty != "" {
		return Datetime{}, fmt.Errorf("%w %q", ErrDatetime, xmlscan.Clip(s))
	}
	return d, nil
}

// ParseDatetimeLenient is like ParseDatetime, but also accepts common
// deviations (RS-DT-05). liberty describes the deviation; it is empty if there
// was none.
func ParseDatetimeLenient(s string) (d Datetime, liberty string, err error) {
	d, liberty, ok := parseDatetime(s)
	if !ok {
		return Datetime{}, "", fmt.Errorf("%w %q", ErrDatetime, xmlscan.Clip(s))
	}
	return d, liberty, nil
}

// IsZero reports whether d is absent.
func (d Datetime) IsZero() bool { return d.sec == 0 && d.nsec == 0 }

// Granularity returns the smallest unit that d states.
func (d Datetime) Granularity() Granularity { return d.granularity }

// WithGranularity returns d with granularity g: the instant is the same.
func (d Datetime) WithGranularity(g Granularity) Datetime {
	d.granularity = g
	return d
}

// Time returns the first instant that d denotes, in UTC.
func (d Datetime) Time() time.Time {
	if d.IsZero() {
		return time.Time{}
	}
	return time.Unix(d.sec-secondsToUnix, int64(d.nsec)).UTC()
}

// Compare orders instants; it ignores granularity.
func (d Datetime) Compare(o Datetime) int {
	switch {
	case d.sec < o.sec, d.sec == o.sec && d.nsec < o.nsec:
		return -1
	case d.sec == o.sec && d.nsec == o.nsec:
		return 0
	}
	return 1
}

// String returns d as the Writer writes it, or "" if d is absent.
func (d Datetime) String() string { return string(d.AppendTo(nil)) }

// AppendTo appends d to b: in UTC, in full, with as many decimal places of a
// second as it needs (RS-DT-01). An absent d appends nothing.
func (d Datetime) AppendTo(b []byte) []byte {
	if d.IsZero() {
		return b
	}
	if !d.printable() {
		return d.Time().AppendFormat(b, time.RFC3339Nano)
	}
	since := uint64(d.sec - yearZero)
	y, m, day := civil(uint32(since / 86400))
	s := uint32(since % 86400)
	b = append(b, "0000-00-00T00:00:00"...)
	text := b[len(b)-19:]
	put2(text[0:], y/100)
	put2(text[2:], y%100)
	put2(text[5:], m)
	put2(text[8:], day)
	put2(text[11:], s/3600)
	put2(text[14:], s/60%60)
	put2(text[17:], s%60)
	if d.nsec != 0 {
		b = append(b, '.')
		for n, unit := d.nsec, int32(100_000_000); n != 0; n, unit = n%unit, unit/10 {
			b = append(b, '0'+byte(n/unit))
		}
	}
	return append(b, 'Z')
}

// The range of years with four digits, in seconds since the year 1.
const yearZero, yearTenThousand = -366 * 86400, 315537897600

// printable reports whether d has a year of four digits.
func (d Datetime) printable() bool { return d.sec >= yearZero && d.sec < yearTenThousand }

// put2 writes n, below 100, as two digits.
func put2(b []byte, n uint32) { b[0], b[1] = '0'+byte(n/10), '0'+byte(n%10) }

// civil returns the date that is days after the first of January of year 0, in
// the Gregorian calendar (Neri and Schneider, Euclidean affine functions and
// their application to calendar algorithms, 2023). Internally, years begin in
// March.
func civil(days uint32) (y, m, d uint32) {
	n := 4*(days-60+146097) + 3 // since the first of March of year -400
	century, n := n/146097, n%146097/4
	p := 2939745 * uint64(4*n+3)
	year, day := uint32(p>>32), uint32(p)/2939745/4
	q := 2141*day + 197913
	y, m, d = 100*century+year-400, q>>16, q&0xffff/2141+1
	if day >= 306 {
		y, m = y+1, m-12
	}
	return y, m, d
}

// daysBefore returns the number of days from the first of January of year 1 to
// the given date.
func daysBefore(y, m, d int64) int64 {
	if m <= 2 {
		y, m = y-1, m+12
	}
	era := y / 400
	if y < 0 {
		era = (y - 399) / 400
	}
	yoe := y - era*400
	doy := (153*(m-3)+2)/5 + d - 1
	return era*146097 + yoe*365 + yoe/4 - yoe/100 + doy - 306
}

// daysIn returns the number of days of a month.
func daysIn(y, m int64) int64 {
	switch m {
	case 2:
		if y%4 == 0 && (y%100 != 0 || y%400 == 0) {
			return 29
		}
		return 28
	case 4, 6, 9, 11:
		return 30
	}
	return 31
}
