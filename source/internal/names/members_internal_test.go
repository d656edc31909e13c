package names

import (
	"strings"
	"testing"
)

func TestNames(t *testing.T) {
	t.Parallel()
	n := NewMembers(Place{Prefix: "https://h.example/set/"})
	for _, tt := range []struct{ uri, want string }{
		{"https://h.example/set/a/b.txt", "a/b.txt"},
		{"https://h.example/set/caf%C3%A9/x%20y", "café/x y"},
		{"https://h.example/set/q?a=b&c=%2F", "q~3fa=b&c=~2f"},
		{"https://h.example/set/bad%FFutf8", "bad~ffutf8"},
		{"https://h.example/set/%2e%2E/up", ".~2e/up"},
		{"https://h.example/set/./dot.", "~2e/dot~2e"},
		{"https://h.example/set/dir/", "dir/~"},
		{"https://h.example/set/x//y", "x/~/y"},
		{"https://h.example/set/C:%5Cwin", "C~3a~5cwin"},
		{"https://h.example/set/%00%1B[2J", "~00~1b[2J"},
		{"https://h.example/set/", "~"},
		{"https://h.example/else", "other/h.example/else"},
		{"http://other.example:8080/p%7Bq", "other/other.example~3a8080/p{q"},
		{"urn:isbn:123", "other/urn~3aisbn~3a123"},
	} {
		if got := n.Name(tt.uri); got != tt.want {
			t.Errorf("name(%q) = %q, want %q", tt.uri, got, tt.want)
		}
	}
}

// Names that some system takes for the same are kept apart, and so are files
// and directories of one name.
func TestNamesDoNotClash(t *testing.T) {
	t.Parallel()
	n := NewMembers(Place{Prefix: "http://h/"})
	uris := []string{"a", "A", "a/b", "manifest.xml", "MANIFEST.XML", "manifest.xml/x", "x/y", "X", "x", "é", "e%CC%81", "É", "ſ", "s", "S", "K", "k",
		strings.Repeat("long", 100), strings.Repeat("long", 100) + "2", strings.Repeat("d/", 800) + "deep", strings.Repeat("d/", 800) + "Deep", "a%62", "ab"}
	plain := 0
	var names []string
	for _, uri := range uris {
		name := n.Name("http://h/" + uri)
		checkName(t, name)
		if !strings.HasPrefix(name, "~") {
			plain++
		}
		names = append(names, name)
	}
	for i, a := range names {
		for _, b := range names[i+1:] {
			if clash(a, b) {
				t.Errorf("%q and %q clash", a, b)
			}
		}
	}
	if plain != 9 {
		t.Errorf("%d of %q kept their names, want 9", plain, names)
	}
	// Who knows how names are made cannot make two the same.
	n = NewMembers(Place{Prefix: "http://h/"})
	n.Name("http://h/v")
	escaped := n.Name("http://h/V")
	n = NewMembers(Place{Prefix: "http://h/"})
	seen := map[string]bool{}
	for _, uri := range []string{"http://h/" + escaped, "http://h/v", "http://h/V"} {
		if name := n.Name(uri); seen[name] {
			t.Errorf("%q is given twice", name)
		} else {
			seen[name] = true
		}
	}
}

func clash(a, b string) bool {
	a, b = fold(a), fold(b)
	return a == b || strings.HasPrefix(a, b+"/") || strings.HasPrefix(b, a+"/")
}

func checkName(t *testing.T, name string) {
	t.Helper()
	if name == "" || len(name) > maxName+100 || strings.ToValidUTF8(name, "") != name || strings.ContainsAny(name, "\\:*?\"<>|\x00\x1b\x7f") {
		t.Errorf("%q is no name", name)
	}
	for segment := range strings.SplitSeq(name, "/") {
		if segment == "" || strings.HasSuffix(segment, ".") || strings.HasSuffix(segment, " ") || len(segment) > 255 {
			t.Errorf("%q is no name: segment %q", name, segment)
		}
	}
}

// FuzzName holds that every URI gets a name that can be unpacked anywhere, and
// no two the same.
func FuzzName(f *testing.F) {
	for _, uri := range []string{"http://h/a", "http://h/A", "http://h/%2e%2e/%2e", "http://h/a//b/", "urn:x", "http://h/%ff%00", "x", "http://h/\u1e9e\u0130", "http://g/a"} {
		f.Add(uri, "http://h/a/b")
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		if a == b {
			return
		}
		n := NewMembers(Place{Prefix: "http://h/"})
		x, y := n.Name(a), n.Name(b)
		checkName(t, x)
		checkName(t, y)
		if clash(x, y) || clash(x, ManifestFile) || clash(y, ManifestFile) {
			t.Errorf("%q and %q are named %q and %q", a, b, x, y)
		}
	})
}
