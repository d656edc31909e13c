package websub_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"lockstep/websub"
)

// TestBelow: scheme, host and port must be equal, and whole segments of the
// path.
func TestBelow(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		place, address string
		want           bool
	}{
		{"https://hub.example/", "https://hub.example/", true},
		{"https://hub.example", "https://hub.example/hub?x=1", true},
		{"https://hub.example:443/", "https://HUB.example./x", true},
		{"http://hub.example/", "http://hub.example:80/", true},
		{"http://hub.example:80/", "http://hub.example:8080/", false},
		{"https://hub.example/", "http://hub.example/", false},
		{"http://hub.example:443/", "https://hub.example/", false},
		{"https://hub.example/", "https://hub.example.evil.example/", false},
		{"https://hub.example/", "https://x.hub.example/", false},
		{"https://hub.example/a", "https://hub.example/a", true},
		{"https://hub.example/a/", "https://hub.example/a", true},
		{"https://hub.example/a", "https://hub.example/a/b", true},
		{"https://hub.example/a", "https://hub.example/ab", false},
		{"https://hub.example/a/", "https://hub.example/b/", false},
		{"https://hub.example/a/", "https://hub.example/a/../b/", false},
		{"https://hub.example/a/", "https://hub.example/a/%2e%2e/b", false},
		{"https://hub.example/", "ftp://hub.example/", false},
	} {
		if got := websub.Below(tt.place, tt.address); got != tt.want {
			t.Errorf("Below(%s, %s) = %v", tt.place, tt.address, got)
		}
	}
}

// TestTokenScope: a redirect does not carry the token out of its scope.
func TestTokenScope(t *testing.T) {
	t.Parallel()
	seen := make(chan string, 8)
	note := func(name string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			seen <- name + " " + r.Header.Get("Authorization")
			w.WriteHeader(http.StatusAccepted)
		}
	}
	elsewhere := httptest.NewServer(note("other port"))
	t.Cleanup(elsewhere.Close)
	mux := http.NewServeMux()
	mux.Handle("/a/in", http.RedirectHandler("/a/hub", http.StatusPermanentRedirect))
	mux.Handle("/a/hub", note("below"))
	mux.Handle("/a/out", http.RedirectHandler("/b/hub", http.StatusPermanentRedirect))
	mux.Handle("/b/hub", note("beside"))
	mux.Handle("/a/port", http.RedirectHandler(elsewhere.URL+"/a/hub", http.StatusPermanentRedirect))
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	for _, tt := range []struct{ hub, scope, want string }{
		{"/a/in", "/a/", "below Bearer secret"},
		{"/a/out", "/a/", "beside "},
		{"/a/out", "/", "beside Bearer secret"},
		{"/a/out", "", "beside "},
		{"/a/port", "/a/", "other port "},
	} {
		o := websub.PublisherOptions{Hub: server.URL + tt.hub, Token: "secret", Manner: websub.Fat}
		if tt.scope != "" {
			o.TokenScope = server.URL + tt.scope
		}
		p, err := websub.NewPublisher(o)
		if err != nil {
			t.Fatal(err)
		}
		if err := p.Publish(t.Context(), "https://data.example.org/x", nil, []byte("x")); err != nil {
			t.Fatal(err)
		}
		if got := <-seen; got != tt.want {
			t.Errorf("%s in %s: %q, want %q", tt.hub, tt.scope, got, tt.want)
		}
	}
	if _, err := websub.NewPublisher(websub.PublisherOptions{Hub: server.URL, Token: "secret", TokenScope: elsewhere.URL}); err == nil {
		t.Error("a token of another hub is taken")
	}
}
