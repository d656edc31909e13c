package destination_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"lockstep/destination"
)

// A selectedSite is a Source of whose resources some are old, some of no known
// age, and some of no stated type.
func selectedSite(t *testing.T, st style) (*site, *mirror) {
	t.Helper()
	s := newSite(t, st)
	for i := range 6 {
		s.put(fmt.Sprintf("/d/old%d.txt", i), fmt.Sprint("old ", i))
	}
	s.mu.Lock()
	s.now = s.now.AddDate(1, 0, 0)
	s.mu.Unlock()
	for i := range 6 {
		s.put(fmt.Sprintf("/d/new%d.txt", i), fmt.Sprint("new ", i))
	}
	return s, newMirror(t, s)
}

// wantFiles syncs, and compares the names of the mirror's files.
func wantFiles(t *testing.T, m *mirror, what string, want ...string) {
	t.Helper()
	_, err := m.sync()
	var got []string
	for name := range m.files() {
		got = append(got, strings.TrimSuffix(strings.TrimPrefix(name, "d/"), ".txt"))
	}
	slices.Sort(got)
	if err != nil || !slices.Equal(got, want) {
		t.Fatalf("%s: %v, files %q, want %q", what, err, got, want)
	}
}

var (
	oldFiles = []string{"old0", "old1", "old2", "old3", "old4", "old5"}
	newFiles = []string{"new0", "new1", "new2", "new3", "new4", "new5"}
	allFiles = slices.Concat(newFiles, oldFiles)
)

// TestSince selects by age, back and forth, from every kind of Source.
func TestSince(t *testing.T) {
	t.Parallel()
	for name, st := range map[string]style{
		"both lists": {}, "no Change List": {noChanges: true}, "Sitemap": {sitemap: true}, "parts": {listParts: 5, parts: 5},
		"whole seconds": {seconds: true}, "no datetime": {noDatetime: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, m := selectedSite(t, st)
			recent := s.now.AddDate(0, -1, 0)
			m.opts.Since = recent
			wantFiles(t, m, "recent ones", newFiles...)
			m.opts.Since = time.Time{}
			wantFiles(t, m, "all", allFiles...)
			m.opts.Since = recent
			wantFiles(t, m, "recent ones again", newFiles...)
			s.put("/d/old3.txt", "not old any more")
			wantFiles(t, m, "one changed", slices.Concat(newFiles, []string{"old3"})...)
			m.opts.Since = s.now.Add(time.Hour)
			if _, err := m.sync(); !errors.Is(err, destination.ErrRefused) || !strings.Contains(err.Error(), "selection shrank") || len(m.files()) != 7 {
				t.Fatalf("nothing selected: %v, %d files", err, len(m.files()))
			}
			m.opts.MaxDelete = 100
			wantFiles(t, m, "nothing, with consent")
			m.opts.Since = recent
			wantFiles(t, m, "recent ones once more", slices.Concat(newFiles, []string{"old3"})...)
		})
	}
}

// TestSinceUnknown keeps resources without a known modification time.
func TestSinceUnknown(t *testing.T) {
	t.Parallel()
	s, m := selectedSite(t, style{noLastmod: true, noTimes: true, noChanges: true})
	m.opts.Since = s.now
	wantFiles(t, m, "no lastmod", allFiles...)
}

// TestSinceCoarse treats a lastmod as the whole period that it denotes.
func TestSinceCoarse(t *testing.T) {
	t.Parallel()
	s := newSite(t, style{noChanges: true})
	lastmods := map[string]string{
		"a": "2024", "b": "2024-05", "c": "2024-05-01", "d": "2024-05-01T12:00Z", "e": "2024-05-01T12:00:30Z", "f": "2024-05-01T12:00:30.5Z",
		"g": "2023", "h": "2024-04", "i": "2024-04-30", "j": "2024-05-01T11:59Z", "k": "2024-05-01T12:00:29Z", "l": "2024-05-01T12:00:30.49Z",
		"m": "2025", "n": "2024-05-01T14:00:31+02:00", "o": "2024-05-01T12:00:31+02:00",
	}
	body := ""
	for name, lastmod := range lastmods {
		s.put("/d/"+name+".txt", name)
		body += "<url><loc>" + s.url("/d/"+name+".txt") + "</loc><lastmod>" + lastmod + "</lastmod></url>"
	}
	s.replace("/rs/resourcelist.xml", doc("urlset", `<rs:md capability="resourcelist" at="2025-05-01T00:00:00Z"/>`, body))
	m := newMirror(t, s)
	m.opts.Since = time.Date(2024, 5, 1, 12, 0, 30, 500_000_000, time.UTC)
	wantFiles(t, m, "since", "a", "b", "c", "d", "e", "f", "m", "n")
}

// TestReselect changes what is selected between incremental runs, of a Source
// that has nothing but a Change List, too.
func TestReselect(t *testing.T) {
	t.Parallel()
	for name, st := range map[string]style{"both lists": {}, "no lastmod": {noLastmod: true}, "Sitemap": {sitemap: true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, m := selectedSite(t, st)
			testReselect(t, s, m)
		})
	}
	t.Run("no Resource List", func(t *testing.T) {
		t.Parallel()
		s, m := selectedSite(t, style{})
		m.opts.Baseline = false
		s.replace("/rs/capabilitylist.xml", doc("urlset", `<rs:md capability="capabilitylist"/>`,
			`<url><loc>`+s.url("/rs/changelist.xml")+`</loc><rs:md capability="changelist"/></url>`))
		testReselect(t, s, m)
	})
}

