package atompmh

import (
	"strconv"
	"time"
)

// parseTime parses a datetime of RFC 3339 and returns the instant in UTC. It
// also accepts common deviations, for which exact is false: lower case letters,
// a blank for the T, an offset without a colon or none at all (then UTC), no
// seconds, a date alone. Digits beyond nanoseconds are truncated.
func parseTime(b []byte) (t time.Time, exact, ok bool) {
	p := timeParser{b: b, exact: true, ok: true}
	year := p.digits(4)
	p.expect("-")
	month := p.digits(2)
	p.expect("-")
	day := p.digits(2)
	if !p.ok || month < 1 || month > 12 || day < 1 || day > daysIn(year, month) {
		return time.Time{}, false, false
	}
	var hour, minute, second, nanosecond, offset int
	if len(p.b) == 0 {
		p.exact = false
	} else {
		p.separator()
		hour = p.digits(2)
		p.expect(":")
		minute = p.digits(2)
		if len(p.b) > 0 && p.b[0] == ':' {
			p.b = p.b[1:]
			second = p.digits(2)
			nanosecond = p.fraction()
		} else {
			p.exact = false
		}
		offset = p.offset()
	}
	// A leap second becomes the following second.
	if !p.ok || len(p.b) > 0 || hour > 23 || minute > 59 || second > 60 {
		return time.Time{}, false, false
	}
	t = time.Date(year, time.Month(month), day, hour, minute, second-offset, nanosecond, time.UTC)
	return t, p.exact, !t.IsZero()
}

func daysIn(year, month int) int {
	switch month {
	case 2:
		if year%4 == 0 && (year%100 != 0 || year%400 == 0) {
			return 29
		}
		return 28
	case 4, 6, 9, 11:
		return 30
	}
	return 31
}

// A timeParser consumes a datetime from its beginning.
type timeParser struct {
	b         []byte
	exact, ok bool
}

// digits consumes a number of n digits.
func (p *timeParser) digits(n int) int {
	if len(p.b) < n {
		p.ok = false
		return 0
	}
	v := 0
	for _, c := range p.b[:n] {
		if c < '0' || c > '9' {
			p.ok = false
		}
		v = v*10 + int(c-'0')
	}
	p.b = p.b[n:]
	return v
}

// expect consumes s.
func (p *timeParser) expect(s string) {
	if len(p.b) < len(s) || string(p.b[:len(s)]) != s {
		p.ok = false
		return
	}
	p.b = p.b[len(s):]
}

// separator consumes the separator between date and time.
func (p *timeParser) separator() {
	switch p.b[0] {
	case 'T':
	case 't', ' ':
		p.exact = false
	default:
		p.ok = false
	}
	p.b = p.b[1:]
}

// fraction consumes a fraction of a second, if there is one, and returns the
// nanoseconds.
func (p *timeParser) fraction() int {
	if len(p.b) == 0 || p.b[0] != '.' && p.b[0] != ',' {
		return 0
	}
	p.exact = p.exact && p.b[0] == '.'
	p.b = p.b[1:]
	n, v := 0, 0
	for ; n < len(p.b) && p.b[n] >= '0' && p.b[n] <= '9'; n++ {
		if n < 9 {
			v = v*10 + int(p.b[n]-'0')
		}
	}
	p.ok = p.ok && n > 0
	p.b = p.b[n:]
	for ; n < 9; n++ {
		v *= 10
	}
	return v
}

// offset consumes the offset from UTC and returns it in seconds.
func (p *timeParser) offset() int {
	if len(p.b) == 0 {
		p.exact = false
		return 0
	}
	sign := 1
	switch p.b[0] {
	case 'Z', 'z':
		p.exact = p.exact && p.b[0] == 'Z'
		p.b = p.b[1:]
		return 0
	case '-':
		sign = -1
	case '+':
	default:
		p.ok = false
		return 0
	}
	p.b = p.b[1:]
	hours, minutes := p.digits(2), 0
	switch {
	case len(p.b) > 0 && p.b[0] == ':':
		p.b = p.b[1:]
		minutes = p.digits(2)
	case len(p.b) > 0:
		p.exact = false
		minutes = p.digits(2)
	default:
		p.exact = false
	}
	if hours > 23 || minutes > 59 {
		p.ok = false
	}
	return sign * (hours*3600 + minutes*60)
}

// appendTime appends t as RFC 3339 in UTC, in milliseconds (AP-DOC-08), or
// finer if that would lose precision. The year must have four digits.
func appendTime(b []byte, t time.Time) []byte {
	t = t.UTC()
	year, month, day := t.Date()
	hour, minute, second := t.Clock()
	b = append(b, byte('0'+year/1000), byte('0'+year/100%10), byte('0'+year/10%10), byte('0'+year%10))
	for _, part := range [...]struct {
		c byte
		v int
	}{{'-', int(month)}, {'-', day}, {'T', hour}, {':', minute}, {':', second}} {
		b = append(b, part.c, byte('0'+part.v/10), byte('0'+part.v%10))
	}
	ns := t.Nanosecond()
	digits := 3
	if ns%1_000_000 != 0 {
		digits = 9
	} else {
		ns /= 1_000_000
	}
	b = append(b, '.')
	text := strconv.AppendInt(make([]byte, 0, 9), int64(ns), 10)
	for n := len(text); n < digits; n++ {
		b = append(b, '0')
	}
	b = append(b, text...)
	return append(b, 'Z')
}
