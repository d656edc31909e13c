package fetch_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"lockstep/internal/fetch"
)

// TestDo sends requests other than a GET of a document: unchanged, with
// credentials only for Home, without following redirects, and to no forbidden
// address.
func TestDo(t *testing.T) {
	t.Parallel()
	seen := make(chan *http.Request, 10)
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen <- r.Clone(r.Context())
		http.Redirect(w, r, "/elsewhere", http.StatusTemporaryRedirect)
	})
	home, other := httptest.NewServer(handler), httptest.NewServer(handler)
	defer home.Close()
	defer other.Close()
	u, _ := url.Parse(home.URL)
	c, err := fetch.New(fetch.Options{Home: u, BearerToken: "secret", UserAgent: "me"})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for i, to := range []string{home.URL, other.URL} {
		req, _ := http.NewRequest(http.MethodPost, to, strings.NewReader("a=b"))
		req.Header.Set("Content-Type", "text/x")
		resp, err := c.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if first := <-seen; i > 0 {
			seen <- first
		} else if first.Header.Get("Authorization") != "" { // determines whether the Source has https
			t.Errorf("the first request over http carries credentials")
		}
		got := <-seen
		if resp.StatusCode != http.StatusTemporaryRedirect || got.Method != http.MethodPost || got.UserAgent() != "me" || got.Header.Get("Content-Type") != "text/x" {
			t.Errorf("status %d, request %+v", resp.StatusCode, got)
		}
		if auth := got.Header.Get("Authorization"); (auth == "Bearer secret") != (i == 0) {
			t.Errorf("to %s went Authorization %q", to, auth)
		}
	}
	public, err := fetch.New(fetch.Options{})
	if err != nil {
		t.Fatal(err)
	}
	req, _ := http.NewRequest(http.MethodGet, home.URL, nil)
	var address *fetch.AddressError
	if resp, err := public.Do(req); !errors.As(err, &address) {
		t.Errorf("Do at loopback = %v, %v, want an AddressError", resp, err)
	}
}