func testReselect(t *testing.T, s *site, m *mirror) {
	m.opts.Include = []string{"*/new*"}
	wantFiles(t, m, "new ones", newFiles...)
	s.put("/d/old1.txt", "changed")
	s.put("/d/new1.txt", "changed")
	wantFiles(t, m, "changes", newFiles...)
	m.opts.Include = nil
	wantFiles(t, m, "all", allFiles...)
	m.same()
	m.opts.Exclude = []string{"**/old*"}
	wantFiles(t, m, "half", newFiles...)
	m.opts.Exclude = []string{"**/new*"}
	if _, err := m.sync(); !errors.Is(err, destination.ErrRefused) || !strings.Contains(err.Error(), "6 because the selection shrank") {
		t.Fatalf("the other half: %v, want a refusal", err)
	}
	m.opts.MaxDelete = 100
	wantFiles(t, m, "the other half, with consent", oldFiles...)
	m.opts.Exclude, m.opts.MaxDelete = nil, 0
	wantFiles(t, m, "all again", allFiles...)
	m.same()
}

// TestReselectForgotten removes what is not selected any more though the Source
// has forgotten it ever changed.
func TestReselectForgotten(t *testing.T) {
	t.Parallel()
	s, m := selectedSite(t, style{})
	s.replace("/rs/capabilitylist.xml", doc("urlset", `<rs:md capability="capabilitylist"/>`,
		`<url><loc>`+s.url("/rs/changelist.xml")+`</loc><rs:md capability="changelist"/></url>`))
	wantFiles(t, m, "all", allFiles...)
	s.put("/d/new0.txt", "changed")
	wantFiles(t, m, "all", allFiles...)
	s.forget(12)
	m.opts.Include = []string{"*/new*"}
	wantFiles(t, m, "new ones", newFiles...)
}

// TestReselectInterrupted changes the selection, fails half way, and changes it
// back.
func TestReselectInterrupted(t *testing.T) {
	t.Parallel()
	for _, lists := range []bool{true, false} {
		s, m := selectedSite(t, style{})
		if !lists {
			s.replace("/rs/capabilitylist.xml", doc("urlset", `<rs:md capability="capabilitylist"/>`,
				`<url><loc>`+s.url("/rs/changelist.xml")+`</loc><rs:md capability="changelist"/></url>`))
		}
		m.opts.Include = []string{"*/new*"}
		wantFiles(t, m, "new ones", newFiles...)
		m.opts.Include = []string{"*/old*"}
		m.opts.MaxDelete = 100
		ctx, cancel := context.WithCancel(t.Context())
		var gets atomic.Int64
		s.setFault(func(_ http.ResponseWriter, r *http.Request) bool {
			if strings.HasPrefix(r.URL.Path, "/d/") && gets.Add(1) == 4 {
				cancel()
			}
			return false
		})
		m.opts.Jobs = 1
		if _, err := m.destination().Sync(ctx, m.address()); err == nil {
			t.Fatal("the run was not interrupted")
		}
		s.setFault(nil)
		m.opts.Include = []string{"*/new*"}
		wantFiles(t, m, "new ones again", newFiles...)
	}
}

// TestTypesUnstated selects by type where the Source does not always state it.
func TestTypesUnstated(t *testing.T) {
	t.Parallel()
	s := newSite(t, style{})
	list := func(at, more string, types map[string]string) {
		body := ""
		for _, name := range []string{"/d/a.txt", "/d/b.html", "/d/c"} {
			md := ""
			if typ := types[name]; typ != "" {
				md = `<rs:md type="` + typ + `"/>`
			}
			body += "<url><loc>" + s.url(name) + "</loc>" + md + "</url>"
		}
		s.replace("/rs/resourcelist.xml", doc("urlset", `<rs:md capability="resourcelist" at="2024-05-01T`+at+`Z"/>`, body+more))
	}
	for _, name := range []string{"/d/a.txt", "/d/b.html", "/d/c"} {
		s.put(name, name)
	}
	s.replace("/rs/capabilitylist.xml", doc("urlset", `<rs:md capability="capabilitylist"/>`,
		`<url><loc>`+s.url("/rs/resourcelist.xml")+`</loc><rs:md capability="resourcelist"/></url>`))
	m := newMirror(t, s)
	m.opts.MaxDelete = 100
	m.opts.Types = []string{"text/html"}
	list("01:00:00", "", map[string]string{"/d/c": "text/html; charset=utf-8"})
	wantFiles(t, m, "html", "b.html", "c")
	list("02:00:00", "", nil)
	wantFiles(t, m, "types unstated from now on", "b.html", "c")
	m.opts.Types = []string{"text/plain"}
	wantFiles(t, m, "text", "a")
	list("03:00:00", "", map[string]string{"/d/a.txt": "text/html", "/d/c": "text/plain"})
	wantFiles(t, m, "other types", "c")
	m.opts.Types = nil
	wantFiles(t, m, "all", "a", "b.html", "c")
}
