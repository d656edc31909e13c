package intake

import (
	"strings"
	"testing"
)

// TestRefusedSidecars: what no Destination could use is refused in sidecars, too.
func TestRefusedSidecars(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`{"links":[{"rel":"my-own","href":"https://example.org/"}]}`:                                                                "links[0]: relation \"my-own\"",
		`{"links":[{"rel":"canonical","href":"https://example.org/"},{"rel":"canonical","href":"https://example.org/2"}]}`:          "links[1]: a second canonical",
		`{"links":[{"rel":"canonical","href":"https://example.org/"},{"rel":"author","href":"mailto:a@example.org","type":"a/b"}]}`: "",
	} {
		_, err := parseSidecar([]byte(text))
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("sidecar %s: %v, want %q", text, err, want)
		}
	}
}

// TestBaseURI: resources are below an address that can be fetched.
func TestBaseURI(t *testing.T) {
	t.Parallel()
	for base, ok := range map[string]bool{"https://example.org/a": true, "http://example.org": true, "ftp://example.org/": false, "https://u:p@example.org/": false, "https://example.org/#a": false} {
		if _, err := parseBase(base); (err == nil) != ok {
			t.Errorf("%s: %v", base, err)
		}
	}
}
