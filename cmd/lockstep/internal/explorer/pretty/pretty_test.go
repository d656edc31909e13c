package pretty_test

import (
	"fmt"
	"strings"
	"testing"

	"lockstep/cmd/lockstep/internal/explorer/pretty"
)

func TestLines(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ in, want string }{
		"nested":     {"<a><b x='1'>text</b><c/></a>", "1:1 <a>\n1:4   <b x='1'>text</b>\n1:21   <c/>\n1:25 </a>\n"},
		"lines":      {"<a\n  x=\"1\"\n  y=\"2 > 1\">\n\n t </a>", "1:1 <a x=\"1\" y=\"2 > 1\">t</a>\n"},
		"comment":    {"<a><!-- x > <b> --><![CDATA[<y>]]></a>", "1:1 <a>\n1:4   <!-- x > <b> -->\n1:20   <![CDATA[<y>]]>\n1:35 </a>\n"},
		"mixed":      {"<a>x<b>y</b>z</a>", "1:1 <a>x\n1:5   <b>y</b>\n1:13   z\n1:14 </a>\n"},
		"characters": {"<ä>ö</ä>\n<b>", "1:1 <ä>ö</ä>\n2:1 <b>\n"},
		"cut":        {"<a><b", "1:1 <a>\n1:4   <b\n"},
		"too many":   {"</a></b>x", "1:1 </a>\n1:5 </b>\n1:9 x\n"},
		"control":    {"<a>\x1b[1m\xff</a>", "1:1 <a> [1m\uFFFD</a>\n"},
		"empty":      {"", ""},
	} {
		var got strings.Builder
		for line := range pretty.Lines(strings.NewReader(c.in)) {
			fmt.Fprintf(&got, "%d:%d %s\n", line.Line, line.Column, line.Indented())
		}
		if got.String() != c.want {
			t.Errorf("%s:\n%swant\n%s", name, got.String(), c.want)
		}
	}
}

// TestLong limits what one token takes.
func TestLong(t *testing.T) {
	t.Parallel()
	in := "<a x='" + strings.Repeat("y", 1<<20) + "'>" + strings.Repeat("z", 1<<20) + strings.Repeat("<d>", 1000)
	for line := range pretty.Lines(strings.NewReader(in)) {
		if len(line.Indented()) > 10_000 {
			t.Errorf("a line has %d bytes", len(line.Indented()))
		}
	}
}

func FuzzLines(f *testing.F) {
	f.Add("<a b='c'>d<!-- e --></a>")
	f.Fuzz(func(t *testing.T, in string) {
		n := 0
		for line := range pretty.Lines(strings.NewReader(in)) {
			if n++; strings.ContainsAny(line.Text, "\n\r\x1b") {
				t.Errorf("a line is %q", line.Text)
			}
		}
		if n > len(in) {
			t.Errorf("%d lines of %d bytes", n, len(in))
		}
	})
}
