package destination_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"lockstep/destination"
)

// answers with which a document can be missing.
var missing = map[string]struct {
	answer func(w http.ResponseWriter)
	passes bool // it may pass by itself
}{
	"not found":   {func(w http.ResponseWriter) { w.WriteHeader(http.StatusNotFound) }, false},
	"gone":        {func(w http.ResponseWriter) { w.WriteHeader(http.StatusGone) }, false},
	"malformed":   {func(w http.ResponseWriter) { _, _ = w.Write([]byte("<urlset><url><loc>")) }, false},
	"HTML":        {func(w http.ResponseWriter) { _, _ = w.Write([]byte("<!DOCTYPE html><html><body>Hello</body></html>")) }, false},
	"unavailable": {func(w http.ResponseWriter) { w.WriteHeader(http.StatusServiceUnavailable) }, true},
	"forbidden":   {func(w http.ResponseWriter) { w.WriteHeader(http.StatusForbidden) }, true},
	"broken off": {func(w http.ResponseWriter) {
		w.Header().Set("Content-Length", "10000")
		_, _ = w.Write([]byte("<urlset>"))
		panic(http.ErrAbortHandler)
	}, true},
}

// break makes some addresses answer in one of those ways.
func (s *site) breakDocuments(answer func(w http.ResponseWriter), paths ...string) {
	s.setFault(func(w http.ResponseWriter, r *http.Request) bool {
		for _, path := range paths {
			if r.URL.Path == path {
				answer(w)
				return true
			}
		}
		return false
	})
}

// A clocked mirror has its own clock.
type clocked struct {
	*mirror
	now time.Time
}

func (m *clocked) sync() (destination.Report, error) {
	m.t.Helper()
	m.site.reset()
	d := m.destination()
	d.SetClock(func() time.Time { return m.now })
	return d.Sync(context.Background(), m.address())
}

