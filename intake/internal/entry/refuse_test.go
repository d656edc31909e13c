package entry

import (
	"fmt"
	"strings"
	"testing"

	"lockstep/resourcesync"
)

// TestRefusedEntries: what no Destination could use is refused with its place,
// in JSON Lines, through the API and in sidecars: addresses that cannot be
// fetched, or have a fragment or a password, relations that are none, and a
// second canonical link. Links may lead to URIs of any scheme; what is listed can
// be deleted whatever its address.
func TestRefusedEntries(t *testing.T) {
	t.Parallel()
	const link = `{"uri":"https://example.org/a","links":[%s]}`
	for text, want := range map[string]string{
		`{"uri":"ftp://example.org/a"}`:                                                  "cannot be fetched",
		`{"uri":"urn:isbn:123"}`:                                                         "cannot be fetched",
		`{"uri":"file:///etc/passwd"}`:                                                   "cannot be fetched",
		`{"uri":"https://example.org/a#b"}`:                                              "fragment",
		`{"uri":"https://u:s3cret@example.org/a"}`:                                       "password",
		`{"uri":"https://u:s3cret@example.org/a#b"}`:                                     "fragment",
		`{"uri":"https://u:s3cret@example.org/a b"}`:                                     "character",
		`{"uri":"https://u:s3cret@/a"}`:                                                  "no host",
		fmt.Sprintf(link, `{"rel":"alternate","href":"https://u:s3cret@example.org/b"}`): "password",
		`{"uri":"https://example.org:99999/a"}`:                                          "port",
		`{"uri":"urn:isbn:123","change":"deleted"}`:                                      "",
		`{"uri":"HTTPS://example.org/a"}`:                                                "",
		fmt.Sprintf(link, `{"rel":"sitemap","href":"urn:x:y"}`):                          "links[0]: relation \"sitemap\"",
		fmt.Sprintf(link, `{"rel":"describedby","href":"mailto:a@example.org"},{"rel":"urn:x:rel","href":"urn:x:y"}`):                       "",
		fmt.Sprintf(link, `{"rel":"canonical","href":"https://example.org/b"},{"rel":"CANONICAL","href":"https://example.org/c"}`):          "links[1]: a second canonical",
		fmt.Sprintf(link, `{"rel":"canonical","href":"https://example.org/b"},{"rel":"alternate","href":"https://example.org/c#fragment"}`): "",
	} {
		_, err := Decode([]byte(text))
		if (err == nil) != (want == "") || err != nil && (!strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "s3cret")) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

// TestUpstreamLinksDropped: what an upstream links to by no relation, and a second
// canonical link, are left out; the resource stays.
func TestUpstreamLinksDropped(t *testing.T) {
	t.Parallel()
	var d LinkFilter
	var kept []string
	for _, rel := range []string{"canonical", "my-own", "describedby", "canonical", "Canonical", "urn:x:rel"} {
		if d.Check(&resourcesync.Link{Rel: rel, Href: "urn:x:y"}) == nil {
			kept = append(kept, rel)
		}
	}
	if got := strings.Join(kept, " "); got != "canonical describedby urn:x:rel" {
		t.Errorf("kept %s", got)
	}
}
