package negotiate_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"lockstep/internal/negotiate"
)

// TestEmptySuffixes: a range of no bytes is not satisfiable, and others are as they are sent.
func TestEmptySuffixes(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		content, ranges string
		status          int
		contentRange    string
		body            string
	}{
		{"0123456789", "bytes=-0", 416, "bytes */10", ""},
		{"0123456789", "bytes= - 00 ", 416, "bytes */10", ""},
		{"0123456789", "bytes=-0,-0", 416, "bytes */10", ""},
		{"0123456789", "bytes=-0,2-4", 206, "bytes 2-4/10", "234"},
		{"0123456789", "bytes=-2,-0", 206, "bytes 8-9/10", "89"},
		{"0123456789", "bytes=-20", 206, "bytes 0-9/10", "0123456789"},
		{"0123456789", "bytes=--0", 416, "", ""},
		{"0123456789", "bytes=-", 416, "", ""},
		{"0123456789", "", 200, "", "0123456789"},
		{"", "bytes=-5", 200, "", ""},
		{"", "bytes=-0", 200, "", ""},
		{"", "bytes=0-", 200, "", ""},
	} {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		if tt.ranges != "" {
			r.Header.Set("Range", tt.ranges)
		}
		w := httptest.NewRecorder()
		w.Header().Set("Content-Type", "text/plain")
		negotiate.ServeContent(w, r, time.Time{}, strings.NewReader(tt.content))
		got := w.Result()
		if got.StatusCode != tt.status || got.Header.Get("Content-Range") != tt.contentRange || tt.status < 300 && w.Body.String() != tt.body {
			t.Errorf("%q of %q: %d, Content-Range %q, %q; want %d, %q, %q", tt.ranges, tt.content, got.StatusCode, got.Header.Get("Content-Range"), w.Body, tt.status, tt.contentRange, tt.body)
		}
		if r.Header.Get("Range") != tt.ranges {
			t.Errorf("the request has changed: %q", r.Header.Get("Range"))
		}
	}
}
