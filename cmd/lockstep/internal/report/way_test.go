package report

import (
	"bytes"
	"testing"

	"lockstep/cmd/lockstep/internal/term"
)

// TestWay: the host of the first address is printed once, others always.
func TestWay(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		way  []string
		want string
	}{
		{[]string{
			"http://h:1/: its Link header names http://h:1/a/list.xml",
			"http://h:1/a/list.xml: Capability List; its link leads up to http://h:1/.well-known/resourcesync",
			"http://h:12/b: named by http://h:12/, not by http://m/http://h:1/x",
		}, "  by way of http://h:1/: its Link header names /a/list.xml\n" +
			"  by way of /a/list.xml: Capability List; its link leads up to /.well-known/resourcesync\n" +
			"  by way of http://h:12/b: named by http://h:12/, not by http://m/http://h:1/x\n"},
		{[]string{"http://h: a document", "list.xml: a file"}, "  by way of http://h: a document\n  by way of list.xml: a file\n"},
		{[]string{"file:///a/b: of http://h/"}, "  by way of file:///a/b: of http://h/\n"},
		{nil, ""},
	} {
		var out bytes.Buffer
		PrintWay(term.IO{Out: &out}, c.way)
		if out.String() != c.want {
			t.Errorf("%q:\n%s, want\n%s", c.way, &out, c.want)
		}
	}
}
