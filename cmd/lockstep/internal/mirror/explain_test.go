package mirror

import (
	"fmt"
	"io/fs"
	"net"
	"path/filepath"
	"syscall"
	"testing"

	"lockstep/cmd/lockstep/internal/term"
	"lockstep/internal/fetch"
)

// TestUnknownHost: a file that is not there is taken for the name of a host; the hint says so.
func TestUnknownHost(t *testing.T) {
	t.Parallel()
	err := Explain(fmt.Errorf("get: %w", &net.DNSError{Err: "no such host", Name: "list.xml", IsNotFound: true}), "mirror")
	if want := "check the name of the host; if list.xml is meant to be a file or directory, there is none here"; term.HintOf(err) != want {
		t.Errorf("the hint is %q, want %q", term.HintOf(err), want)
	}
	if err := Explain(&net.DNSError{Err: "server misbehaving", Name: "example.org", IsTemporary: true}, "mirror"); term.HintOf(err) != "" {
		t.Errorf("a failing name server has the hint %q", term.HintOf(err))
	}
}

// TestForbiddenMirror: the error about a mirror that may not be read says as which user to run;
// other forbidden files and connections have no such hint.
func TestForbiddenMirror(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]string{
		filepath.Join("mirror", ".lockstep", "lock"): "run this as the user to whom ./mirror belongs",
		"list.xml": "",
	} {
		err := Explain(fmt.Errorf("lock mirror: %w", &fs.PathError{Op: "lstat", Path: path, Err: syscall.EACCES}), "./mirror")
		if got := term.HintOf(err); got != want {
			t.Errorf("%s: the hint is %q, want %q", path, got, want)
		}
	}
	if hint := term.HintOf(Explain(&net.OpError{Op: "dial", Err: syscall.EACCES}, "mirror")); hint != "" {
		t.Errorf("a forbidden connection has the hint %q", hint)
	}
}

// TestDocumentsElsewhere: where the documents of a Source name a host that cannot be reached, the
// hint names the base URL that they have; the Source itself has the hint about the host.
func TestDocumentsElsewhere(t *testing.T) {
	t.Parallel()
	const elsewhere = "http://127.0.0.1:8080/ names documents below %s; if they are not served there, its operator has to correct its base URL (--base-url of lockstep serve and publish)"
	unknown := &net.DNSError{Err: "no such host", Name: "exmple.org", IsNotFound: true}
	for _, c := range []struct {
		source, uri string
		err         error
		want        string
	}{
		{"http://127.0.0.1:8080/", "http://exmple.org/resourcesync/main/capabilitylist.xml", unknown, fmt.Sprintf(elsewhere, "http://exmple.org/")},
		{"http://me:secret@127.0.0.1:8080/", "http://127.0.0.1:9/x/resourcesync/main/capabilitylist.xml", &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}, fmt.Sprintf(elsewhere, "http://127.0.0.1:9/x/")},
		{"http://127.0.0.1:8080/", "http://exmple.org/list.xml", unknown, fmt.Sprintf(elsewhere, "http://exmple.org/")},
		{"exmple.org", "http://exmple.org/", unknown, "check the name of the host; if exmple.org is meant to be a file or directory, there is none here"},
		{"http://exmple.org:80/", "http://exmple.org/", unknown, "check the name of the host; if exmple.org is meant to be a file or directory, there is none here"},
		{"http://127.0.0.1:8080/", "http://exmple.org/list.xml", &fetch.StatusError{Status: 404}, ""},
		{"http:/exmple.org/a", "http://http:/exmple.org/a", &net.DNSError{Err: "no such host", Name: "http", IsNotFound: true}, "did you mean http://exmple.org/a?"},
		{"https:/me:secret@exmple.org/", "http://https:/me:secret@exmple.org/", &net.DNSError{Err: "no such host", Name: "https", IsNotFound: true}, "did you mean https://exmple.org/?"},
	} {
		err := ExplainSource(fmt.Errorf("read: %w", &fetch.Error{URI: c.uri, Err: c.err}), c.source, "mirror")
		if got := term.HintOf(err); got != c.want {
			t.Errorf("%s of %s: the hint is %q, want %q", c.uri, c.source, got, c.want)
		}
	}
}
