package mirror_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"lockstep/cmd/lockstep/internal/mirror"
	"lockstep/cmd/lockstep/internal/term"
)

// TestParseInstant reads what people write for an instant.
func TestParseInstant(t *testing.T) {
	t.Parallel()
	for value, want := range map[string]string{
		"2026-05-01T12:00:00Z":           "2026-05-01T12:00:00Z",
		"2026-05-01T12:00:00.25+02:00":   "2026-05-01T10:00:00.25Z",
		"2026-05-01T12:00-05:00":         "2026-05-01T17:00:00Z",
		"2026-05-01":                     "2026-05-01T00:00:00Z",
		"2026-05":                        "2026-05-01T00:00:00Z",
		"2026":                           "2026-01-01T00:00:00Z",
		"2026-05-01T12:00:00.123456789Z": "2026-05-01T12:00:00.123456789Z",
	} {
		got, err := mirror.ParseInstant("at", value)
		if err != nil {
			t.Errorf("%s: %v", value, err)
		} else if text := got.Format(time.RFC3339Nano); text != want {
			t.Errorf("%s is %s, want %s", value, text, want)
		}
	}
	for _, value := range []string{"", "yesterday", "2026-05-01 12:00:00", "2026-05-01T12:00:00", "2026-13-01", "2026-02-30", "12:00", "Tue, 20 Mar 2001 20:35:00 GMT", "1770000000"} {
		_, err := mirror.ParseInstant("from", value)
		if _, ok := errors.AsType[term.UsageError](err); !ok || !strings.Contains(err.Error(), "--from") {
			t.Errorf("%q: %v", value, err)
		}
	}
	if _, err := mirror.ParseInstant("at", time.Now().Add(time.Hour).UTC().Format(time.RFC3339)); err == nil {
		t.Error("an instant is in the future was taken")
	}
	if _, err := mirror.ParseInstant("at", time.Now().UTC().Format(time.RFC3339)); err != nil {
		t.Errorf("now: %v", err)
	}
}
