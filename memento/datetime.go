package memento

import (
	"fmt"
	"net/http"
	"strings"
	"time"
)

// FormatDatetime returns t as Accept-Datetime and Memento-Datetime have it, to
// the second (ME-HD-01).
func FormatDatetime(t time.Time) string { return t.UTC().Format(http.TimeFormat) }

// ParseDatetime reads the one form Accept-Datetime may have, as in "Tue, 20 Mar
// 2001 20:35:00 GMT", with the right day of the week. Blanks around it are of
// no account; nothing else is tolerated (ME-HD-01, ME-HD-02).
func ParseDatetime(s string) (time.Time, error) {
	trimmed := strings.Trim(s, " \t")
	// http.ParseTime takes other forms, too, and time.Parse any case and any
	// day of the week.
	t, err := time.Parse(http.TimeFormat, trimmed)
	if err != nil || FormatDatetime(t) != trimmed {
		return time.Time{}, fmt.Errorf("%.60q is no datetime of the form %q", s, http.TimeFormat)
	}
	return t, nil
}

// readDatetime reads a datetime of a stranger, who may write it in any form
// HTTP knows; zero if it is none.
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
