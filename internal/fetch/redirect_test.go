package fetch_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"lockstep/internal/fetch"
)

// Requirements: RS-HTTP-02.
func TestRedirects(t *testing.T) {
	t.Parallel()
	locations := map[string]string{
		"/one": "/end", "/relative/x": "../end", "/fragment": "/end#part",
		"/self": "/self", "/ping": "/pong", "/pong": "/ping",
		"/none": "", "/ftp": "ftp://source.example/x", "/bad": "http://[::1", "/nohost": "http:///x",
		"/escape": "/\x1b[31mred", "/space": "/en d", "/refused": "/private",
	}
	for i := range 20 {
		locations[fmt.Sprintf("/chain/%d", i)] = fmt.Sprintf("/chain/%d", i-1)
	}
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		to, ok := locations[r.URL.Path]
		if !ok || r.URL.Path == "/chain/0" {
			_, _ = w.Write([]byte(r.URL.EscapedPath()))
			return
		}
		if to != "" {
			w.Header()["Location"] = []string{to}
		}
		w.WriteHeader([]int{301, 302, 303, 307, 308}[len(to)%5])
	})
	c := client(t, s.URL, fetch.Options{})
	tests := []struct{ path, want string }{
		{"/one", "/end"}, {"/relative/x", "/end"}, {"/fragment", "/end"}, {"/space", "/en%20d"},
		{"/chain/10", "/chain/0"},
		{"/chain/11", "!more than 10 redirects"},
		{"/self", "!redirect to /self not followed: it leads in a circle"},
		{"/ping", "!get HOST/ping: redirected to HOST/pong: redirect to /ping not followed: it leads in a circle"},
		{"/none", "!without a Location"},
		{"/ftp", "!scheme ftp is not http or https"},
		{"/bad", "!redirect to http://[::1 not followed: not a URI"},
		{"/nohost", "!no host in the URI"},
		{"/refused", "!redirect to /private not followed: not here"},
	}
	for _, tt := range tests {
		got, err := get(t.Context(), c, fetch.Request{URI: s.URL + tt.path, Redirect: func(_, to *url.URL) error {
			if to.Path == "/private" {
				return errors.New("not here")
			}
			return nil
		}})
		if want, fails := strings.CutPrefix(tt.want, "!"); fails {
			var redirect *fetch.RedirectError
			want = strings.ReplaceAll(want, "HOST", s.URL)
			if !errors.As(err, &redirect) || !strings.Contains(err.Error(), want) {
				t.Errorf("Get(%s) = %q, %v, want %s", tt.path, got, err, want)
			}
		} else if err != nil || got != want {
			t.Errorf("Get(%s) = %q, %v, want %q", tt.path, got, err, want)
		}
	}
	if _, err := get(t.Context(), c, fetch.Request{URI: s.URL + "/escape", Once: true}); err != nil && strings.Contains(err.Error(), "\x1b") {
		t.Errorf("control characters in %q", err)
	}
}

// Requirements: RS-SEC-01.
func TestRedirectDown(t *testing.T) {
	t.Parallel()
	plain := serve(t, func(w http.ResponseWriter, r *http.Request) { t.Error("redirect from https to http was followed") })
	tls := httptest.NewTLSServer(http.RedirectHandler(plain.URL, http.StatusFound))
	t.Cleanup(tls.Close)
	c := client(t, tls.URL, fetch.Options{CAFile: certificateFile(t, tls)})
	_, err := get(t.Context(), c, fetch.Request{URI: tls.URL})
	if err == nil || !strings.Contains(err.Error(), "from https down to http") {
		t.Errorf("Get = %v, want a refusal", err)
	}
}

// Credentials are sent only to the Source, whatever redirects a request
// follows.
//
// Requirements: RS-HTTP-04.
func TestCredentials(t *testing.T) {
	t.Parallel()
	var seen []string
	note := func(name string) func(http.ResponseWriter, *http.Request) {
		return func(w http.ResponseWriter, r *http.Request) {
			seen = append(seen, name+" "+r.Header.Get("Authorization")+" "+r.Header.Get("X-Key")+r.Header.Get("Cookie"))
		}
	}
	other := serve(t, note("other"))
	home := serve(t, func(w http.ResponseWriter, r *http.Request) {
		note("home")(w, r)
		if to := r.URL.Query().Get("to"); to != "" {
			http.Redirect(w, r, to, http.StatusFound)
		}
	})
	netrc := filepath.Join(t.TempDir(), "netrc")
	if err := os.WriteFile(netrc, []byte("machine 127.0.0.1 login me password secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	withUser := strings.Replace(home.URL, "http://", "http://me:secret@", 1)
	basic := "Basic bWU6c2VjcmV0"
	for _, tt := range []struct {
		name    string
		home    string
		options fetch.Options
		want    string
	}{
		{"token", home.URL, fetch.Options{BearerToken: "abc\n"}, "Bearer abc "},
		{"header", home.URL, fetch.Options{Header: http.Header{"x-key": {"k"}}}, " k"},
		{"header over token", home.URL, fetch.Options{BearerToken: "abc", Header: http.Header{"Authorization": {"Own x"}}}, "Own x "},
		{"netrc", home.URL, fetch.Options{Netrc: netrc}, basic + " "},
		{"address", withUser, fetch.Options{}, basic + " "},
	} {
		seen = nil
		c := client(t, tt.home, tt.options)
		if _, err := get(t.Context(), c, fetch.Request{URI: home.URL + "/?to=" + url.QueryEscape(other.URL)}); err != nil {
			t.Fatal(err)
		}
		if _, err := get(t.Context(), c, fetch.Request{URI: other.URL, Header: http.Header{"Accept": {"*/*"}}}); err != nil {
			t.Fatal(err)
		}
		if want := []string{"home  ", "home " + tt.want, "other  ", "other  "}; !slices.Equal(seen, want) {
			t.Errorf("%s: seen %q, want %q", tt.name, seen, want)
		}
	}
}

// A password in an address is for its host and never part of messages.
func TestNoPasswordsInErrors(t *testing.T) {
	t.Parallel()
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/loop" {
			w.Header().Set("Location", "http://me:secret@"+r.Host+"/loop")
			w.WriteHeader(http.StatusFound)
			return
		}
		w.Header().Set("Content-Length", "10")
		if r.URL.Path == "/none" {
			w.WriteHeader(http.StatusNotFound)
		}
		_, _ = w.Write([]byte("x"))
		panic(http.ErrAbortHandler)
	})
	c := client(t, s.URL, fetch.Options{})
	for _, path := range []string{"/none", "/loop", "/short", ""} {
		_, err := get(t.Context(), c, fetch.Request{URI: strings.Replace(s.URL, "://", "://me:secret@", 1) + path, Once: true})
		if err == nil || strings.Contains(err.Error(), "secret") || !strings.Contains(err.Error(), s.URL) {
			t.Errorf("Get(%s) = %v, want an error without the password", path, err)
		}
	}
}

