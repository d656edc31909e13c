package intake_test

import (
	"strings"
	"testing"

	"lockstep/catalog"
	"lockstep/intake"
)

func TestEscapePath(t *testing.T) {
	t.Parallel()
	tests := []struct{ rel, want string }{
		{"a/b.txt", "a/b.txt"},
		{"a b", "a%20b"},
		{"100%", "100%25"},
		{"%2F", "%252F"},
		{"é", "%C3%A9"},
		{"\xff", "%FF"},
		{"new\nline", "new%0Aline"},
		{"q?x#y", "q%3Fx%23y"},
		{"-._~!$&'()*+,;=:@", "-._~!$&'()*+,;=:@"},
		{"\"<>[]\\^`{|}", "%22%3C%3E%5B%5D%5C%5E%60%7B%7C%7D"},
	}
	for _, tt := range tests {
		got := intake.EscapePath(tt.rel)
		if got != tt.want {
			t.Errorf("EscapePath(%q) = %q, want %q", tt.rel, got, tt.want)
		}
		if back, ok := intake.UnescapePath(got); !ok || back != tt.rel {
			t.Errorf("UnescapePath(%q) = %q, %v, want %q", got, back, ok, tt.rel)
		}
	}
	for _, bad := range []string{"", "/", "a//b", "a/", "/a", ".", "..", "a/../b", "%2e", "%2E", "%41", "%2F", "%00", "a b", "é", "%", "%c3%a9", "a?b", "%4"} {
		if rel, ok := intake.UnescapePath(bad); ok {
			t.Errorf("UnescapePath(%q) = %q, want refusal", bad, rel)
		}
	}
}

func FuzzUnescapePath(f *testing.F) {
	for _, s := range []string{"a/b", "%FF", "%2F", "..", "a%20b"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if rel, ok := intake.UnescapePath(s); ok && intake.EscapePath(rel) != s {
			t.Errorf("EscapePath(UnescapePath(%q)) = %q", s, intake.EscapePath(rel))
		}
		// Any bytes can be a path if its elements can be names.
		rel := strings.Trim(strings.ReplaceAll(s, "\x00", ""), "/.")
		if rel == "" || strings.Contains(rel, "//") || strings.Contains(rel, "/.") {
			return
		}
		if back, ok := intake.UnescapePath(intake.EscapePath(rel)); !ok || back != rel {
			t.Errorf("UnescapePath(EscapePath(%q)) = %q, %v", rel, back, ok)
		}
	})
}

func TestBaseURI(t *testing.T) {
	t.Parallel()
	for base, want := range map[string]string{
		"https://example.org":    "https://example.org/a%20b",
		"https://example.org/d":  "https://example.org/d/a%20b",
		"https://example.org/d/": "https://example.org/d/a%20b",
	} {
		d, err := intake.NewDir(".", catalog.NewMem(nil), set, intake.DirOptions{BaseURI: base})
		if err != nil {
			t.Fatal(err)
		}
		if got := d.URI("a b"); got != want {
			t.Errorf("under %s: URI = %s, want %s", base, got, want)
		}
		if rel, ok := d.RelPath(want); !ok || rel != "a b" {
			t.Errorf("RelPath(%s) = %q, %v", want, rel, ok)
		}
		if rel, ok := d.RelPath("https://example.com/a"); ok {
			t.Errorf("RelPath of another origin = %q", rel)
		}
	}
	for _, bad := range []string{"", "example.org", "/data/", "https://x/?q", "https://x/#f", "https://", ":"} {
		if _, err := intake.NewDir(".", catalog.NewMem(nil), set, intake.DirOptions{BaseURI: bad}); err == nil {
			t.Errorf("NewDir takes the base URI %q", bad)
		}
	}
}
