package destination_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"lockstep/destination"
)

// treeOf serves, for a path /t/DEPTH/NUMBER, what the node there is, and counts the
// requests.
func (s *site) treeOf(node func(depth, n int) string) *atomic.Int64 {
	var requests atomic.Int64
	s.setFault(func(w http.ResponseWriter, r *http.Request) bool {
		rest, ok := strings.CutPrefix(r.URL.Path, "/t/")
		if !ok {
			return false
		}
		requests.Add(1)
		d, k, _ := strings.Cut(rest, "/")
		depth, _ := strconv.Atoi(d)
		n, _ := strconv.Atoi(k)
		_, _ = w.Write([]byte(node(depth, n)))
		return true
	})
	return &requests
}

// indexOf is an index of capability c whose parts are the nodes of a depth from
// first on.
func (s *site) indexOf(c string, depth, first, n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "<sitemap><loc>%s</loc></sitemap>", s.url(fmt.Sprintf("/t/%d/%d", depth, first+i)))
	}
	return doc("sitemapindex", mdOf(c), b.String())
}

func mdOf(c string) string {
	at := `at="2024-05-01T02:00:01Z"`
	if strings.HasPrefix(c, "change") {
		at = `from="2024-05-01T02:00:00Z"`
	}
	return fmt.Sprintf(`<rs:md capability="%s" %s/>`, c, at)
}

// TestIndexesWithoutEnd replaces the Resource List, the Change List and the dumps
// by trees of indexes: the reading ends after a bounded number of requests, is
// incomplete, and deletes nothing.
func TestIndexesWithoutEnd(t *testing.T) {
	t.Parallel()
	trees := map[string]func(s *site, c string) func(depth, n int) string{
		"nested": func(s *site, c string) func(depth, n int) string {
			return func(depth, _ int) string { return s.indexOf(c, depth+1, 0, 1) }
		},
		"empty indexes": func(s *site, c string) func(depth, n int) string {
			return func(int, int) string { return s.indexOf(c, 0, 0, 0) }
		},
		"indexes of indexes": func(s *site, c string) func(depth, n int) string {
			return func(depth, n int) string { return s.indexOf(c, depth+1, 50*n, 50) }
		},
		"an empty index as deep as a list may be": func(s *site, c string) func(depth, n int) string {
			return func(depth, _ int) string {
				if depth < 3 {
					return s.indexOf(c, depth+1, 0, 1)
				}
				return s.indexOf(c, 0, 0, 0)
			}
		},
	}
	documents := []struct {
		path, capability string
		style            style
	}{
		{"/rs/resourcelist.xml", "resourcelist", style{noChanges: true}},
		{"/rs/changelist.xml", "changelist", style{}},
	}
	for _, d := range documents {
		for name, tree := range trees {
			t.Run(d.capability+" "+name, func(t *testing.T) {
				t.Parallel()
				s, m := seeded(t, d.style)
				before := len(m.files())
				requests := s.treeOf(tree(s, d.capability))
				s.replace(d.path, s.indexOf(d.capability, 1, 0, 3000))
				if name == "nested" || strings.HasPrefix(name, "an empty") {
					s.replace(d.path, s.indexOf(d.capability, 1, 0, 1))
				}
				r, err := m.sync()
				if !errors.Is(err, destination.ErrIncomplete) || len(r.Failures) == 0 || len(r.Failures) > 10 {
					t.Errorf("%v, %d failures, the first %v", err, len(r.Failures), r.Failures[:1])
				}
				if n := requests.Load(); n > 1300 {
					t.Errorf("%d requests", n)
				}
				if got := len(m.files()); got != before {
					t.Errorf("%d files, were %d", got, before)
				}
				if a, err := m.destination().Audit(context.Background(), m.address(), destination.AuditOptions{}); !errors.Is(err, destination.ErrIncomplete) || a.Extra > 0 {
					t.Errorf("audit: %v, %+v", err, a)
				}
			})
		}
	}
}

