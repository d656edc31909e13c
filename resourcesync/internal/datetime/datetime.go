// Package datetime reads and writes instants in the W3C Datetime profile
// (RS-DT-02), also with the deviations that are common (RS-DT-05).
package datetime

import "time"

// An Instant is the content of a datetime. The zero value means absent.
type Instant struct {
	Sec  int64 // seconds since the year 1, so that zero means absent
	Nsec int32
	Unit Unit
}

// A Unit is the smallest unit of time that a datetime states.
type Unit uint8

// The units of the profile.
const (
	Nanosecond Unit = iota // seconds with a fraction
	Second
	Minute
	Day
	Month
	Year
)

const secondsToUnix = 62135596800 // from the year 1 to 1970

// FromTime returns the Instant of t, to the nanosecond.
func FromTime(t time.Time) Instant {
	if t.IsZero() {
		return Instant{}
	}
	return Instant{Sec: t.Unix() + secondsToUnix, Nsec: int32(t.Nanosecond())}
}

// IsZero reports whether d is absent.
func (d Instant) IsZero() bool { return d.Sec == 0 && d.Nsec == 0 }

// Time returns the instant in UTC.
func (d Instant) Time() time.Time {
	if d.IsZero() {
		return time.Time{}
	}
	return time.Unix(d.Sec-secondsToUnix, int64(d.Nsec)).UTC()
}

// End returns the first instant after the unit that d states, in UTC; for a fraction of
// a second, that of d.
func (d Instant) End() time.Time {
	t := d.Time()
	switch d.Unit {
	case Second:
		return t.Add(time.Second)
	case Minute:
		return t.Add(time.Minute)
	case Day:
		return t.AddDate(0, 0, 1)
	case Month:
		return t.AddDate(0, 1, 0)
	case Year:
		return t.AddDate(1, 0, 0)
	}
	return t
}

// Compare orders instants; it ignores units.
func (d Instant) Compare(o Instant) int {
	switch {
	case d.Sec < o.Sec, d.Sec == o.Sec && d.Nsec < o.Nsec:
		return -1
	case d.Sec == o.Sec && d.Nsec == o.Nsec:
		return 0
	}
	return 1
}

// AppendTo appends d to b: in UTC, in full, with as many decimal places of a
// second as it needs (RS-DT-01). An absent d appends nothing.
func (d Instant) AppendTo(b []byte) []byte {
	if d.IsZero() {
		return b
	}
	if !d.Printable() {
		return d.Time().AppendFormat(b, time.RFC3339Nano)
	}
	since := uint64(d.Sec - yearZero)
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
	if d.Nsec != 0 {
		b = append(b, '.')
		for n, unit := d.Nsec, int32(100_000_000); n != 0; n, unit = n%unit, unit/10 {
			b = append(b, '0'+byte(n/unit))
		}
	}
	return append(b, 'Z')
}

// The range of years with four digits, in seconds since the year 1.
const yearZero, yearTenThousand = -366 * 86400, 315537897600

// Printable reports whether d has a year of four digits.
func (d Instant) Printable() bool { return d.Sec >= yearZero && d.Sec < yearTenThousand }

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
