package webpage

import (
	"fmt"
	"html/template"
	"strconv"
	"strings"
	"time"
)

// functions are those that templates can call.
func functions() template.FuncMap {
	return template.FuncMap{
		"count": Count[int],
		"many":  Count[int64],
		"size":  Size,
		"stamp": Stamp,
		"when":  func(t time.Time) whenShown { return whenShown{t.UTC().Format(time.RFC3339), Stamp(t)} },
		"slug":  slug,
	}
}

// A whenShown is an instant for machines and for people.
type whenShown struct{ Machine, People string }

// Count formats a number with a comma between groups of three digits.
func Count[T int | int64](n T) string {
	s := strconv.FormatInt(int64(n), 10)
	sign := ""
	if s[0] == '-' {
		sign, s = "-", s[1:]
	}
	var b strings.Builder
	for i, c := range s {
		if i > 0 && (len(s)-i)%3 == 0 {
			b.WriteByte(',')
		}
		b.WriteRune(c)
	}
	return sign + b.String()
}

// Size formats a number of bytes with a unit.
func Size(n int64) string {
	if n < 1000 {
		return strconv.FormatInt(n, 10) + " B"
	}
	f, unit := float64(n), ""
	for _, unit = range []string{"kB", "MB", "GB", "TB", "PB", "EB"} {
		if f /= 1000; f < 999.5 {
			break
		}
	}
	if f < 9.95 {
		return fmt.Sprintf("%.1f %s", f, unit)
	}
	return fmt.Sprintf("%.0f %s", f, unit)
}

// Stamp formats an instant to the second, in UTC; "" if there is none.
func Stamp(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format("2006-01-02 15:04:05Z")
}

// Ago formats how long before now an instant was, or how long after.
func Ago(t, now time.Time) string {
	if t.IsZero() {
		return ""
	}
	d := now.Sub(t)
	if d < 0 {
		return "in " + Span(-d)
	}
	return Span(d) + " ago"
}

// Span formats a duration in its largest unit.
func Span(d time.Duration) string {
	const day = 24 * time.Hour
	for _, u := range []struct {
		length time.Duration
		name   string
	}{{365 * day, "year"}, {30 * day, "month"}, {day, "day"}, {time.Hour, "hour"}, {time.Minute, "minute"}, {time.Second, "second"}} {
		if n := int(d / u.length); n == 1 {
			return "1 " + u.name
		} else if n > 1 {
			return strconv.Itoa(n) + " " + u.name + "s"
		}
	}
	return "less than a second"
}

// slug makes the ID of an element of a text.
func slug(text string) string {
	return "id-" + strings.Trim(strings.Map(func(c rune) rune {
		switch {
		case c >= 'a' && c <= 'z' || c >= '0' && c <= '9':
			return c
		case c >= 'A' && c <= 'Z':
			return c + 'a' - 'A'
		}
		return '-'
	}, text), "-")
}

// Cut returns the beginning of a text of about n bytes, with an ellipsis if anything is left out.
// No character is divided.
func Cut(text string, n int) string {
	if len(text) <= n {
		return text
	}
	for i := range text {
		if i >= n {
			return text[:i] + "…"
		}
	}
	return text
}
