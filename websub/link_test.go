package websub_test

import (
	"net/url"
	"slices"
	"strings"
	"testing"

	"lockstep/websub"
)

func base(t testing.TB, uri string) *url.URL {
	t.Helper()
	u, err := url.Parse(uri)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

// Requirements: RS-DISC-05.
func TestParseLinks(t *testing.T) {
	t.Parallel()
	type link struct{ rels, target string }
	type links = []link
	tests := []struct {
		name   string
		values []string
		want   links
	}{
		{"one", []string{`<c.xml>; rel="resourcesync"`}, links{{"resourcesync", "http://h/d/c.xml"}}},
		{"token", []string{`<c.xml>;rel=resourcesync`}, links{{"resourcesync", "http://h/d/c.xml"}}},
		{"several relations", []string{`<c.xml>; rel="Self  RESOURCESYNC"`}, links{{"self resourcesync", "http://h/d/c.xml"}}},
		{"several links", []string{`<a>; rel=next, <b>; rel=prev`, `<c>; rel=up`}, links{{"next", "http://h/d/a"}, {"prev", "http://h/d/b"}, {"up", "http://h/d/c"}}},
		{"comma in URI", []string{`<a,b;c>; rel=x, <d>; rel=y`}, links{{"x", "http://h/d/a,b;c"}, {"y", "http://h/d/d"}}},
		{"comma in quotes", []string{`<a>; title="x, <no>; rel=\"z\""; rel=x, <b>; rel=y`}, links{{"x", "http://h/d/a"}, {"y", "http://h/d/b"}}},
		{"first rel counts", []string{`<a>; rel=x; rel=y`}, links{{"x", "http://h/d/a"}}},
		{"blanks", []string{" \t<a> ;\trel = \"x\" , , <b>;rel=y,"}, links{{"x", "http://h/d/a"}, {"y", "http://h/d/b"}}},
		{"no value", []string{`<a>; crossorigin; rel=x`}, links{{"x", "http://h/d/a"}}},
		{"empty parameter", []string{`<a>;; rel=x;`}, links{{"x", "http://h/d/a"}}},
		{"extended parameter", []string{`<a>; rel*=utf-8''y; title*=UTF-8'de'n%c3%a4chstes; rel=x`}, links{{"x", "http://h/d/a"}}},
		{"anchor elsewhere", []string{`<a>; rel=x; anchor="/other", <b>; rel=y`}, links{{"y", "http://h/d/b"}}},
		{"anchor here", []string{`<a>; rel=x; anchor="", <b>; rel=y; anchor="http://h/d/page"`}, links{{"x", "http://h/d/a"}, {"y", "http://h/d/b"}}},
		{"anchor at a fragment", []string{`<a>; rel=x; anchor="#part"`}, nil},
		{"other host", []string{`<//i/a>; rel=x, <https://j/b>; rel=y`}, links{{"x", "http://i/a"}, {"y", "https://j/b"}}},
		{"empty target", []string{`<>; rel=x`}, links{{"x", "http://h/d/page"}}},
		{"upper case name", []string{`<a>; REL=x`}, links{{"x", "http://h/d/a"}}},
		{"no rel", []string{`<a>; type=b`}, links{{"", "http://h/d/a"}}},
		{"not closed", []string{`<a; rel=x`, `<b>; rel="y`}, links{{"y", "http://h/d/b"}}},
		{"no bracket", []string{`a; rel=x, <b>; rel=y`}, nil},
		{"garbage behind", []string{`<a>; rel=x garbage, <b>; rel=y`}, links{{"x garbage", "http://h/d/a"}, {"y", "http://h/d/b"}}},
		{"bad URI", []string{`<http://[::1>; rel=x, <b>; rel=y`}, links{{"y", "http://h/d/b"}}},
	}
	for _, tt := range tests {
		var got links
		for _, l := range websub.ParseLinks(tt.values, base(t, "http://h/d/page")) {
			got = append(got, link{strings.Join(l.Rels, " "), l.Target})
		}
		if !slices.Equal(got, tt.want) {
			t.Errorf("%s: %q = %v, want %v", tt.name, tt.values, got, tt.want)
		}
	}
}

func TestParseLinksWithoutBase(t *testing.T) {
	t.Parallel()
	links := websub.ParseLinks([]string{`<a?b>; title="x, y"; rel="Self"; type=z, </c>; rel=hub; anchor="/other"`}, nil)
	if len(links) != 2 {
		t.Fatalf("links = %+v, want two", links)
	}
	if l := links[0]; l.Target != "a?b" || !l.Has("self") || l.Raw != `<a?b>; title="x, y"; rel="Self"; type=z` {
		t.Errorf("first link = %+v", l)
	}
	if l := links[1]; l.Target != "/c" || l.Has("hub") || l.Raw != `</c>; rel=hub; anchor="/other"` {
		t.Errorf("second link = %+v, want one that speaks of another resource", l)
	}
}

// A hub delivers at least one hub and one self link, in one field (WS-C-03).
func TestLinkHeader(t *testing.T) {
	t.Parallel()
	tests := []struct {
		self string
		hubs []string
		want string
	}{
		{"http://h/t?a=b", []string{"https://hub/"}, `<https://hub/>; rel="hub", <http://h/t?a=b>; rel="self"`},
		{"http://h/t", []string{"http://a/", "http://b/"}, `<http://a/>; rel="hub", <http://b/>; rel="hub", <http://h/t>; rel="self"`},
		{"http://h/%7Et", nil, `<http://h/%7Et>; rel="self"`},
		{"http://h/>\r\nX: y, <é\"", nil, `<http://h/%3E%0D%0AX:%20y,%20%3C%C3%A9%22>; rel="self"`},
		{"", []string{"http://a/"}, `<http://a/>; rel="hub"`},
	}
	for _, tt := range tests {
		if got := websub.LinkHeader(tt.self, tt.hubs); got != tt.want {
			t.Errorf("LinkHeader(%q, %q) = %s, want %s", tt.self, tt.hubs, got, tt.want)
		}
	}
}

// check checks that the results are absolute URIs, and not too many, whatever
// the input.
func check(t *testing.T, in string, targets []string) {
	t.Helper()
	if len(targets) > 100 {
		t.Errorf("%q: %d links", in, len(targets))
	}
	for _, target := range targets {
		if u, err := url.Parse(target); err != nil || !u.IsAbs() {
			t.Errorf("%q: link to %q, %v", in, target, err)
		}
	}
}

func FuzzLinkHeader(f *testing.F) {
	f.Add(`<c.xml>; rel="resourcesync"; anchor="#x", <a,b>; title*=UTF-8''x; rel=up`)
	f.Add(`<a>; rel="x\"y" , ,<`)
	f.Add(`<//::>; rel=resourcesync`)
	f.Fuzz(func(t *testing.T, s string) {
		var targets []string
		for _, l := range websub.ParseLinks([]string{s}, base(t, "http://h/d/page")) {
			targets = append(targets, l.Target)
		}
		check(t, s, targets)
	})
}
