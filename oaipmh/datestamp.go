package oaipmh

import (
	"fmt"
	"strings"
	"time"
)

// Granularity is the precision of a repository's datestamps (OAI-PMH 2.0,
// 3.3.1).
type Granularity uint8

// The two granularities.
const (
	Day    Granularity = iota + 1 // YYYY-MM-DD, which every repository understands
	Second                        // YYYY-MM-DDThh:mm:ssZ
)

const (
	dayForm    = "2006-01-02"
	secondForm = "2006-01-02T15:04:05Z"
)

// String returns the granularity as Identify states it.
func (g Granularity) String() string {
	if g == Second {
		return "YYYY-MM-DDThh:mm:ssZ"
	}
	return "YYYY-MM-DD"
}

// parseGranularity parses the granularity of Identify, in upper or lower case.
// For any other text it returns an error and [Day].
func parseGranularity(s string) (Granularity, error) {
	switch s = strings.TrimSpace(s); {
	case strings.EqualFold(s, Second.String()):
		return Second, nil
	case strings.EqualFold(s, Day.String()):
		return Day, nil
	}
	return Day, fmt.Errorf("granularity %.40q: want %s or %s", s, Day, Second)
}

// FormatDatestamp formats t in UTC at a granularity: truncated, never rounded
// up.
func FormatDatestamp(t time.Time, g Granularity) string {
	if g == Second {
		return t.UTC().Format(secondForm)
	}
	return t.UTC().Format(dayForm)
}

// ParseDatestamp parses a datestamp of either granularity, exactly as OAI-PMH
// 2.0, 3.3 requires.
func ParseDatestamp(s string) (time.Time, Granularity, error) {
	if t, err := time.Parse(secondForm, s); err == nil && len(s) == len(secondForm) {
		return t, Second, nil
	}
	if t, err := time.Parse(dayForm, s); err == nil {
		return t, Day, nil
	}
	return time.Time{}, 0, fmt.Errorf("datestamp %.40q: want 2024-05-17 or 2024-05-17T09:30:00Z", s)
}

// EndOfDatestamp returns the last instant, in microseconds, that a datestamp of
// that granularity covers: until includes it (OAI-PMH 2.0, 2.7.1).
func EndOfDatestamp(t time.Time, g Granularity) time.Time {
	if g == Day {
		return t.AddDate(0, 0, 1).Add(-time.Microsecond)
	}
	return t.Add(time.Second - time.Microsecond)
}