// TestFallbackAmongCapabilities: where one capability of a set cannot be read,
// another that says the same is used: at once where the answer will not pass by
// itself, else after three runs, or an hour. Without one, the run fails.
func TestFallbackAmongCapabilities(t *testing.T) {
	t.Parallel()
	const list, dump, changes, changeDump = "/rs/resourcelist.xml", "/rs/resourcedump.xml", "/rs/changelist.xml", "/rs/changedump.xml"
	all := dumpStyle{dump: true, changeDump: true, each: 50}
	tests := []struct {
		name    string
		style   style
		first   bool     // the mirror is new
		broken  []string // documents
		missing string   // capability that is replaced; empty: none can be
		used    string
	}{
		{"list, dump beside it, new mirror", style{dumpStyle: all}, true, []string{list}, "resourcelist", "resourcedump"},
		{"list, dump beside it, without changes", style{noChanges: true, dumpStyle: dumpStyle{dump: true}}, false, []string{list}, "resourcelist", "resourcedump"},
		{"list, nothing beside it", style{noChanges: true}, false, []string{list}, "", ""},
		{"list and dump", style{noChanges: true, dumpStyle: dumpStyle{dump: true}}, false, []string{list, dump}, "", ""},
		{"changes, list beside them", style{}, false, []string{changes}, "changelist", "resourcelist"},
		{"changes, list beside them, new mirror", style{}, true, []string{changes}, "changelist", "resourcelist"},
		{"changes, Change Dump beside them", style{dumpStyle: all}, false, []string{changes}, "changelist", "changedump"},
		{"changes, Change Dump beside them, no list", style{dumpStyle: dumpStyle{changeDump: true, noList: true}}, false, []string{changes}, "changelist", "changedump"},
		{"both changes, list beside them", style{dumpStyle: all}, false, []string{changes, changeDump}, "changelist", "resourcelist"},
		{"both changes and list", style{dumpStyle: all}, false, []string{changes, changeDump, list}, "changelist", "resourcedump"},
		{"everything", style{dumpStyle: all}, false, []string{changes, changeDump, list, dump}, "", ""},
		{"Change Dump, list beside it", style{dumpStyle: dumpStyle{changeDump: true, noChangeList: true}}, false, []string{changeDump}, "changedump", "resourcelist"},
		{"Change Dump, Resource Dump beside it", style{dumpStyle: dumpStyle{dump: true, noList: true, changeDump: true, noChangeList: true}}, false, []string{changeDump}, "changedump", "resourcedump"},
		{"changes, nothing beside them", style{dumpStyle: dumpStyle{noList: true}}, false, []string{changes}, "", ""},
	}
	for _, tt := range tests {
		for how, miss := range missing {
			t.Run(tt.name+"/"+how, func(t *testing.T) {
				t.Parallel()
				s := newSite(t, tt.style)
				m := &clocked{newMirror(t, s), time.Date(2025, 1, 1, 0, 0, 0, 0, time.UTC)}
				fill(s, 9)
				s.del("/d/008")
				if !tt.first {
					m.mustSync()
				}
				s.put("/d/001", "changed")
				s.put("/new", "new")
				s.del("/d/002")
				s.makeDump()
				before := fmt.Sprint(m.files())
				s.breakDocuments(miss.answer, tt.broken...)
				runs := 1
				if miss.passes {
					runs = 4
				}
				for run := 1; run <= runs; run++ {
					r, err := m.sync()
					if run < runs || tt.missing == "" {
						if !errors.Is(err, destination.ErrIncomplete) || r.Deleted > 0 || len(r.Fallbacks) > 0 {
							t.Fatalf("run %d: %v, %s, %+v", run, err, counts(r), r.Fallbacks)
						}
						if fmt.Sprint(m.files()) != before && !tt.first {
							t.Fatalf("run %d: the mirror changed", run)
						}
						continue
					}
					if err != nil {
						t.Fatalf("run %d: %v, %+v", run, err, r)
					}
					m.same()
					if len(r.Fallbacks) == 0 {
						t.Fatalf("run %d: no fallback is reported", run)
					}
					for _, f := range r.Fallbacks {
						if f.Missing == tt.missing && f.Used == tt.used && strings.Contains(f.Cause, ".xml") {
							return
						}
					}
					t.Fatalf("run %d: fallbacks %+v", run, r.Fallbacks)
				}
			})
		}
	}
}

// TestFallbackAgain: with a fallback the mirror stays in step, makes few requests while
// nothing changes, and returns to the missing capability once it can be read.
func TestFallbackAgain(t *testing.T) {
	t.Parallel()
	for name, st := range map[string]style{
		"list":                  {},
		"Change Dump":           {dumpStyle: dumpStyle{changeDump: true, each: 50}},
		"Resource Dump":         {dumpStyle: dumpStyle{dump: true, noList: true}},
		"list, Sitemap of many": {listParts: 3},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, st)
			m := newMirror(t, s)
			fill(s, 9)
			m.mustSync()
			for n := range 3 {
				s.breakDocuments(missing["gone"].answer, "/rs/changelist.xml")
				for i := range 2 {
					s.put("/d/001", fmt.Sprint("changed ", n, i))
					s.del(fmt.Sprintf("/d/00%d", 2+2*n+i))
					s.makeDump()
					if r := m.mustSync(); r.Deleted != 1 || len(r.Fallbacks) == 0 {
						t.Fatalf("%s, %+v", counts(r), r.Fallbacks)
					}
					if r := m.mustSync(); r.Mode != destination.ModeNone || s.resourceGets() > 0 || len(r.Fallbacks) == 0 {
						t.Fatalf("at rest: %s, %d requests for resources, %+v", counts(r), s.resourceGets(), r.Fallbacks)
					}
				}
				s.setFault(nil)
				s.put("/d/001", fmt.Sprint("there again ", n))
				if r := m.mustSync(); r.Mode != destination.ModeIncremental || r.Via != destination.ViaChangeList || len(r.Fallbacks) > 0 {
					t.Fatalf("%s via %s, %+v, %q", counts(r), r.Via, r.Fallbacks, r.Warnings)
				}
			}
		})
	}
}

