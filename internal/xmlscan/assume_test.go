package xmlscan_test

import (
	"strings"
	"testing"

	"lockstep/internal/xmlscan"
)

// TestAssumed gives prefixes that nothing declares the namespaces assumed, and what
// is captured the declarations it needs.
func TestAssumed(t *testing.T) {
	t.Parallel()
	s := xmlscan.New(strings.NewReader(`<r><p:a/><b p:x="1"/><b>p:a</b><c><q:d xmlns:p="urn:other" p:y="2"/></c><p:a xmlns:p="urn:own"/></r>`), xmlscan.Options{
		Namespaces: []string{"urn:p"}, Assumed: []xmlscan.Declaration{{Prefix: "p", URI: "urn:p"}, {Prefix: "q", URI: "urn:q"}},
	})
	if _, err := s.Next(); err != nil {
		t.Fatal(err)
	}
	for i, want := range []struct {
		space xmlscan.Space
		text  string
	}{
		{1, `<p:a xmlns:p="urn:p"/>`},
		{xmlscan.None, `<b xmlns:p="urn:p" p:x="1"/>`},
		{xmlscan.None, `<b>p:a</b>`},
		{xmlscan.None, `<c xmlns:q="urn:q"><q:d xmlns:p="urn:other" p:y="2"/></c>`},
		{xmlscan.Other, `<p:a xmlns:p="urn:own"/>`},
	} {
		if _, err := s.Next(); err != nil {
			t.Fatal(err)
		}
		space := s.Space
		if b, err := s.CaptureDocument(nil, 0); err != nil || string(b) != want.text || space != want.space {
			t.Errorf("%d: %s in %d, error %v, want %s in %d", i, b, space, err, want.text, want.space)
		}
	}
}
