package fetch_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"

	"lockstep/internal/fetch"
)

func parseURL(t testing.TB, s string) *url.URL {
	t.Helper()
	u, err := url.Parse(s)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

// client returns a Client whose Source is at home.
func client(t testing.TB, home string, o fetch.Options) *fetch.Client {
	t.Helper()
	o.Home = parseURL(t, home)
	c, err := fetch.New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func serve(t testing.TB, h http.HandlerFunc) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s
}

func body(t testing.TB, r *fetch.Response) string {
	t.Helper()
	defer r.Body.Close()
	b, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestGet(t *testing.T) {
	t.Parallel()
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("ETag", `"1"`)
		_, _ = io.WriteString(w, r.URL.Path)
	})
	c := client(t, s.URL, fetch.Options{})
	r, err := c.Get(t.Context(), fetch.Request{URI: s.URL + "/a#frag"})
	if err != nil {
		t.Fatal(err)
	}
	if got := body(t, r); got != "/a" || r.Status != 200 || r.Length != 2 || r.Header.Get("ETag") != `"1"` {
		t.Errorf("Get = %q, %+v", got, r)
	}
	if c.Requests() != 1 || c.Bytes() != 2 {
		t.Errorf("Requests, Bytes = %d, %d, want 1, 2", c.Requests(), c.Bytes())
	}
}
