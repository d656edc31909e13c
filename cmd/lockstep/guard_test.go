package main

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
)

// TestGuard shows who gets in, with a file of tokens and without.
func TestGuard(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "tokens")
	if err := os.WriteFile(file, []byte("first-token\n\n  second-token  \n"), 0o600); err != nil {
		t.Fatal(err)
	}
	const evil, here = "http://evil.example", "http://127.0.0.1:8080"
	for name, tt := range map[string]struct {
		tokens         bool
		method, peer   string
		host           string
		header         map[string]string
		user, password string
		want           int
	}{
		"this machine":                        {want: 200},
		"this machine by name":                {host: "LocalHost:8080", want: 200},
		"this machine, IPv6":                  {host: "[::1]:8080", peer: "[::1]:1", want: 200},
		"this machine, IPv4 in IPv6":          {peer: "[::ffff:127.0.0.1]:1", want: 200},
		"another machine":                     {peer: "192.0.2.7:999", want: 403},
		"no peer":                             {peer: "@", want: 403},
		"a name that now means this machine":  {host: "rebound.example", want: 403},
		"no host":                             {host: "-", want: 403},
		"a proxy":                             {header: map[string]string{"X-Forwarded-For": "192.0.2.7"}, want: 403},
		"a proxy that says nothing":           {header: map[string]string{"X-Forwarded-For": ""}, want: 403},
		"a proxy, by the standard":            {header: map[string]string{"Forwarded": "for=127.0.0.1"}, want: 403},
		"a token nobody asked for":            {peer: "192.0.2.7:999", header: map[string]string{"Authorization": "Bearer first-token"}, want: 403},
		"JSON":                                {method: "POST", header: map[string]string{"Content-Type": "application/json; charset=utf-8"}, want: 200},
		"a form":                              {method: "POST", header: map[string]string{"Content-Type": "application/x-www-form-urlencoded"}, want: 415},
		"plain text":                          {method: "POST", header: map[string]string{"Content-Type": "text/plain"}, want: 415},
		"nothing said of the body":            {method: "POST", want: 415},
		"a page of elsewhere":                 {method: "POST", header: map[string]string{"Content-Type": "application/json", "Origin": evil}, want: 403},
		"a page of elsewhere, as browsers do": {method: "DELETE", header: map[string]string{"Sec-Fetch-Site": "cross-site"}, want: 403},
		"a page of a sister":                  {method: "DELETE", header: map[string]string{"Sec-Fetch-Site": "same-site"}, want: 403},
		"a page of nowhere":                   {method: "DELETE", header: map[string]string{"Origin": "null"}, want: 403},
		"a page of ours":                      {method: "DELETE", header: map[string]string{"Origin": here, "Sec-Fetch-Site": "same-origin"}, want: 200},
		"no page":                             {method: "DELETE", want: 200},

		"no token":               {tokens: true, want: 401},
		"a token":                {tokens: true, peer: "192.0.2.7:999", host: "hub.example.org", header: map[string]string{"Authorization": "Bearer first-token"}, want: 200},
		"the other, by a proxy":  {tokens: true, header: map[string]string{"Authorization": "bearer  second-token", "Via": "1.1 proxy"}, want: 200},
		"a password":             {tokens: true, user: "anybody", password: "second-token", want: 200},
		"another token":          {tokens: true, header: map[string]string{"Authorization": "Bearer third-token"}, want: 401},
		"an empty one":           {tokens: true, header: map[string]string{"Authorization": "Bearer "}, want: 401},
		"an empty password":      {tokens: true, user: "x", want: 401},
		"half a token":           {tokens: true, header: map[string]string{"Authorization": "Bearer first"}, want: 401},
		"another scheme":         {tokens: true, header: map[string]string{"Authorization": "Digest first-token"}, want: 401},
		"a token from elsewhere": {tokens: true, method: "DELETE", header: map[string]string{"Authorization": "Bearer first-token", "Origin": evil}, want: 403},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := ""
			if tt.tokens {
				path = file
			}
			g, err := newGuard(path)
			if err != nil {
				t.Fatal(err)
			}
			method := tt.method
			if method == "" {
				method = "GET"
			}
			r := httptest.NewRequest(method, here+"/-/hub", nil)
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
			g.protect(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})).ServeHTTP(w, r)
			if w.Code != tt.want {
				t.Errorf("%d %s, want %d", w.Code, w.Body, tt.want)
			}
			if asked := len(w.Header().Values("WWW-Authenticate")) > 0; asked != (tt.want == 401) {
				t.Errorf("WWW-Authenticate: %v", w.Header()["Www-Authenticate"])
			}
		})
	}
}

// TestGuardTokenFile refuses files without tokens: they would let in nobody, or
// everybody who sends nothing.
func TestGuardTokenFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, text := range map[string]string{"empty": "", "blank": " \n\n", "large": string(make([]byte, maxTokenFile+1))} {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := newGuard(path); exitCode(err) != exitUsage {
			t.Errorf("%s: %v, want a mistake in usage", name, err)
		}
	}
	if _, err := newGuard(filepath.Join(dir, "missing")); exitCode(err) != exitUsage {
		t.Errorf("no file: %v, want a mistake in usage", err)
	}
}