// A Resource List that can be read again, and is older than the Resource Dump that
// was applied in its place, is no sign that the Source went back in time: the
// mirror stays as new as it is until the list has caught up.
func TestListOlderThanTheDumpInItsPlace(t *testing.T) {
	t.Parallel()
	s := newSite(t, style{noChanges: true, dumpStyle: dumpStyle{dump: true}})
	fill(s, 5)
	m := newMirror(t, s)
	s.mu.Lock()
	list, _ := s.document("/rs/resourcelist.xml")
	s.mu.Unlock()
	s.put("/d/001", "newer than the list")
	s.makeDump()
	s.breakDocuments(missing["not found"].answer, "/rs/resourcelist.xml")
	m.mustSync()
	s.setFault(nil)
	s.replace("/rs/resourcelist.xml", list)
	for range 2 {
		if r := m.mustSync(); len(r.Fallbacks) != 1 || r.Fallbacks[0].Used != "resourcedump" || r.Created+r.Updated+r.Deleted > 0 {
			t.Errorf("%s, fallbacks %+v", counts(r), r.Fallbacks)
		}
	}
	m.opts.DryRun = true // compares nothing that it did not have to before
	if _, err := m.sync(); err != nil {
		t.Error(err)
	}
	m.opts.DryRun = false
	s.mu.Lock()
	delete(s.doc, "/rs/resourcelist.xml")
	s.mu.Unlock()
	s.put("/d/002", "newer than the dump")
	if r := m.mustSync(); len(r.Fallbacks) > 0 || r.Updated != 1 {
		t.Errorf("%s, fallbacks %+v", counts(r), r.Fallbacks)
	}
}

// TestFallbackAfterAnHour: a document that fails with a temporary error is replaced
// after an hour, too, and a success in between restarts the hour.
func TestFallbackAfterAnHour(t *testing.T) {
	t.Parallel()
	s := newSite(t, style{})
	m := &clocked{newMirror(t, s), time.Date(2025, 1, 1, 0, 0, 0, 0, time.UTC)}
	fill(s, 9)
	m.mustSync()
	s.put("/d/001", "changed")
	fails := func(after time.Duration) {
		t.Helper()
		m.now = m.now.Add(after)
		if r, err := m.sync(); !errors.Is(err, destination.ErrIncomplete) || len(r.Fallbacks) > 0 {
			t.Fatalf("%v, %+v", err, r.Fallbacks)
		}
	}
	s.breakDocuments(missing["unavailable"].answer, "/rs/changelist.xml")
	fails(0)
	fails(59 * time.Minute)
	s.setFault(nil)
	m.mustSync()
	s.put("/d/001", "changed again")
	s.breakDocuments(missing["unavailable"].answer, "/rs/changelist.xml")
	fails(time.Minute)
	fails(59 * time.Minute)
	m.now = m.now.Add(time.Minute)
	if r, err := m.sync(); err != nil || len(r.Fallbacks) != 1 {
		t.Fatalf("%v, %+v", err, r.Fallbacks)
	}
	m.same()
}

// TestFallbackOfOldList: a list that is older than the mirror does not show later
// changes, so it does not replace changes that cannot be read; nor does it revert
// anything.
func TestFallbackOfOldList(t *testing.T) {
	t.Parallel()
	for _, changed := range []bool{false, true} {
		s := newSite(t, style{})
		m := newMirror(t, s)
		fill(s, 9)
		s.mu.Lock()
		list, _ := s.document("/rs/resourcelist.xml")
		s.mu.Unlock()
		s.put("/new", "new")
		s.put("/d/001", "changed")
		m.mustSync()
		if changed {
			list = strings.Replace(list, "</urlset>", "<!-- the same -->\n</urlset>", 1)
		}
		s.replace("/rs/resourcelist.xml", list)
		s.breakDocuments(missing["gone"].answer, "/rs/changelist.xml")
		for range 3 {
			r, err := m.sync()
			if !errors.Is(err, destination.ErrIncomplete) || r.Deleted+r.Updated > 0 || len(r.Fallbacks) > 0 {
				t.Fatalf("%v, %s, %+v", err, counts(r), r.Fallbacks)
			}
			m.same()
		}
	}
}

