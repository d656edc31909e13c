package gate_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"lockstep/cmd/lockstep/internal/explorer/gate"
)

const address = "127.0.0.1:4711"

func handler(g *gate.Gate) http.Handler {
	return g.Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }),
		func(w http.ResponseWriter, _ *http.Request, status int, why string) { http.Error(w, why, status) })
}

func ask(h http.Handler, path string, edit func(*http.Request)) *http.Response {
	r := httptest.NewRequest(http.MethodGet, path, nil)
	r.Host = address
	if edit != nil {
		edit(r)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Result()
}

// TestToken exchanges the token once for a cookie.
func TestToken(t *testing.T) {
	t.Parallel()
	g := gate.New(address)
	h := handler(g)
	for _, path := range []string{"/", "/?token=", "/?token=wrong", "/assets/style.css"} {
		if resp := ask(h, path, nil); resp.StatusCode != http.StatusForbidden {
			t.Errorf("GET %s without a cookie: %s", path, resp.Status)
		}
	}
	resp := ask(h, "/"+g.Query(), nil)
	if resp.StatusCode != http.StatusSeeOther || resp.Header.Get("Location") != "/" || len(resp.Cookies()) != 1 {
		t.Fatalf("the token: %s, %v", resp.Status, resp.Header)
	}
	cookie := resp.Cookies()[0]
	if !cookie.HttpOnly || cookie.SameSite != http.SameSiteStrictMode || cookie.Domain != "" {
		t.Errorf("the cookie is %v", cookie)
	}
	with := func(r *http.Request) { r.AddCookie(cookie) }
	if resp := ask(h, "/list", with); resp.StatusCode != http.StatusNoContent {
		t.Errorf("with the cookie: %s", resp.Status)
	}
	if resp := ask(h, "/"+g.Query(), nil); resp.StatusCode != http.StatusForbidden {
		t.Errorf("the token again: %s", resp.Status)
	}
	if resp := ask(h, "/"+g.Query(), with); resp.StatusCode != http.StatusSeeOther {
		t.Errorf("the token again in the same browser: %s", resp.Status)
	}
	if resp := ask(h, "/", func(r *http.Request) { r.AddCookie(&http.Cookie{Name: cookie.Name, Value: cookie.Value + "x"}) }); resp.StatusCode != http.StatusForbidden {
		t.Errorf("with another cookie: %s", resp.Status)
	}
}

// TestHost answers only requests to its own address: a stranger's name that leads here
// must be of no use (DNS rebinding).
func TestHost(t *testing.T) {
	t.Parallel()
	g := gate.New(address)
	h := handler(g)
	cookie := ask(h, "/"+g.Query(), nil).Cookies()[0]
	for host, status := range map[string]int{
		address: http.StatusNoContent, "localhost:4711": http.StatusNoContent, "evil.example:4711": http.StatusMisdirectedRequest, "127.0.0.1": http.StatusMisdirectedRequest,
		"127.0.0.1:80": http.StatusMisdirectedRequest, "": http.StatusMisdirectedRequest, "127.0.0.1:4711.evil.example": http.StatusMisdirectedRequest,
	} {
		resp := ask(h, "/", func(r *http.Request) { r.Host = host; r.AddCookie(cookie) })
		if resp.StatusCode != status {
			t.Errorf("Host %q: %s, want %d", host, resp.Status, status)
		}
	}
}
