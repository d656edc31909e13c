package mirror

import (
	"fmt"
	"io/fs"
	"net"
	"path/filepath"
	"syscall"
	"testing"

	"lockstep/cmd/lockstep/internal/term"
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
