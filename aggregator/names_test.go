package aggregator_test

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/url"
	"slices"
	"strings"
	"testing"

	"lockstep/aggregator"
	"lockstep/catalog"
)

// hostileParts are what hostile URIs are made of.
var hostileParts = []string{
	"a", "A", "b", ".", "..", "...", "a.", "a%20", "%20", "%2e%2e", "%2E", "%2f", "%2F", "%00", "%0A", "%5C", "%25", "%7E", "~", "%", "%zz", "%~2F", "", "",
	"CON", "nul.txt", "a:b", "%3Fq", "%C3%A9", "e%CC%81", "é", "%c3%a9", ".lockstep", ".LOCKSTEP", "%2elockstep", "_other", "LOCKST~1", "resourcesync", "%~+", "a%25~+",
	strings.Repeat("n", 255), strings.Repeat("n", 256), strings.Repeat("%C3%A9", 200), strings.Repeat(".", 300),
}

// hostileURI returns a URI that file systems cannot take as it is.
func hostileURI() string {
	var b strings.Builder
	b.WriteString([]string{home, home, home, "https://ORIGIN.example/", "https://origin.example:443/", "http://origin.example/", "https://other.example/"}[rand.IntN(7)])
	for i := range 1 + rand.IntN(4) {
		if i > 0 {
			b.WriteByte('/')
		}
		b.WriteString(hostileParts[rand.IntN(len(hostileParts))])
	}
	if rand.IntN(4) == 0 {
		b.WriteString("?" + hostileParts[rand.IntN(len(hostileParts))] + "=/" + hostileParts[rand.IntN(len(hostileParts))])
	}
	return b.String()
}

// TestOwnURIsDependOnTheURIsAtTheUpstreamAlone: neither the order in which resources come
// nor the names of their files decide about them, no two resources have the same one, and
// each is the URI that a client requests and under which it gets the right bytes.
func TestOwnURIsDependOnTheURIsAtTheUpstreamAlone(t *testing.T) {
	t.Parallel()
	uris := []string{home + "a", home + "a/b", home + "a/", home + "A", home + "a%~-", home + "a%~-/b", home + "d/x?q", home + "d/x%3Fq"}
	for range 400 {
		uris = append(uris, hostileURI())
	}
	slices.Sort(uris)
	uris = slices.Compact(uris)
	rand.Shuffle(len(uris), func(i, j int) { uris[i], uris[j] = uris[j], uris[i] })
	var first map[string]string // upstream URIs by own URIs
	for round := range 3 {
		w := newWorld(t)
		for i, uri := range uris {
			w.holdAt(uri, fmt.Sprint(rand.IntN(7), "/", round, "/", i), uri)
		}
		u := w.upstream(aggregator.Options{URI: here + "set/"})
		if r := w.scan(u); r.Skipped.Count > 0 {
			t.Fatalf("not republished: %v", r.Skipped.First)
		}
		own := map[string]string{}
		for r, err := range w.catalog.Resources(t.Context(), list, catalog.Range{}) {
			must(t, err)
			own[r.URI] = r.Links[0].Href
			f, err := u.Bitstream(t.Context(), &r)
			must(t, err)
			text, err := io.ReadAll(f)
			must(t, errors.Join(err, f.Close()))
			if string(text) != r.Links[0].Href {
				t.Errorf("%s has the content of %s, want that of %s", r.URI, text, r.Links[0].Href)
			}
			p, err := url.Parse(r.URI)
			must(t, err)
			if p.String() != r.URI || p.EscapedPath() != p.JoinPath(".").EscapedPath() || !strings.HasPrefix(r.URI, here+"set/") || p.RawQuery != "" || p.Fragment != "" {
				t.Errorf("clients request %q as %q", r.URI, p.JoinPath("."))
			}
		}
		if len(own) != len(uris) {
			t.Errorf("%d own URIs of %d resources", len(own), len(uris))
		}
		if first == nil {
			first = own
		}
		for uri, upstream := range own {
			if first[uri] != upstream {
				t.Errorf("%s is %s, and was %s before", uri, upstream, first[uri])
			}
		}
		rand.Shuffle(len(uris), func(i, j int) { uris[i], uris[j] = uris[j], uris[i] })
	}
}

// TestAWebServerIsGivenNoAddressThatItDoesNotKnow: where a web server serves the files,
// resources whose files have other names are named and not republished.
func TestAWebServerIsGivenNoAddressThatItDoesNotKnow(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.hold("a/b", "text")
	w.hold("c", "text")
	w.holdAt(home+"a", "a%~-", "text")
	r := w.scan(w.upstream(aggregator.Options{Static: true}))
	if r.Skipped.Count != 1 || r.Skipped.First[0].Path != home+"a" || !errors.Is(r.Skipped.First[0].Err, aggregator.ErrPlace) {
		t.Errorf("skipped = %v", r.Skipped.First)
	}
	w.want("a/b via="+home+"a/b", "c via="+home+"c")
}
