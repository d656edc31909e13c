package report

import (
	"crypto/x509"
	"fmt"
	"io/fs"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"lockstep/destination"
	"lockstep/destination/filename"
	"lockstep/internal/certerror"
	"lockstep/internal/fetch"
)

func TestCauseOf(t *testing.T) {
	t.Parallel()
	const uri = "http://h/a/5"
	for text, want := range map[string]string{
		"get http://h/a/5: status 503 Service Unavailable (5 tries)":                                          "status 503 Service Unavailable",
		"get http://h/a/5: read tcp 127.0.0.1:53212->10.0.0.1:80: connection reset by peer":                   "read tcp 10.0.0.1:80: connection reset by peer",
		"get http://h/a/5: body ended early after 5 of 10 bytes":                                              "body ended early after … bytes",
		"http://h/a/5: sha-256 is " + strings.Repeat("ab", 32):                                                "it: sha-256 is …",
		"get http://h/a/5: h has failed every request since 2026-05-01T10:00:00Z: dial tcp: connection reset": "h has failed every request since …: dial tcp: connection reset",
	} {
		if got := causeOf(text, uri); got != want {
			t.Errorf("causeOf(%q) = %q, want %q", text, got, want)
		}
	}
}

// TestCausesOfFiles: failures at places of the mirror are of one cause, whatever the files are called.
func TestCausesOfFiles(t *testing.T) {
	t.Parallel()
	for what, cause := range map[string]func(name string) error{
		"in the way": func(name string) error { return &filename.TakenError{URI: "http://h/" + name, Path: name} },
		"not written": func(name string) error {
			return fmt.Errorf("store http://h/%s in mirror: %w", name, &fs.PathError{Op: "write", Path: name, Err: syscall.EFBIG})
		},
		"not renamed": func(name string) error {
			return fmt.Errorf("store http://h/%s in mirror: %w", name, &os.LinkError{Op: "rename", Old: ".lockstep/tmp/" + name, New: name, Err: syscall.EACCES})
		},
		"not stored": func(name string) error { return fmt.Errorf("store %s: no room", name) },
	} {
		var c Causes
		for i := range 2 * maxCauses {
			name := fmt.Sprintf("%d b", i)
			c.Add("failed", destination.Event{URI: "http://h/" + name, Path: name, Err: cause(name)})
		}
		if lines := c.Take(); len(lines) != 1 || !strings.HasPrefix(lines[0], "failed: 200 resources") {
			t.Errorf("%s: %q", what, lines)
		}
	}
}

func TestCausesAreBounded(t *testing.T) {
	t.Parallel()
	var c Causes
	for i := range 10 * maxCauses {
		c.Add("failed", destination.Event{URI: "http://h/a", Err: fmt.Errorf("cause %c%c", 'a'+i%26, 'a'+i/26%26)})
	}
	if len(c.groups) > maxCauses+1 {
		t.Errorf("%d groups are kept, want at most %d", len(c.groups), maxCauses+1)
	}
	lines := c.Take()
	if len(lines) > maxCausesSaid+1 {
		t.Errorf("%d lines, want at most %d", len(lines), maxCausesSaid+1)
	}
	if said := lines[len(lines)-1]; !strings.Contains(said, "of at least 81 further causes") {
		t.Errorf("says %q", said)
	}
}

// TestCausesHint: where the certificate of a host is not accepted, the hint is that of the
// first such error, unless a server denied access.
func TestCausesHint(t *testing.T) {
	t.Parallel()
	err := certerror.Explain(x509.CertificateInvalidError{Reason: x509.Expired, Cert: &x509.Certificate{NotAfter: time.Unix(0, 0)}}, "example.org")
	c := &Causes{}
	c.Add("failed", destination.Event{URI: "https://example.org/a", Err: &fetch.Error{URI: "https://example.org/a", Err: err}})
	if hint := c.Hint(""); !strings.Contains(hint, "renew") || c.Hint("") != "" {
		t.Errorf("hint %q, then %q", hint, c.Hint(""))
	}
}

// TestCausesHintOtherHost: where another host than that of the Source cannot be reached, the
// hint says whose address may be wrong.
func TestCausesHintOtherHost(t *testing.T) {
	t.Parallel()
	lost := &net.OpError{Op: "dial", Err: &net.DNSError{Err: "no such host", Name: "data.example.org", IsNotFound: true}}
	for source, want := range map[string]string{
		"http://127.0.0.1:8080/":    "http://127.0.0.1:8080/ names resources below https://data.example.org/; if they are not served there",
		"https://data.example.org/": "",
	} {
		c := &Causes{}
		c.Add("failed", destination.Event{URI: "https://data.example.org/a", Err: fmt.Errorf("fetch: %w", &fetch.Error{URI: "https://data.example.org/a", Err: lost})})
		if hint := c.Hint(source); !strings.HasPrefix(hint, want) || (hint == "") != (want == "") {
			t.Errorf("hint %q, want %q", hint, want)
		}
	}
}

func TestCausesHideSecrets(t *testing.T) {
	t.Parallel()
	var c Causes
	for i := range 3 {
		uri := fmt.Sprintf("http://h/a%d?token=SECRET", i)
		c.Add("failed", destination.Event{URI: uri, Err: fmt.Errorf("verify %s: length is 1, the Source states 2", uri)})
	}
	const want = "failed: 3 resources at h: verify it: length is 1, the Source states 2; for example http://h/a0?token=REDACTED"
	if lines := c.Take(); len(lines) != 1 || lines[0] != want {
		t.Errorf("%q, want %s", lines, want)
	}
}
