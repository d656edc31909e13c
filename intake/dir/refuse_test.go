package dir

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
