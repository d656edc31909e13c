package unpack_test

import (
	"testing"
)

// TestFind: the member found for a path in a manifest (RS-ZIP-05).
func TestFind(t *testing.T) {
	t.Parallel()
	const (
		composed   = "caf\u00e9.txt"
		decomposed = "cafe\u0301.txt"
	)
	tests := []struct {
		names []string
		path  string
		want  string // "" if there is none
	}{
		{[]string{"a/b"}, "/a/b", "a/b"},
		{[]string{"a/b"}, "a/b", "a/b"},
		{[]string{"a/b"}, "//a/b", "a/b"},
		{[]string{"/a/b"}, "/a/b", "/a/b"},
		{[]string{"a/b"}, "/A/b", ""},
		{[]string{"a/b"}, "/a", ""},
		{[]string{"a/b"}, "", ""},
		{[]string{"a b", "a%20b"}, "/a%20b", "a%20b"},
		{[]string{"a b"}, "/a%20b", "a b"},
		{[]string{"a b"}, "/a%2", ""},
		{[]string{composed}, "/" + decomposed, composed},
		{[]string{decomposed}, "/" + composed, decomposed},
		{[]string{composed, decomposed}, "/" + composed, composed},
		{[]string{composed, decomposed}, "/" + decomposed, decomposed},
		{[]string{decomposed}, "/caf%C3%A9.txt", decomposed},
		{[]string{`a\b\c`}, "/a/b/c", `a\b\c`},
		{[]string{"a/b/c"}, `\a\b\c`, "a/b/c"},
		{[]string{"a/b/c"}, `a\b\c`, "a/b/c"},
		{[]string{`a\b/c`, `a/b\c`}, "/a/b/c", ""},                           // ambiguous
		{[]string{"x/" + composed, `x\` + composed}, "/x/" + decomposed, ""}, // likewise
		{[]string{`\a`}, "/a", `\a`},
		{[]string{"x/manifest.xml", "x/a"}, "/a", "x/a"},
		{[]string{"x/manifest.xml", "x/a", "a"}, "/a", "x/a"},
		{[]string{"x/manifest.xml", "x/a", "b"}, "/b", "b"},
		{[]string{"manifest.xml", "x/manifest.xml", "x/a"}, "/a", ""},
		{[]string{"x/manifest.xml", "y/manifest.xml", "x/a"}, "/a", ""},
		{[]string{"x/y/manifest.xml", "x/y/a"}, "/a", ""},
	}
	for _, tt := range tests {
		var a archive
		for _, name := range tt.names {
			a.files = append(a.files, file{name: name, data: name})
		}
		d := read(t, a.bytes(t))
		got := ""
		if m, ok := d.Find(tt.path); ok {
			got = m.Name
		}
		if got != tt.want {
			t.Errorf("among %q Find(%q) = %q, want %q", tt.names, tt.path, got, tt.want)
		}
	}
}

// TestManifest: where the manifest is (RS-ZIP-07).
func TestManifest(t *testing.T) {
	t.Parallel()
	tests := []struct {
		names        []string
		name, folder string
	}{
		{[]string{"manifest.xml", "a"}, "manifest.xml", ""},
		{[]string{"a", "manifest.xml"}, "manifest.xml", ""},
		{[]string{"/manifest.xml"}, "/manifest.xml", ""},
		{[]string{"x/manifest.xml", "manifest.xml"}, "manifest.xml", ""},
		{[]string{"a", "x/manifest.xml"}, "x/manifest.xml", "x"},
		{[]string{"x/manifest.xml", "y/manifest.xml"}, "", ""},
		{[]string{"x/y/manifest.xml"}, "", ""},
		{[]string{"Manifest.xml"}, "", ""},
		{nil, "", ""},
	}
	for _, tt := range tests {
		var a archive
		for _, name := range tt.names {
			a.files = append(a.files, file{name: name, data: name})
		}
		m, folder := read(t, a.bytes(t)).Manifest()
		name := ""
		if m != nil {
			name = m.Name
		}
		if name != tt.name || folder != tt.folder {
			t.Errorf("among %q the manifest is %q in %q, want %q in %q", tt.names, name, folder, tt.name, tt.folder)
		}
	}
}
