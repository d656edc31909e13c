package discover_test

import (
	"encoding/pem"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"lockstep/discover"
	"lockstep/internal/fetch"
)

func TestHome(t *testing.T) {
	t.Parallel()
	for addr, want := range map[string]string{
		"https://a.example/x":      "https://a.example/x",
		" HTTP://a.example ":       "http://a.example",
		"a.example":                "//a.example",
		"a.example/x?y":            "//a.example/x?y",
		"127.0.0.1:8080":           "//127.0.0.1:8080",
		"localhost/x":              "//localhost/x",
		"[::1]:8080/":              "//[::1]:8080/",
		"https://me:pw@a.example/": "https://me:pw@a.example/",
		"file:///etc/hosts":        "",
		"./x.xml":                  "",
		"/x.xml":                   "",
		"address_test.go":          "",
		"ftp://a.example":          "",
		"a b":                      "",
		"atom-pmh:https://h.org/f": "https://h.org/f",
		"OAI-PMH:me:pw@h.org/o?x":  "//me:pw@h.org/o?x",
		"oai-pmh:/etc/hosts":       "",
		"":                         "",
	} {
		got := ""
		if u := discover.Home(addr); u != nil {
			got = u.String()
		}
		if got != want {
			t.Errorf("Home(%q) = %q, want %q", addr, got, want)
		}
	}
}

// An address with a password that is not percent-encoded is refused with a message that does
// not have the password, and says how to write it.
func TestCheckShowsNoPassword(t *testing.T) {
	t.Parallel()
	for _, addr := range []string{
		"http://bob:pw#word@a.example:1/", "http://bob:pw/word@a.example:1/", "https://bob:pw?word@a.example:1/x@y",
		"bob:pw#word@a.example:1", "bob:pw/word@a.example:1/", "oai-pmh:http://bob:pw/word@a.example:1/", "atom-pmh:bob:pw/word@a.example:1/",
	} {
		err := discover.Check(addr)
		if err == nil || strings.Contains(err.Error(), "pw") || strings.Contains(err.Error(), "word@") || !strings.Contains(err.Error(), "written as %2F") {
			t.Errorf("Check(%s) = %v", addr, err)
		}
	}
	if err := discover.Check("http://a.example:x/"); err == nil || strings.Contains(err.Error(), "password") {
		t.Errorf("Check of an address without a password = %v", err)
	}
}

// TestCheckAPrefix: a prefix without an address, and one that is none, are reported as that.
func TestCheckAPrefix(t *testing.T) {
	t.Parallel()
	for addr, want := range map[string]string{
		"oai-pmh:":           "oai-pmh: needs a URL",
		"atom-pmh: ":         "atom-pmh: needs a URL",
		"oai:http://h.org/o": "oai:http://h.org/o: prefix oai is not one of atom-pmh and oai-pmh; did you mean oai-pmh:?",
		"x:http://h.org/o":   "x:http://h.org/o: prefix x is not one of atom-pmh and oai-pmh",
	} {
		if err := discover.Check(addr); err == nil || err.Error() != want {
			t.Errorf("Check(%q) = %v, want %s", addr, err, want)
		}
	}
}

// An address without a scheme on loopback is tried by http first.
func TestFindByHTTPS(t *testing.T) {
	t.Parallel()
	srv := &server{site: usual()}
	srv.Server = httptest.NewTLSServer(srv)
	t.Cleanup(srv.Close)
	file := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: srv.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	address := strings.TrimPrefix(srv.URL, "https://")
	c, err := fetch.New(fetch.Options{Home: discover.Home(address), CAFile: file, BearerToken: "x"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	found, err := discover.Find(t.Context(), c, address)
	if err != nil || summary(found.Sets) != both || found.Origin != srv.URL {
		t.Errorf("Find(%s) = %+v, %v, want %s at %s", address, found, err, both, srv.URL)
	}
	_, err = discover.Find(t.Context(), newClient(t, srv.URL), srv.URL)
	if err == nil || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("Find at an unknown authority = %v", err)
	}
}
