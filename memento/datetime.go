package memento

import (
	"fmt"
	"net/http"
	"strings"
	"time"
)

// FormatDatetime formats t for Accept-Datetime and Memento-Datetime, to the
// second (ME-HD-01).
func FormatDatetime(t time.Time) string { return t.UTC().Format(http.TimeFormat) }

// ParseDatetime parses the only valid form of Accept-Datetime, as in "Tue, 20
// Mar 2001 20:35:00 GMT", with the correct day of the week. It ignores
// surrounding blanks and tolerates nothing else (ME-HD-01, ME-HD-02).
func ParseDatetime(s string) (time.Time, error) {
	trimmed := strings.Trim(s, " \t")
	// http.ParseTime accepts other forms too, and time.Parse any case and any day
	// of the week.
	t, err := time.Parse(http.TimeFormat, trimmed)
	if err != nil || FormatDatetime(t) != trimmed {
		return time.Time{}, fmt.Errorf("%.60q is no datetime of the form %q", s, http.TimeFormat)
	}
	return t, nil
}

// readDatetime parses a received datetime in any form that HTTP defines; zero
// if it is invalid.
func readDatetime(s string) time.Time {
	if t, err := ParseDatetime(s); err == nil {
		return t
	}
	t, err := http.ParseTime(strings.TrimSpace(s))
	if err != nil {
		return time.Time{}
	}
	return t.UTC()
}

// upToSecond returns the first full second that is not before t (ME-HD-03).
func upToSecond(t time.Time) time.Time {
	if s := t.Truncate(time.Second); s.Before(t) {
		return s.Add(time.Second)
	}
	return t
}
