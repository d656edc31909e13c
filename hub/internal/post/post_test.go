package post

import (
	"testing"
	"time"
)

func FuzzRetryAfter(f *testing.F) {
	for _, s := range []string{"", "0", "1", " 7 ", "-1", "99999999999999999999", "1.5", "Fri, 31 Dec 1999 23:59:59 GMT", "Fri, 31 Dec 2999 23:59:59 GMT"} {
		f.Add(s)
	}
	now := time.Date(1999, 12, 31, 23, 59, 0, 0, time.UTC)
	f.Fuzz(func(t *testing.T, s string) {
		if got := retryAfter(s, now); got < 0 {
			t.Errorf("RetryAfter(%q) = %v", s, got)
		}
	})
}

func TestRetryAfterForms(t *testing.T) {
	t.Parallel()
	now := time.Date(1999, 12, 31, 23, 59, 0, 0, time.UTC)
	for s, want := range map[string]time.Duration{
		"": 0, "x": 0, "-1": 0, "0": 0, " 120 ": 2 * time.Minute, "Fri, 31 Dec 1999 23:59:59 GMT": 59 * time.Second,
		"Fri, 31 Dec 1998 23:59:59 GMT": 0, "99999999999999999999": (1<<31 - 1) * time.Second,
	} {
		if got := retryAfter(s, now); got != want {
			t.Errorf("RetryAfter(%q) = %v, want %v", s, got, want)
		}
	}
}
