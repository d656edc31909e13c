package fetch_test

import (
	"errors"
	"io"
	"net/http"
	"testing"

	"lockstep/internal/fetch"
)

// TestRangeLast: an answer is accepted as the end of a resource only if it is
// that.
func TestRangeLast(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		say, body string
		ok        bool
	}{
		"the end":       {"bytes 6-9/10", "6789", true},
		"all there is":  {"bytes 0-2/3", "012", true},
		"the beginning": {"bytes 0-3/10", "0123", false},
		"less":          {"bytes 7-9/10", "789", false},
		"the middle":    {"bytes 4-7/10", "4567", false},
		"of what":       {"bytes 6-9/*", "6789", false},
		"another body":  {"bytes 6-9/10", "678", false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := serve(t, func(w http.ResponseWriter, r *http.Request) {
				if got := r.Header.Get("Range"); got != "bytes=-4" {
					t.Errorf("Range: %s", got)
				}
				w.Header().Set("Content-Range", tt.say)
				w.WriteHeader(http.StatusPartialContent)
				_, _ = io.WriteString(w, tt.body)
			})
			r, err := client(t, s.URL, fetch.Options{}).Get(t.Context(), fetch.Request{URI: s.URL, RangeLast: 4})
			var rng *fetch.RangeError
			if !tt.ok {
				if !errors.As(err, &rng) {
					t.Errorf("Get = %v, want a RangeError", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got := body(t, r); got != tt.body || r.Range.Last+1 != r.Range.Total {
				t.Errorf("Get = %q, %+v", got, r.Range)
			}
		})
	}
}
