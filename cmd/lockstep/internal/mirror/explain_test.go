package mirror

import (
	"fmt"
	"net"
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