// TestFallbackAudit: an audit uses the same fallbacks as a run.
func TestFallbackAudit(t *testing.T) {
	t.Parallel()
	s := newSite(t, style{dumpStyle: dumpStyle{dump: true, changeDump: true}})
	m := newMirror(t, s)
	fill(s, 9)
	s.makeDump()
	m.mustSync()
	for _, paths := range [][]string{{"/rs/changelist.xml"}, {"/rs/resourcelist.xml"}, {"/rs/changelist.xml", "/rs/changedump.xml"}, {"/rs/changelist.xml", "/rs/changedump.xml", "/rs/resourcelist.xml"}} {
		s.breakDocuments(missing["gone"].answer, paths...)
		r := m.audit()
		if r.Resources != 9 || len(r.Findings) > 0 {
			t.Errorf("without %v: %+v", paths, r)
		}
	}
}

// TestMementoOfListedVersion: the address of a resource has moved on, but a
// memento link names the version that is listed.
func TestMementoOfListedVersion(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		answer func(w http.ResponseWriter)
		runs   int // in which it works
	}{
		"another version": {func(w http.ResponseWriter) { _, _ = w.Write([]byte("a later version")) }, 1},
		"not found":       {missing["not found"].answer, 1},
		"gone":            {missing["gone"].answer, 1},
		"unavailable":     {missing["unavailable"].answer, 4},
	}
	for name, tt := range tests {
		for _, noChanges := range []bool{false, true} {
			t.Run(fmt.Sprint(name, ", without changes ", noChanges), func(t *testing.T) {
				t.Parallel()
				s := newSite(t, style{noChanges: noChanges})
				s.links = func(e siteEvent) string {
					if e.path != "/a" || e.file.data == nil {
						return ""
					}
					return fmt.Sprintf(`<rs:ln rel="memento" href="%s"/>`, s.url(fmt.Sprintf("/rs/version/%x", sha256.Sum256(e.file.data))))
				}
				s.put("/a", "version one")
				s.put("/b", "beside it")
				m := newMirror(t, s)
				m.mustSync()
				s.put("/a", "version two")
				s.setFault(func(w http.ResponseWriter, r *http.Request) bool {
					switch r.URL.Path {
					case "/a":
						tt.answer(w)
					case fmt.Sprintf("/rs/version/%x", sha256.Sum256([]byte("version two"))):
						_, _ = w.Write([]byte("version two"))
					default:
						return false
					}
					return true
				})
				for run := 1; run < tt.runs; run++ {
					if r, err := m.sync(); !errors.Is(err, destination.ErrIncomplete) || m.files()["a"] != "version one" {
						t.Fatalf("run %d: %v, %+v", run, err, r)
					}
				}
				r := m.mustSync()
				if r.By.Memento != 1 || len(r.Fallbacks) != 1 || r.Fallbacks[0].Missing != destination.FallbackLoc || r.Fallbacks[0].Count != 1 {
					t.Errorf("by %+v, fallbacks %+v", r.By, r.Fallbacks)
				}
				m.mustSync()
			})
		}
	}
}

