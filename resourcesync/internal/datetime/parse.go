package datetime

// Descriptions of the deviations of RS-DT-05.
const (
	libertyZone     = "datetime without a time zone, read as UTC"
	libertyCase     = "datetime with a lower-case letter"
	libertyBlank    = "datetime with a blank for its T"
	libertyColon    = "datetime with a zone that lacks its colon"
	libertyLeap     = "datetime with a leap second, read as the end of the second before"
	libertyFraction = "datetime with more than nine digits of a fraction, cut off"
)

// Parse parses all forms of RS-DT-02 and those of RS-DT-05. For the latter it
// describes the first deviation. An Instant of a coarse unit is the first one of
// that unit, in UTC.
func Parse[T string | []byte](s T) (d Instant, liberty string, ok bool) {
	y, ok1 := digits(s, 0, 4)
	if !ok1 {
		return Instant{}, "", false
	}
	if len(s) == 4 {
		return dated(y, 1, 1, Year)
	}
	m, ok1 := digits(s, 5, 2)
	if !ok1 || s[4] != '-' || m < 1 || m > 12 {
		return Instant{}, "", false
	}
	if len(s) == 7 {
		return dated(y, m, 1, Month)
	}
	day, ok1 := digits(s, 8, 2)
	if !ok1 || s[7] != '-' || day < 1 || day > daysIn(y, m) {
		return Instant{}, "", false
	}
	if len(s) == 10 {
		return dated(y, m, day, Day)
	}
	switch s[10] {
	case 'T':
	case 't':
		liberty = libertyCase
	case ' ':
		liberty = libertyBlank
	default:
		return Instant{}, "", false
	}
	d, more, ok := parseClock(s, 11)
	if liberty == "" {
		liberty = more
	}
	d.Sec += daysBefore(y, m, day) * 86400
	// The very first instant means absent; years before 0 cannot be printed.
	if !ok || d.IsZero() || !d.Printable() {
		return Instant{}, "", false
	}
	return d, liberty, true
}

// dated returns the first instant of a date.
func dated(y, m, d int64, unit Unit) (Instant, string, bool) {
	v := Instant{Sec: daysBefore(y, m, d) * 86400, Unit: unit}
	if v.IsZero() {
		return Instant{}, "", false
	}
	return v, "", true
}

// parseClock parses the time of day and the zone that begin at s[i]; the result
// is relative to the beginning of the day.
func parseClock[T string | []byte](s T, i int) (d Instant, liberty string, ok bool) {
	h, ok1 := digits(s, i, 2)
	min, ok2 := digits(s, i+3, 2)
	if !ok1 || !ok2 || s[i+2] != ':' || h > 23 || min > 59 {
		return Instant{}, "", false
	}
	d = Instant{Sec: h*3600 + min*60, Unit: Minute}
	i += 5
	if i < len(s) && s[i] == ':' {
		sec, ok := digits(s, i+1, 2)
		if !ok || sec > 60 {
			return Instant{}, "", false
		}
		d.Unit = Second
		i += 3
		if i < len(s) && s[i] == '.' {
			if d.Nsec, i, liberty, ok = fraction(s, i+1); !ok {
				return Instant{}, "", false
			}
			d.Unit = Nanosecond
		}
		if sec == 60 {
			sec, d.Nsec, d.Unit, liberty = 59, 999_999_999, Nanosecond, libertyLeap
		}
		d.Sec += sec
	}
	offset, more, ok := parseZone(s, i)
	if liberty == "" {
		liberty = more
	}
	d.Sec -= offset // RS-DT-03
	return d, liberty, ok
}

// fraction parses the digits that begin at s[i] as nanoseconds and returns
// their end.
func fraction[T string | []byte](s T, i int) (nsec int32, end int, liberty string, ok bool) {
	unit, first := int32(100_000_000), i
	for ; i < len(s) && s[i]-'0' <= 9; i++ {
		nsec += int32(s[i]-'0') * unit
		unit /= 10
	}
	if i-first > 9 {
		liberty = libertyFraction
	}
	return nsec, i, liberty, i > first
}

// parseZone parses the zone, the rest of s from i on, as seconds east of
// Greenwich.
func parseZone[T string | []byte](s T, i int) (offset int64, liberty string, ok bool) {
	rest := len(s) - i
	switch {
	case rest == 0:
		return 0, libertyZone, true
	case rest == 1 && s[i] == 'Z':
		return 0, "", true
	case rest == 1 && s[i] == 'z':
		return 0, libertyCase, true
	case rest != 6 && rest != 5, s[i] != '+' && s[i] != '-':
		return 0, "", false
	}
	minutes := i + 4
	if rest == 5 {
		minutes, liberty = i+3, libertyColon
	} else if s[i+3] != ':' {
		return 0, "", false
	}
	h, ok1 := digits(s, i+1, 2)
	m, ok2 := digits(s, minutes, 2)
	if !ok1 || !ok2 || h > 23 || m > 59 {
		return 0, "", false
	}
	offset = h*3600 + m*60
	if s[i] == '-' {
		offset = -offset
	}
	return offset, liberty, true
}

// digits parses n digits that begin at s[i].
func digits[T string | []byte](s T, i, n int) (v int64, ok bool) {
	if i+n > len(s) {
		return 0, false
	}
	for ; n > 0; i, n = i+1, n-1 {
		c := s[i] - '0'
		if c > 9 {
			return 0, false
		}
		v = v*10 + int64(c)
	}
	return v, true
}
