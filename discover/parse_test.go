package discover_test

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"

	"lockstep/discover"
)

func base(t testing.TB, uri string) *url.URL {
	t.Helper()
	u, err := url.Parse(uri)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

// Requirements: RS-DISC-08.
func TestRobots(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, text string
		want       []string
	}{
		{"one", "Sitemap: http://h/a.xml\n", []string{"http://h/a.xml"}},
		{"any case, blanks", "  siteMAP \t:\thttp://h/a.xml  ", []string{"http://h/a.xml"}},
		{"in groups", "User-agent: x\nDisallow: /\nSitemap: http://h/a\n\nUser-agent: *\nSitemap: http://h/b\nSitemap: http://h/a", []string{"http://h/a", "http://h/b"}},
		{"comments", "# Sitemap: http://h/no\nSitemap: http://h/a#x # note\nSitemap: http://h/b\t#note", []string{"http://h/a#x", "http://h/b"}},
		{"byte order mark", "\ufeffSitemap: http://h/a", []string{"http://h/a"}},
		{"line ends", "Sitemap: http://h/a\rSitemap: http://h/b\r\nSitemap: http://h/c", []string{"http://h/a", "http://h/b", "http://h/c"}},
		{"relative", "Sitemap: /a.xml", []string{"http://h/a.xml"}},
		{"not UTF-8", "Sitemap: http://h/\xff\nSitemap: http://h/a", []string{"http://h/a"}},
		{"other fields", "Sitemaps: http://h/a\nSitemap http://h/b\nX-Sitemap: http://h/c", nil},
		{"a page", "<html>Sitemap: http://h/a</html>", nil},
		{"empty value", "Sitemap:\nSitemap: #", nil},
		{"long line", strings.Repeat("x", 100000) + "\nSitemap: http://h/a", []string{"http://h/a"}},
	}
	for _, tt := range tests {
		if got, err := discover.ParseRobots(strings.NewReader(tt.text), base(t, "http://h/robots.txt")); err != nil || !slices.Equal(got, tt.want) {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
}

// TestManySitemaps: all Sitemaps of a robots.txt are sets; where it names more than a
// Source may have, the rest is not left out without an error.
func TestManySitemaps(t *testing.T) {
	t.Parallel()
	for n, want := range map[int]int{21: 21, 1001: 0} {
		s := site{}
		for i := range n {
			path := fmt.Sprintf("/s%d.xml", i)
			s["/robots.txt"] += "Sitemap: HOST" + path + "\n"
			s[path] = doc("", nil, "HOST/page")
		}
		srv := s.serve(t)
		found, err := discover.Find(t.Context(), srv.client, srv.URL)
		switch {
		case want == 0 && (err == nil || srv.strip(err.Error()) != "read HOST/robots.txt: more than 1000 Sitemaps; give the address of a document of the Source"):
			t.Errorf("%d Sitemaps: %v", n, err)
		case want > 0 && (err != nil || len(found.Sets) != want):
			t.Errorf("%d Sitemaps: %+v, %v", n, found, err)
		}
	}
	// What the lines before lead to is used nevertheless.
	s := usual().with(site{"/.well-known/resourcesync": "", "/robots.txt": "Sitemap: HOST/rs/maps/resourcelist.xml\n"})
	for i := range 1000 {
		s["/robots.txt"] += fmt.Sprintf("Sitemap: HOST/s%d.html\n", i)
		s[fmt.Sprintf("/s%d.html", i)] = "no document"
	}
	srv := s.serve(t)
	found, err := discover.Find(t.Context(), srv.client, srv.URL)
	if err != nil || len(found.Sets) != 2 || found.Sets[0].Err != nil || found.Sets[1].Err == nil {
		t.Errorf("a Resource List and others: %+v, %v", found, err)
	}
}

// TestLongPages: where a page or robots.txt is longer than what is read of it, the rest
// may announce a document, so nothing is guessed.
func TestLongPages(t *testing.T) {
	t.Parallel()
	blank := strings.Repeat("# blank\n", 1<<17)
	const link = `<link rel="resourcesync" href="/rs/maps/capabilitylist.xml">`
	for _, tt := range []struct {
		name, page, robots string
		want               string // an error; "": the set that is announced
		sets               int
	}{
		{name: "long tag", page: `<html><head><link rel="icon" href="data:` + strings.Repeat("x", 300<<10) + `">` + link, sets: 1},
		{name: "long body", page: `<html><head></head><body>` + strings.Repeat("x", 3<<20) + link, robots: "Sitemap: HOST/rs/maps/resourcelist.xml\n", sets: 1},
		{name: "long head", page: `<html><head><title>x</title><style>` + strings.Repeat("x", 3<<20) + `</style>` + link,
			want: "read HOST: longer than 2097152 bytes; give the address of a document of the Source"},
		{name: "long head after a link", page: `<html><head>` + link + `<style>` + strings.Repeat("x", 3<<20), sets: 2},
		{name: "the same link often", page: `<html>` + strings.Repeat(link, 200), sets: 1},
		{name: "long robots.txt", page: "<html>", robots: blank + "Sitemap: HOST/rs/maps/resourcelist.xml\n",
			want: "read HOST/robots.txt: longer than 1048576 bytes; give the address of a document of the Source"},
		{name: "long robots.txt, cut in a line", page: "<html>", robots: blank[:len(blank)-20] + "\nSitemap: HOST/rs/maps/resourcelist.xml\n",
			want: "read HOST/robots.txt: longer than 1048576 bytes; give the address of a document of the Source"},
		{name: "long robots.txt after a Sitemap", page: "<html>", robots: "Sitemap: HOST/rs/maps/resourcelist.xml\n" + blank, sets: 2},
		{name: "robots.txt of the limit", page: "<html>", robots: "Sitemap: /rs/maps/resourcelist.xml\n" + blank[:1<<20-len("Sitemap: /rs/maps/resourcelist.xml\n")], sets: 1},
	} {
		s := usual().with(site{"/.well-known/resourcesync": "", "/": tt.page, "/robots.txt": tt.robots}).withPages()
		srv := s.serve(t)
		found, err := discover.Find(t.Context(), srv.client, srv.URL)
		switch {
		case tt.want != "" && (err == nil || srv.strip(err.Error()) != tt.want):
			t.Errorf("%s: %+v, %v, want %s", tt.name, found, err, tt.want)
		case tt.want == "" && err != nil:
			t.Errorf("%s: %v", tt.name, err)
		case tt.want == "" && (len(found.Sets) != tt.sets || found.Sets[0].CapabilityList != srv.URL+"/rs/maps/capabilitylist.xml" || found.Again != (tt.sets > 1)):
			t.Errorf("%s: %+v", tt.name, found)
		}
	}
	links := ""
	for i := range 101 {
		links += fmt.Sprintf("<link rel=resourcesync href=%d>", i)
	}
	if got, _, err := discover.ParseHTML(strings.NewReader(links), base(t, "http://h/")); len(got) != 100 || err == nil {
		t.Errorf("%d links, %v, want 100 and an error", len(got), err)
	}
}

// Requirements: RS-DISC-06.
func TestHTML(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, text string
		want       []string
	}{
		{"head", `<head><link rel="resourcesync" href="c.xml"></head>`, []string{"http://h/d/c.xml"}},
		{"case and tokens", `<LINK HREF=' /c.xml ' REL="alternate RESOURCESYNC">`, []string{"http://h/c.xml"}},
		{"body, several, each once", `<body><link rel=resourcesync href=a><link rel=resourcesync href=b /><link rel=resourcesync href=a>`, []string{"http://h/d/a", "http://h/d/b"}},
		{"base", `<base href="/other/"><base href="/no/"><link rel=resourcesync href=a>`, []string{"http://h/other/a"}},
		{"base of another host", `<base target=x><base href="//i/"><link rel=resourcesync href=a>`, []string{"http://i/a"}},
		{"entities", `<link rel=resourcesync href="a?b=1&amp;c=2">`, []string{"http://h/d/a?b=1&c=2"}},
		{"in a comment or script", `<!-- <link rel=resourcesync href=a> --><script>"<link rel=resourcesync href=b>"</script><title><link rel=resourcesync href=c></title>`, nil},
		{"other relations", `<link rel=resourcesync2 href=a><a rel=resourcesync href=b><link href=c>`, nil},
		{"no target", `<link rel=resourcesync><link rel=resourcesync href="">`, nil},
		{"long tag", `<link rel=resourcesync href=a><link x="` + strings.Repeat("y", 1<<20) + `"><link rel=resourcesync href=b>`, []string{"http://h/d/a", "http://h/d/b"}},
		{"long body", `<title>t</title><noscript><img></noscript><link rel=resourcesync href=a><p>` + strings.Repeat("y", 3<<20), []string{"http://h/d/a"}},
	}
	for _, tt := range tests {
		if got, _, err := discover.ParseHTML(strings.NewReader(tt.text), base(t, "http://h/d/page")); err != nil || !slices.Equal(got, tt.want) {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
}

// check checks that the results are absolute URIs, and not too many, whatever
// the input.
func check(t *testing.T, in string, most int, targets []string) {
	t.Helper()
	if len(targets) > most {
		t.Errorf("%q: %d links", in, len(targets))
	}
	for _, target := range targets {
		if u, err := url.Parse(target); err != nil || !u.IsAbs() {
			t.Errorf("%q: link to %q, %v", in, target, err)
		}
	}
}

func FuzzRobots(f *testing.F) {
	f.Add("\ufeffUser-agent: *\r\nSitemap: http://h/a # b\rsitemap:c")
	f.Add("Sitemap://::")
	f.Fuzz(func(t *testing.T, s string) {
		found, _ := discover.ParseRobots(strings.NewReader(s), base(t, "http://h/robots.txt")) // a string does not fail
		check(t, s, 1000, found)
	})
}

func FuzzHTML(f *testing.F) {
	f.Add(`<!doctype html><base href="//x/"><link rel="a ResourceSync" href="c?d&amp;e"><script><link`)
	f.Add(`<link rel=resourcesync href="//::">`)
	f.Fuzz(func(t *testing.T, s string) {
		links, feeds, _ := discover.ParseHTML(strings.NewReader(s), base(t, "http://h/d/page"))
		check(t, s, 105, append(links, feeds...))
	})
}
