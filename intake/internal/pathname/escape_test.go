package pathname_test

import (
	"strings"
	"testing"

	"lockstep/intake/internal/pathname"
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
		got := pathname.EscapePath(tt.rel)
		if got != tt.want {
			t.Errorf("EscapePath(%q) = %q, want %q", tt.rel, got, tt.want)
		}
		if back, ok := pathname.UnescapePath(got); !ok || back != tt.rel {
			t.Errorf("UnescapePath(%q) = %q, %v, want %q", got, back, ok, tt.rel)
		}
	}
	for _, bad := range []string{"", "/", "a//b", "a/", "/a", ".", "..", "a/../b", "%2e", "%2E", "%41", "%2F", "%00", "a b", "é", "%", "%c3%a9", "a?b", "%4"} {
		if rel, ok := pathname.UnescapePath(bad); ok {
			t.Errorf("UnescapePath(%q) = %q, want refusal", bad, rel)
		}
	}
}

func FuzzUnescapePath(f *testing.F) {
	for _, s := range []string{"a/b", "%FF", "%2F", "..", "a%20b"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if rel, ok := pathname.UnescapePath(s); ok && pathname.EscapePath(rel) != s {
			t.Errorf("EscapePath(UnescapePath(%q)) = %q", s, pathname.EscapePath(rel))
		}
		// Any bytes can be a path if its elements can be names.
		rel := strings.Trim(strings.ReplaceAll(s, "\x00", ""), "/.")
		if rel == "" || strings.Contains(rel, "//") || strings.Contains(rel, "/.") {
			return
		}
		if back, ok := pathname.UnescapePath(pathname.EscapePath(rel)); !ok || back != rel {
			t.Errorf("UnescapePath(EscapePath(%q)) = %q, %v", rel, back, ok)
		}
	})
}
