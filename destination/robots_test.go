package destination_test

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"lockstep/destination"
)

// TestSitemapsOfRobots: Sitemaps that robots.txt names later are mirrored, those that it
// no longer names are withdrawn sets, and without robots.txt no run succeeds.
func TestSitemapsOfRobots(t *testing.T) {
	t.Parallel()
	s := newSite(t, style{sitemap: true})
	names := func(sets ...string) {
		text := ""
		for _, name := range sets {
			text += "Sitemap: " + s.url("/"+name+".xml") + "\n"
		}
		s.replace("/robots.txt", text)
	}
	for _, name := range []string{"a", "b", "c"} {
		s.replace("/in-"+name, name)
		s.replace("/"+name+".xml", doc("urlset", "", "<url><loc>"+s.url("/in-"+name)+"</loc></url>"))
	}
	names("a", "b")
	m := newMirror(t, s)
	m.at = s.srv.URL
	has := func(files string) {
		t.Helper()
		got := ""
		for _, name := range []string{"a", "b", "c"} {
			got += m.files()["in-"+name]
		}
		if got != files {
			t.Errorf("the mirror has %s, want %s", got, files)
		}
	}
	sync := func() destination.Report {
		t.Helper()
		r, err := m.sync()
		if err != nil {
			t.Fatalf("Sync = %v\n%+v", err, r)
		}
		return r
	}
	sync()
	has("ab")
	names("a", "b", "c")
	if r := sync(); r.Created != 1 || len(r.Sets) != 3 {
		t.Errorf("Sync = %+v", r)
	}
	has("abc")
	names("b", "c")
	for range 2 {
		r := sync()
		if len(r.Withdrawn) != 1 || r.Withdrawn[0].URI != s.url("/a.xml") || r.Deleted != 0 {
			t.Errorf("Sync = %+v", r)
		}
	}
	has("abc")
	s.setFault(func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path == "/robots.txt" {
			w.WriteHeader(http.StatusInternalServerError)
			return true
		}
		return false
	})
	if r, err := m.sync(); err == nil || !strings.Contains(err.Error(), "/robots.txt") {
		t.Errorf("without robots.txt: %v, %+v", err, r)
	}
	s.setFault(nil)
	m.opts.Baseline = true
	if r, err := m.sync(); !errors.Is(err, destination.ErrRefused) {
		t.Errorf("baseline without consent: %v, %s", err, fmt.Sprint(r.Withdrawn))
	}
	m.opts.MaxDelete = 100
	if r := sync(); r.Deleted != 1 {
		t.Errorf("Sync = %+v", r)
	}
	has("bc")
}

// TestSetsOfPage: sets to which a page links later are mirrored, those to which it no longer
// links are withdrawn, and while it cannot be read, no run is complete.
func TestSetsOfPage(t *testing.T) {
	t.Parallel()
	s := newSite(t, style{})
	links := func(sets ...string) {
		text := "<!DOCTYPE html><html><head>"
		for _, name := range sets {
			text += `<link rel="resourcesync" href="/` + name + `-cl.xml">`
		}
		s.replace("/page.html", text+"</head></html>")
	}
	for _, name := range []string{"a", "b"} {
		s.replace("/in-"+name, name)
		s.replace("/"+name+"-cl.xml", doc("urlset", `<rs:md capability="capabilitylist"/>`, `<url><loc>`+s.url("/"+name+".xml")+`</loc><rs:md capability="resourcelist"/></url>`))
		s.replace("/"+name+".xml", doc("urlset", `<rs:md capability="resourcelist" at="2026-01-01T00:00:00Z"/>`, "<url><loc>"+s.url("/in-"+name)+"</loc></url>"))
	}
	links("a")
	m := newMirror(t, s)
	m.at = s.url("/page.html")
	if r, err := m.sync(); err != nil || r.Created != 1 {
		t.Fatalf("Sync = %+v, %v", r, err)
	}
	links("a", "b")
	s.setFault(func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path == "/page.html" {
			w.WriteHeader(http.StatusServiceUnavailable)
			return true
		}
		return false
	})
	if r, err := m.sync(); !errors.Is(err, destination.ErrIncomplete) || len(r.Withdrawn) > 0 {
		t.Errorf("without the page: %+v, %v", r, err)
	}
	s.setFault(nil)
	if r, err := m.sync(); err != nil || r.Created != 1 || m.files()["in-b"] != "b" {
		t.Errorf("with another set: %+v, %v", r, err)
	}
	links("b")
	if r, err := m.sync(); err != nil || len(r.Withdrawn) != 1 || r.Withdrawn[0].URI != s.url("/a-cl.xml") || m.files()["in-a"] != "a" {
		t.Errorf("with a set less: %+v, %v", r, err)
	}
}
