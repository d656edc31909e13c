package fetch_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"lockstep/internal/fetch"
)

// A POST sends its body again with retries and with redirects that keep the
// method.
func TestPost(t *testing.T) {
	t.Parallel()
	first := true
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		switch {
		case r.URL.Path == "/see-other":
			http.Redirect(w, r, "/a", http.StatusSeeOther)
		case r.URL.Path == "/moved":
			http.Redirect(w, r, "/a", http.StatusPermanentRedirect)
		case first:
			first = false
			w.WriteHeader(http.StatusServiceUnavailable)
		default:
			_, _ = io.WriteString(w, r.Method+" "+r.Header.Get("Content-Type")+" "+string(b))
		}
	})
	c := client(t, s.URL, fetch.Options{})
	for _, path := range []string{"/a", "/moved"} {
		r, err := c.Get(t.Context(), fetch.Request{URI: s.URL + path, Post: []byte("x"), PostType: "text/plain"})
		if err != nil {
			t.Fatal(err)
		}
		if got := body(t, r); got != "POST text/plain x" {
			t.Errorf("%s: %q", path, got)
		}
	}
	_, err := c.Get(t.Context(), fetch.Request{URI: s.URL + "/see-other", Post: []byte("x")})
	if err == nil || !strings.Contains(err.Error(), "another request") {
		t.Errorf("see other: %v", err)
	}
}