func TestTrusts(t *testing.T) {
	t.Parallel()
	tests := []struct {
		home, uri string
		want      bool
	}{
		{"https://a.example", "https://a.example/x", true},
		{"https://a.example", "https://A.example:443/x", true},
		{"https://a.example", "http://a.example/x", false},
		{"https://a.example", "https://a.example:8443/x", false},
		{"https://a.example", "https://b.a.example/x", false},
		{"https://a.example", "https://a.example.evil.example/x", false},
		{"http://a.example", "https://a.example/x", true},
		{"http://a.example:8080", "https://a.example/x", false},
		{"//a.example", "https://a.example/x", true},
		{"//a.example", "http://a.example/x", false},
		{"//127.0.0.1:8080", "http://127.0.0.1:8080/x", true},
		{"//127.0.0.1:8080", "http://127.0.0.1:8081/x", false},
		{"", "https://a.example", false},
	}
	for _, tt := range tests {
		if got := fetch.Trusts(tt.home, tt.uri); got != tt.want {
			t.Errorf("home %s trusts %s = %v, want %v", tt.home, tt.uri, got, tt.want)
		}
	}
}

func TestNetrc(t *testing.T) {
	t.Parallel()
	const text = "# mine\nmachine a.example login ann password \"p w\\\"1\"\nmacdef init\nmachine b.example login no\n\n" +
		"machine B.example\n\tlogin bob\n\taccount x\n\tpassword pb\ndefault login any password pd\nmachine late.example login l password p\n"
	tests := []struct{ host, login, password string }{
		{"a.example", "ann", `p w"1`}, {"b.example", "bob", "pb"}, {"c.example", "any", "pd"}, {"late.example", "any", "pd"},
	}
	for _, tt := range tests {
		if login, password, ok := fetch.NetrcEntry(text, tt.host); !ok || login != tt.login || password != tt.password {
			t.Errorf("netrc of %s = %q, %q, %v, want %q, %q", tt.host, login, password, ok, tt.login, tt.password)
		}
	}
	if _, _, ok := fetch.NetrcEntry("machine a login b password c", "d"); ok {
		t.Error("netrc of a host not in it: found")
	}
}

// TestNetrcEntriesStaySeparate: whatever a password contains, and if a value is missing, an
// entry has no login or password of another machine.
func TestNetrcEntriesStaySeparate(t *testing.T) {
	t.Parallel()
	const other = "machine b login bob password other\ndefault login any password pd\n"
	for text, want := range map[string]string{
		"machine a login ann password #secret\n":                 "ann #secret",
		"machine a login #ann password #secret # of the proxy\n": "#ann #secret",
		"machine a # login eve\nlogin ann password p#1\n":        "ann p#1",
		"machine a login ann\n# password eve\npassword p1\n":     "ann p1",
		"machine a login ann password\n# p0\np1\n":               "ann p1",
		"machine a login ann password\n":                         "ann ",
		"machine a login\npassword p1\n":                         " p1",
		"machine a login ann password ":                          "ann ",
		"machine a login ann password default\n":                 "ann default",
		"machine a login login password password\n":              "login password",
		"machine a login ann password \"machine\"\n":             "ann machine",
		"machine a login ann password macdef\n":                  "ann macdef",
		"machine\n":                                              "any pd",
	} {
		login, password, _ := fetch.NetrcEntry(text+other, "a")
		if got := login + " " + password; got != want {
			t.Errorf("netrc %q: %q for a, want %q", text, got, want)
		}
		login, password, _ = fetch.NetrcEntry(text+other, "b")
		if got := login + " " + password; got != "bob other" {
			t.Errorf("netrc %q: %q for b", text, got)
		}
	}
}
