package term

import (
	"bytes"
	"testing"
	"time"
)

func TestClean(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"plain\ttext\n":            "plain\ttext\n",
		"Ünïcode ✓":                "Ünïcode ✓",
		"\x1b[31mred\x1b[0m":       `\x1b[31mred\x1b[0m`,
		"\x1b]0;title\a":           `\x1b]0;title\x07`,
		"over\rwritten":            `over\x0dwritten`,
		"c1 \u009b31m":             `c1 \x9b31m`,
		"bad \xff utf-8":           `bad \xff utf-8`,
		"right \u202e to left":     `right \u202e to left`,
		"del \x7f, nul \x00":       `del \x7f, nul \x00`,
		"line\u2028separator":      `line\u2028separator`,
		"replacement \ufffd stays": "replacement \ufffd stays",
	} {
		if got := string(clean([]byte(in))); got != want {
			t.Errorf("clean(%q) = %q, want %q", in, got, want)
		}
	}
}

func FuzzClean(f *testing.F) {
	f.Add([]byte("a\x1b[2Jb\xc2\x9b\u202e\n"))
	f.Fuzz(func(t *testing.T, in []byte) {
		out := clean(in)
		for _, r := range string(out) {
			if r != '\n' && r != '\t' && unsafeRune(r) {
				t.Fatalf("clean(%q) = %q holds %q", in, out, r)
			}
		}
		if again := clean(out); !bytes.Equal(again, out) {
			t.Fatalf("clean(clean(%q)) = %q, want %q", in, again, out)
		}
	})
}

func TestNumbers(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ got, want string }{
		{Thousands(0), "0"}, {Thousands(999), "999"}, {Thousands(1000), "1,000"}, {Thousands(1234567), "1,234,567"},
		{Thousands(-1000), "-1,000"}, {Thousands(-999999), "-999,999"},
		{Count(1, "file"), "1 file"}, {Count(2, "entry"), "2 entries"}, {Count(1, "entry"), "1 entry"}, {Count(0, "file"), "0 files"},
		{Size(999), "999 B"}, {Size(1000), "1.0 kB"}, {Size(999_949), "999.9 kB"}, {Size(999_950), "1.0 MB"}, {Size(5e12), "5.0 TB"},
		{Elapsed(1234 * time.Millisecond), "1.23 s"}, {Elapsed(75 * time.Second), "75 s"}, {Elapsed(10 * time.Minute), "10m0s"},
		{Brief(time.Minute), "1m"}, {Brief(2 * time.Hour), "2h"}, {Brief(90 * time.Second), "1m30s"}, {Brief(10 * time.Second), "10s"}, {Brief(30*time.Minute + time.Hour), "1h30m"},
	} {
		if tt.got != tt.want {
			t.Errorf("got %q, want %q", tt.got, tt.want)
		}
	}
}

// TestScreen: lines stand above the bar, and what a stranger says in either
// stays text.
func TestScreen(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	io := IO{Out: &out, Err: &out}.Safe()
	io.screen.bar = "[==  ]"
	io.Errorf("warning: %s\n", "\x1b[2J")
	if got, want := out.String(), eraseLine+"warning: \\x1b[2J\n[==  ]"; got != want {
		t.Errorf("wrote %q, want %q", got, want)
	}
	out.Reset()
	io.Printf("%s\n", "a\x07b")
	if got, want := out.String(), "a\\x07b\n"; got != want {
		t.Errorf("wrote %q, want %q", got, want)
	}
}
