package s3_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"lockstep/blob/s3"
)

// TestNoLength: the answers of a service need not state the length of an object, as long as it
// fits in memory.
func TestNoLength(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, content, fails string
	}{
		{"empty", "", ""},
		{"small", "content", ""},
		{"large", strings.Repeat("x", 6<<20), "does not state the length"},
	} {
		b := serving(t, s3.Options{Memory: 5 << 20, Attempts: 1}, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("ETag", `"1"`)
			w.Header().Set("Last-Modified", "Mon, 02 Jan 2006 15:04:05 GMT")
			w.WriteHeader(http.StatusOK)
			_ = http.NewResponseController(w).Flush() // so that the server cannot know the length
			if r.Method == http.MethodGet {
				_, _ = io.WriteString(w, tt.content)
			}
		})
		info, serr := b.Stat(t.Context(), "name")
		r, err := b.Open(t.Context(), "name")
		if tt.fails != "" {
			if err == nil || serr == nil || !strings.Contains(err.Error(), tt.fails) || !strings.Contains(serr.Error(), tt.fails) {
				t.Errorf("%s: %v, %v, want %q", tt.name, serr, err, tt.fails)
			}
			continue
		}
		if err != nil || serr != nil || info.Size != int64(len(tt.content)) {
			t.Errorf("%s: %v, %v, %+v", tt.name, serr, err, info)
			continue
		}
		text, err := io.ReadAll(r)
		if err != nil || string(text) != tt.content || r.Info().Size != info.Size {
			t.Errorf("%s: %q, %v", tt.name, text, err)
		}
		_ = r.Close()
	}
}
