package trust_test

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"lockstep/internal/trust"
)

// TestAddressGrantsNothing: requests are admitted on the admin socket, or with
// a token. The apparent origin of a request has no influence.
func TestAddressGrantsNothing(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "tokens")
	if err := os.WriteFile(file, []byte("first-token\n\n  second-token  \n"), 0o600); err != nil {
		t.Fatal(err)
	}
	tokens, err := trust.ReadTokens(file)
	if err != nil {
		t.Fatal(err)
	}
	const evil, here = "http://evil.example", "http://127.0.0.1:8080"
	for name, tt := range map[string]struct {
		owner          bool // the request is on the admin socket
		method, peer   string
		host           string
		header         map[string]string
		user, password string
		want           int
	}{
		"this machine":                         {want: 401},
		"this machine by name":                 {host: "LocalHost:8080", want: 401},
		"this machine, IPv6":                   {host: "[::1]:8080", peer: "[::1]:1", want: 401},
		"this machine, IPv4 in IPv6":           {peer: "[::ffff:127.0.0.1]:1", want: 401},
		"another machine":                      {peer: "192.0.2.7:999", want: 401},
		"no peer":                              {peer: "@", want: 401},
		"no host":                              {host: "-", want: 401},
		"a proxy":                              {header: map[string]string{"X-Forwarded-For": "127.0.0.1"}, want: 401},
		"a header that claims to be the owner": {header: map[string]string{"X-Lockstep-Owner": "true"}, want: 401},

		"a token":                {peer: "192.0.2.7:999", host: "hub.example.org", header: map[string]string{"Authorization": "Bearer first-token"}, want: 200},
		"the other, by a proxy":  {header: map[string]string{"Authorization": "bearer  second-token", "Via": "1.1 proxy"}, want: 200},
		"a password":             {user: "anybody", password: "second-token", want: 200},
		"another token":          {header: map[string]string{"Authorization": "Bearer third-token"}, want: 401},
		"an empty one":           {header: map[string]string{"Authorization": "Bearer "}, want: 401},
		"an empty password":      {user: "x", want: 401},
		"half a token":           {header: map[string]string{"Authorization": "Bearer first"}, want: 401},
		"another scheme":         {header: map[string]string{"Authorization": "Digest first-token"}, want: 401},
		"a token from elsewhere": {method: "DELETE", header: map[string]string{"Authorization": "Bearer first-token", "Origin": evil}, want: 403},

		"the socket":                                      {owner: true, peer: "@", want: 200},
		"the socket, any host":                            {owner: true, host: "hub", want: 200},
		"the socket, a wrong token":                       {owner: true, header: map[string]string{"Authorization": "Bearer x"}, want: 200},
		"the socket, JSON":                                {owner: true, method: "POST", header: map[string]string{"Content-Type": "application/json; charset=utf-8"}, want: 200},
		"the socket, a form":                              {owner: true, method: "POST", header: map[string]string{"Content-Type": "application/x-www-form-urlencoded"}, want: 415},
		"the socket, plain text":                          {owner: true, method: "POST", header: map[string]string{"Content-Type": "text/plain"}, want: 415},
		"the socket, no type":                             {owner: true, method: "POST", want: 415},
		"the socket, a page of another site":              {owner: true, method: "POST", header: map[string]string{"Content-Type": "application/json", "Origin": evil}, want: 403},
		"the socket, a page of another site, as browsers": {owner: true, method: "DELETE", header: map[string]string{"Sec-Fetch-Site": "cross-site"}, want: 403},
		"the socket, a page of a sister site":             {owner: true, method: "DELETE", header: map[string]string{"Sec-Fetch-Site": "same-site"}, want: 403},
		"the socket, a page of nowhere":                   {owner: true, method: "DELETE", header: map[string]string{"Origin": "null"}, want: 403},
		"the socket, a page of ours":                      {owner: true, method: "DELETE", header: map[string]string{"Origin": here, "Sec-Fetch-Site": "same-origin"}, want: 200},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			method := tt.method
			if method == "" {
				method = "GET"
			}
			r := httptest.NewRequest(method, here+"/-/hub", nil)
			if tt.owner {
				r = r.WithContext(trust.WithOwner(r.Context()))
			}
			r.RemoteAddr = "127.0.0.1:4711"
			if tt.peer != "" {
				r.RemoteAddr = tt.peer
			}
			switch tt.host {
			case "":
			case "-":
				r.Host = ""
			default:
				r.Host = tt.host
			}
			for k, v := range tt.header {
				r.Header.Set(k, v)
			}
			if tt.user != "" {
				r.SetBasicAuth(tt.user, tt.password)
			}
			w := httptest.NewRecorder()
			trust.NewGuard(tokens).Protect(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})).ServeHTTP(w, r)
			if w.Code != tt.want {
				t.Errorf("%d %s, want %d", w.Code, w.Body, tt.want)
			}
			if asked := len(w.Header().Values("WWW-Authenticate")) > 0; asked != (tt.want == 401) {
				t.Errorf("WWW-Authenticate: %v", w.Header()["Www-Authenticate"])
			}
		})
	}
}

// TestNoTokens: a guard without tokens admits only requests on the admin
// socket.
func TestNoTokens(t *testing.T) {
	t.Parallel()
	g := trust.NewGuard(nil)
	r := httptest.NewRequest("GET", "http://127.0.0.1/", nil)
	r.Header.Set("Authorization", "Bearer ")
	if g.Check(r) == nil {
		t.Error("an empty token is accepted")
	}
	r.SetBasicAuth("", "")
	if g.Check(r) == nil {
		t.Error("an empty password is accepted")
	}
	if err := g.Check(r.WithContext(trust.WithOwner(r.Context()))); err != nil {
		t.Errorf("the admin socket: %v", err)
	}
}