// TestEmptyListsAreNoReason reads an index of more than a thousand valid lists
// without an entry, and indexes nested as deep as they may be.
func TestEmptyListsAreNoReason(t *testing.T) {
	t.Parallel()
	s := newSite(t, style{noChanges: true})
	s.put("/a", "one")
	m := newMirror(t, s)
	full := doc("urlset", mdOf("resourcelist"), "<url><loc>"+s.url("/a")+"</loc></url>")
	s.treeOf(func(depth, n int) string {
		switch {
		case depth == 1 && n == 1100:
			return s.indexOf("resourcelist", 2, 0, 1)
		case depth == 2:
			return s.indexOf("resourcelist", 3, 0, 1)
		case depth == 3:
			return full
		}
		return doc("urlset", mdOf("resourcelist"), "")
	})
	s.replace("/rs/resourcelist.xml", s.indexOf("resourcelist", 1, 0, 1101))
	m.mustSync()
}

// TestResourceDumpBelowThreeIndexes reads a Resource Dump below as many indexes as may
// be nested: its packages are no further level.
func TestResourceDumpBelowThreeIndexes(t *testing.T) {
	t.Parallel()
	s := newSite(t, style{noChanges: true, dumpStyle: dumpStyle{dump: true, noList: true}})
	fill(s, 7)
	s.mu.Lock()
	dump := s.resourceDump("")
	s.mu.Unlock()
	s.treeOf(func(depth, _ int) string {
		if depth == 3 {
			return dump
		}
		return s.indexOf("resourcedump", depth+1, 0, 1)
	})
	s.replace("/rs/resourcedump.xml", s.indexOf("resourcedump", 1, 0, 1))
	if r := newMirror(t, s).mustSync(); r.Created != 7 || r.Via != destination.ViaDump {
		t.Errorf("%s via %s", counts(r), r.Via)
	}
}

// TestResourceDumpRepeatsPackage reads a Resource Dump in which one package is listed in
// place of another: it may be incomplete, so nothing is deleted.
func TestResourceDumpRepeatsPackage(t *testing.T) {
	t.Parallel()
	s := newSite(t, style{noChanges: true, dumpStyle: dumpStyle{dump: true, noList: true, each: 1}})
	fill(s, 3)
	m := newMirror(t, s)
	m.mustSync()
	s.mu.Lock()
	s.now = s.now.Add(time.Minute)
	s.buildDump()
	packages := strings.SplitAfter(s.dumps.current, "</url>")
	s.dumps.current = packages[0] + packages[1] + packages[1]
	s.mu.Unlock()
	r, err := m.sync()
	wantErr(t, r, err, destination.ErrIncomplete, "twice")
	if r.Deleted != 0 || len(m.files()) != 3 {
		t.Errorf("%s, %d files", counts(r), len(m.files()))
	}
}

// TestRepeatedWarningsAreCounted reads lists that are all wrong in one way: one
// warning is shown, with the number of the others.
func TestRepeatedWarningsAreCounted(t *testing.T) {
	t.Parallel()
	s := newSite(t, style{noChanges: true})
	s.put("/a", "one")
	m := newMirror(t, s)
	wrong := doc("urlset", mdOf("resourcelist"), "<url><loc>"+s.url("/a")+`</loc><lastmod>yesterday</lastmod></url>`)
	s.treeOf(func(int, int) string { return wrong })
	s.replace("/rs/resourcelist.xml", s.indexOf("resourcelist", 1, 0, 300))
	r, err := m.sync()
	if err != nil {
		t.Fatalf("%v, %+v", err, r)
	}
	for _, w := range r.Warnings { // each document has one, each list a second one
		if len(r.Warnings) > 2 || !strings.Contains(w, "more like it)") {
			t.Errorf("%d warnings, one is %s", len(r.Warnings), w)
		}
	}
	n := 0
	for _, e := range m.events {
		if e.Kind == destination.EventWarning {
			n++
		}
	}
	if n == 0 || n != 2*len(r.Warnings) {
		t.Errorf("%d warnings were shown, want the first of each kind, and how many more there are", n)
	}
}