// TestMementoOfAnotherVersion: what a memento link leads to is verified like
// anything else.
func TestMementoOfAnotherVersion(t *testing.T) {
	t.Parallel()
	s := newSite(t, style{})
	s.links = func(siteEvent) string { return fmt.Sprintf(`<rs:ln rel="memento" href="%s"/>`, s.url("/rs/version")) }
	s.put("/a", "version one")
	m := newMirror(t, s)
	s.setFault(func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path == "/a" || r.URL.Path == "/rs/version" {
			_, _ = w.Write([]byte("a later version"))
			return true
		}
		return false
	})
	if r, err := m.sync(); !errors.Is(err, destination.ErrIncomplete) || len(m.files()) > 0 {
		t.Fatalf("%v, %+v", err, r)
	}
}

// TestPackagesForMissingResources: the addresses of a few resources have nothing,
// but the packages of a dump beside the list have them.
func TestPackagesForMissingResources(t *testing.T) {
	t.Parallel()
	for name, st := range map[string]dumpStyle{"Change Dump": {changeDump: true, each: 50}, "Resource Dump": {dump: true, each: 50}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, style{dumpStyle: st})
			m := newMirror(t, s)
			fill(s, 9)
			m.mustSync()
			s.put("/d/001", "changed")
			s.put("/d/002", "changed, too")
			s.makeDump()
			s.breakDocuments(missing["gone"].answer, "/d/001")
			r := m.mustSync()
			if r.By.Package != 1 || r.By.Request != 1 {
				t.Errorf("by %+v, %q", r.By, r.Warnings)
			}
			s.put("/d/003", "is in no package")
			s.breakDocuments(missing["gone"].answer, "/d/003")
			s.mu.Lock()
			changeDump, resourceDump := s.changeDump(""), s.resourceDump("")
			s.mu.Unlock()
			if st.changeDump {
				changeDump = strings.Replace(changeDump, "</urlset>", "</urlset>", 1)
				at := strings.LastIndex(changeDump, "<url>")
				changeDump = changeDump[:at] + "</urlset>"
			}
			s.replace("/rs/changedump.xml", changeDump)
			s.replace("/rs/resourcedump.xml", resourceDump)
			for run := range 3 {
				if r, err := m.sync(); !errors.Is(err, destination.ErrIncomplete) || r.Failed != 1 || run > 0 && s.packageGets() > 0 {
					t.Errorf("run %d: %v, %s, %d requests for packages", run, err, counts(r), s.packageGets())
				}
			}
		})
	}
}

// TestPackagesUnavailableForATime: a dump whose packages could not be read is searched again by the next run, although
// it has not changed.
func TestPackagesUnavailableForATime(t *testing.T) {
	t.Parallel()
	for name, path := range map[string]string{"packages": ".zip", "packages with copies of their manifests": ".zip", "dump": "/rs/changedump.xml"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, style{dumpStyle: dumpStyle{changeDump: true, each: 50, copies: strings.Contains(name, "copies")}})
			m := newMirror(t, s)
			fill(s, 9)
			m.mustSync()
			s.put("/d/001", "changed")
			s.makeDump()
			var asked atomic.Int64
			var up atomic.Bool
			s.setFault(func(w http.ResponseWriter, r *http.Request) bool {
				switch {
				case r.URL.Path == "/d/001":
					w.WriteHeader(http.StatusGone)
				case !up.Load() && strings.HasSuffix(r.URL.Path, path) && (path == ".zip" || asked.Add(1) > 1): // the first request shows that it has changed
					w.WriteHeader(http.StatusServiceUnavailable)
				default:
					return false
				}
				return true
			})
			if r, err := m.sync(); !errors.Is(err, destination.ErrIncomplete) || r.Failed != 1 {
				t.Fatalf("the first run: %v, %s", err, counts(r))
			}
			up.Store(true)
			if r := m.mustSync(); r.By.Package != 1 {
				t.Errorf("by %+v, %q", r.By, r.Warnings)
			}
		})
	}
}

// packageGets is how many requests for packages there were.
func (s *site) packageGets() (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for path, k := range s.gets {
		if strings.HasSuffix(path, ".zip") {
			n += k
		}
	}
	return n
}
