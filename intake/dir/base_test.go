package dir_test

import (
	"testing"

	"lockstep/catalog"
	"lockstep/intake/dir"
)

func TestBaseURI(t *testing.T) {
	t.Parallel()
	for base, want := range map[string]string{
		"https://example.org":    "https://example.org/a%20b",
		"https://example.org/d":  "https://example.org/d/a%20b",
		"https://example.org/d/": "https://example.org/d/a%20b",
	} {
		d, err := dir.New(".", catalog.NewMem(nil), set, dir.Options{BaseURI: base})
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
		if _, err := dir.New(".", catalog.NewMem(nil), set, dir.Options{BaseURI: bad}); err == nil {
			t.Errorf("NewDir takes the base URI %q", bad)
		}
	}
}
