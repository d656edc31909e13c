package destination_test

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"lockstep/destination"
)

// TestSelection changes the selection: resources that are no longer selected are
// removed, with consent, and newly selected ones are fetched.
func TestSelection(t *testing.T) {
	t.Parallel()
	s := newSite(t, style{})
	for i := range 10 {
		s.put(fmt.Sprintf("/d/f%d.txt", i), fmt.Sprint("text ", i))
		s.put(fmt.Sprintf("/d/f%d.html", i), fmt.Sprint("page ", i))
	}
	m := newMirror(t, s)
	m.opts.Include = []string{"*.txt"}
	files := func(want int) {
		t.Helper()
		if r, err := m.sync(); err != nil || len(m.files()) != want {
			t.Fatalf("%v, %d files, want %d\n%+v", err, len(m.files()), want, r)
		}
	}
	files(10)
	s.put("/d/new.html", "not wanted")
	s.put("/d/new.txt", "wanted")
	files(11)
	m.opts.Include = nil
	files(22)
	m.opts.Exclude = []string{"**/*.html"}
	files(11) // half of it is no more than agreed to
}

func TestTypes(t *testing.T) {
	t.Parallel()
	s := newSite(t, style{})
	s.put("/a.txt", "text")
	s.put("/b.html", "page")
	s.put("/c", "who knows")
	m := newMirror(t, s)
	m.opts.Types = []string{"text/h*"}
	if r, err := m.sync(); err != nil || r.Created != 1 || m.files()["b.html"] == "" {
		t.Fatalf("%v %+v %v", err, r, m.files())
	}
	s.put("/b.html", "page 2")
	s.put("/a.txt", "text 2")
	if r, err := m.sync(); err != nil || r.Updated != 1 || r.Created != 0 {
		t.Fatalf("%v %+v %v", err, r, m.files())
	}
}

// TestSitemap deletes what a plain Sitemap does not list only when configured to.
func TestSitemap(t *testing.T) {
	t.Parallel()
	s, m := seeded(t, style{sitemap: true})
	wantCounts(t, m.mustSync(), "none created=0 updated=0 deleted=0 unchanged=0 failed=0 refused=0")
	s.del("/d/f1")
	s.put("/d/f2", "new content")
	if r, err := m.sync(); err != nil || r.Deleted != 0 || r.Updated != 1 || len(m.files()) != 10 {
		t.Fatalf("%v %+v", err, r)
	}
	m.opts.Delete = destination.DeleteApply
	s.put("/d/f3", "new content")
	wantCounts(t, m.mustSync(), "baseline created=0 updated=1 deleted=1 unchanged=8 failed=0 refused=0")
}

// TestUnexplainedFailures changes and deletes resources while a baseline fetches
// them. Failures that the Change List explains are not reported; the others are.
func TestUnexplainedFailures(t *testing.T) {
	t.Parallel()
	s := newSite(t, style{})
	for i := range 8 {
		s.put(fmt.Sprintf("/d/f%d", i), fmt.Sprintf("content %d", i))
	}
	var once sync.Once
	s.setFault(func(w http.ResponseWriter, r *http.Request) bool {
		if strings.HasPrefix(r.URL.Path, "/d/") {
			once.Do(func() {
				for i := range 4 {
					s.put(fmt.Sprintf("/d/f%d", i), "newer")
				}
				s.del("/d/f4")
			})
		}
		if r.URL.Path == "/d/f5" {
			_, _ = io.WriteString(w, "something else") // the client finds out
			return true
		}
		return false
	})
	m := newMirror(t, s)
	r, err := m.sync()
	if !errors.Is(err, destination.ErrIncomplete) || r.Failed != 1 {
		t.Errorf("Sync: %v, %d failed, want 1", err, r.Failed)
	}
	var failed []string
	for _, e := range m.events {
		if e.Kind == destination.EventFailed {
			failed = append(failed, strings.TrimPrefix(e.URI, s.srv.URL))
		}
	}
	if !slices.Equal(failed, []string{"/d/f5"}) {
		t.Errorf("reported failures of %q, want that of /d/f5 alone", failed)
	}
	s.setFault(nil)
	m.mustSync()
}

func TestDeleteKeep(t *testing.T) {
	t.Parallel()
	s, m := seeded(t, style{})
	m.opts.Delete = destination.DeleteKeep
	s.del("/d/f1")
	for range 2 {
		r, err := m.sync()
		if err != nil || r.Deleted != 0 || len(m.files()) != 10 || !slices.ContainsFunc(r.Warnings, func(text string) bool { return strings.Contains(text, "has deleted are kept") }) {
			t.Fatalf("%v %+v", err, r)
		}
	}
	// Where deletions are wanted again, that of f1 is not forgotten.
	m.opts.Delete = ""
	if r := m.mustSync(); r.Deleted != 1 || r.Mode != destination.ModeBaseline {
		t.Errorf("%+v", r)
	}
	m.same()
	if r := m.mustSync(); r.Mode == destination.ModeBaseline {
		t.Errorf("%+v", r)
	}
}

// TestAudit finds each kind of damage, and names it.
//
// Requirements: RS-DST-40, RS-DST-41.
func TestAudit(t *testing.T) {
	t.Parallel()
	s, m := seeded(t, style{})
	path := func(name string) string { return filepath.Join(m.dir, "d", name) }
	flipped := []byte("content 0")
	flipped[3] ^= 1
	for _, err := range []error{
		os.WriteFile(path("f0"), flipped, 0o644),
		os.Remove(path("f1")),
		os.WriteFile(path("f2"), []byte("shorter"), 0o644),
		os.WriteFile(path("foreign"), []byte("x"), 0o644),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	s.put("/d/f3", "changed")
	s.put("/d/f10", "created")
	s.del("/d/f4")
	before := fmt.Sprint(m.files())
	a := m.audit()
	got := map[string]string{}
	for _, f := range a.Findings {
		got[f.Path+strings.TrimPrefix(f.URI, s.srv.URL)] = string(f.Kind)
	}
	want := map[string]string{
		"d/f0/d/f0": "corrupt", "d/f1/d/f1": "missing", "d/f2/d/f2": "corrupt", "d/foreign": "foreign",
		"d/f3/d/f3": "stale", "/d/f10": "missing", "d/f4/d/f4": "extra",
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("findings\n got %v\nwant %v", got, want)
	}
	if a.InSync || a.Missing != 2 || a.Corrupt != 2 || a.Stale != 1 || a.Extra != 1 || a.Foreign != 1 || a.Resources != 10 {
		t.Errorf("audit %+v", a)
	}
	if fmt.Sprint(m.files()) != before {
		t.Error("the audit changed files")
	}
	text, err := json.Marshal(a)
	if err != nil || !bytes.Contains(text, []byte(`"in_sync":false,`)) {
		t.Errorf("JSON %s, %v", text, err)
	}
	// The next run repairs what is missing, or has another length or time.
	m.opts.Baseline = true
	if _, err := m.sync(); err != nil {
		t.Fatal(err)
	}
	if a := m.audit(); a.Corrupt+a.Missing+a.Stale+a.Extra != 0 {
		t.Errorf("audit after baseline %+v", a)
	}
}

// TestEvents reports each change once, in order, with all its fields.
func TestEvents(t *testing.T) {
	t.Parallel()
	s, m := seeded(t, style{})
	s.put("/d/f1", "new content")
	s.del("/d/f2")
	s.put("/d/f 3", "odd name")
	s.mu.Lock()
	delete(s.files, "/d/f 3")
	s.files["/d/f%203"] = siteFile{data: []byte("odd name"), mod: s.now}
	s.log[len(s.log)-1].path = "/d/f%203"
	s.mu.Unlock()
	m.mustSync()
	var lines []string
	for _, e := range m.events {
		if e.Kind == destination.EventApplied {
			line, err := json.Marshal(e)
			if err != nil {
				t.Fatal(err)
			}
			var v map[string]any
			if err := json.Unmarshal(line, &v); err != nil {
				t.Fatal(err)
			}
			if v["datetime"] == nil || v["change"] != "deleted" && (v["hash"] == nil || v["length"] == nil) {
				t.Errorf("event %s", line)
			}
			lines = append(lines, fmt.Sprint(v["change"], " ", v["path"]))
		}
	}
	if got, want := strings.Join(lines, ", "), "created d/f 3, updated d/f1, deleted d/f2"; got != want && got != "updated d/f1, created d/f 3, deleted d/f2" {
		t.Errorf("events %s, want %s", got, want)
	}
}

// TestLastmod gives files the time the Source states.
func TestLastmod(t *testing.T) {
	t.Parallel()
	s, m := seeded(t, style{})
	info, err := os.Stat(filepath.Join(m.dir, "d", "f0"))
	if err != nil || !info.ModTime().Equal(s.file("/d/f0").mod) {
		t.Errorf("mtime %v, want %v", info.ModTime(), s.file("/d/f0").mod)
	}
}

// TestCoding decodes bodies that a server compresses without being asked to, and
// stores resources that are described as compressed unchanged (RS-HASH-07).
func TestCoding(t *testing.T) {
	t.Parallel()
	for _, noHash := range []bool{false, true} {
		s := newSite(t, style{noHash: noHash})
		s.put("/a", "plain text")
		s.setFault(func(w http.ResponseWriter, r *http.Request) bool {
			if r.URL.Path != "/a" {
				return false
			}
			w.Header().Set("Content-Encoding", "gzip")
			z := gzip.NewWriter(w)
			_, _ = z.Write([]byte("plain text"))
			_ = z.Close()
			return true
		})
		newMirror(t, s).mustSync()
	}
}

// TestHashBeatsLength keeps content whose hash is right, and warns.
func TestHashBeatsLength(t *testing.T) {
	t.Parallel()
	s := newSite(t, style{})
	s.put("/a", "text")
	s.mu.Lock()
	list, _ := s.document("/rs/resourcelist.xml")
	s.log, s.from = nil, s.now
	s.mu.Unlock()
	s.replace("/rs/resourcelist.xml", strings.Replace(list, `length="4"`, `length="5"`, 1))
	m := newMirror(t, s)
	r := m.mustSync()
	if len(r.Warnings) != 1 || !strings.Contains(r.Warnings[0], "length is 4") {
		t.Errorf("warnings %q", r.Warnings)
	}
}

// TestCacheMiss repeats a request bypassing caches when content is not as stated.
//
// Requirements: RS-HASH-08.
func TestCacheMiss(t *testing.T) {
	t.Parallel()
	s, m := seeded(t, style{})
	s.put("/d/f1", "new content")
	s.setFault(func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path != "/d/f1" || r.Header.Get("Cache-Control") == "no-cache" {
			return false
		}
		_, _ = w.Write([]byte("content 1"))
		return true
	})
	m.mustSync()
}

// TestChangedMeanwhile reads the description again when content is newer.
//
// Requirements: RS-HASH-08, RS-DST-03.
func TestChangedMeanwhile(t *testing.T) {
	t.Parallel()
	s, m := seeded(t, style{})
	s.put("/d/f1", "second")
	s.put("/d/f2", "second")
	once := false
	s.setFault(func(w http.ResponseWriter, r *http.Request) bool {
		s.mu.Lock()
		first := !once && strings.HasPrefix(r.URL.Path, "/d/")
		once = once || first
		s.mu.Unlock()
		if first {
			s.put("/d/f1", "third")
			s.put("/d/f2", "third")
			s.del("/d/f2")
		}
		return false
	})
	r := m.mustSync()
	if r.Failed != 0 || len(r.Failures) != 0 {
		t.Errorf("report %+v", r)
	}
}

// TestSets holds a resource that two sets contain once, and removes it only
// when no set contains it (RS-SET-03).
func TestSets(t *testing.T) {
	t.Parallel()
	s := newSite(t, style{})
	for _, p := range []string{"/x", "/y", "/z"} {
		s.put(p, "content of "+p)
	}
	md := func(c string) string { return `<rs:md capability="` + c + `"/>` }
	entry := func(path, c string) string { return "<url><loc>" + s.url(path) + "</loc>" + md(c) + "</url>" }
	s.replace("/.well-known/resourcesync", doc("urlset", md("description"), entry("/one/capabilitylist.xml", "capabilitylist")+entry("/two/capabilitylist.xml", "capabilitylist")))
	sets := func(at string, one, two []string) {
		for name, paths := range map[string][]string{"one": one, "two": two} {
			s.replace("/"+name+"/capabilitylist.xml", doc("urlset", md("capabilitylist"), entry("/"+name+"/list.xml", "resourcelist")))
			body := ""
			for _, p := range paths {
				s.mu.Lock()
				f := s.files[p]
				s.mu.Unlock()
				body += "<url><loc>" + s.url(p) + "</loc>" + s.describe(f, f.mod, "") + "</url>"
			}
			s.replace("/"+name+"/list.xml", doc("urlset", `<rs:md capability="resourcelist" at="2024-05-01T`+at+`Z"/>`, body))
		}
	}
	m := newMirror(t, s)
	m.opts.MaxDelete = 100
	sets("02:00:00", []string{"/x", "/y"}, []string{"/y", "/z"})
	r := m.mustSync()
	if r.Created != 3 || len(r.Sets) != 2 || s.got("/x")+s.got("/y")+s.got("/z") != 3 {
		t.Errorf("%+v", r)
	}
	sets("03:00:00", []string{"/x"}, []string{"/y", "/z"})
	m.mustSync()
	sets("04:00:00", []string{"/x"}, []string{"/z"})
	s.del("/y")
	if r := m.mustSync(); r.Deleted != 1 {
		t.Errorf("%+v", r)
	}
	m.opts.Sets, m.opts.MaxDelete = []string{"two"}, 0
	s.put("/z", "new content")
	sets("05:00:00", []string{"/x"}, []string{"/z"})
	if r, err := m.sync(); !errors.Is(err, destination.ErrRefused) || !strings.Contains(err.Error(), "selection shrank") || r.Updated != 1 || len(r.Sets) != 1 {
		t.Errorf("%v, %+v", err, r)
	}
	m.same() // what is not selected any more goes with consent only
	m.opts.Delete = destination.DeleteKeep
	m.mustSync()
	m.opts.Delete, m.opts.MaxDelete = "", 100
	x := s.file("/x")
	s.del("/x")
	if r := m.mustSync(); r.Deleted != 1 {
		t.Errorf("%+v", r)
	}
	s.mu.Lock()
	s.files["/x"] = x
	s.mu.Unlock()
	m.opts.Sets = nil
	if r := m.mustSync(); r.Created != 1 || len(r.Sets) != 2 {
		t.Errorf("%+v", r)
	}
	m.opts.Sets = []string{"three"}
	if _, err := m.sync(); err == nil || !strings.Contains(err.Error(), "the Source offers one, two") {
		t.Errorf("unknown set: %v", err)
	}
}

// TestSpill sorts more entries than are held in memory.
func TestSpill(t *testing.T) {
	t.Parallel()
	n := 45_000
	s := newSite(t, style{})
	for i := range n {
		s.files[fmt.Sprintf("/d/%05d", i*7919%n)] = siteFile{data: []byte("x"), mod: s.now}
	}
	m := newMirror(t, s)
	m.opts.DryRun = true
	r, err := m.sync()
	if err != nil || r.Created != int64(n) || r.Bytes == 0 {
		t.Errorf("%v %s", err, counts(r))
	}
}

// TestQuiet requests only the documents, each once.
//
// Requirements: RS-RL-10.
func TestQuiet(t *testing.T) {
	t.Parallel()
	for _, st := range []style{{}, {parts: 3}, {noChanges: true}, {noChanges: true, listParts: 4}} {
		_, m := seeded(t, st)
		r := m.mustSync()
		if r.Mode != destination.ModeNone || r.Requests > 6 || r.Bytes > 0 {
			t.Errorf("%+v: %+v", st, r)
		}
	}
}

// TestCollapse fetches only the last state of a resource that changed often.
//
// Requirements: RS-CHL-15.
func TestCollapse(t *testing.T) {
	t.Parallel()
	s, m := seeded(t, style{})
	for i := range 5 {
		s.put("/d/f1", fmt.Sprint("version ", i))
	}
	s.put("/d/short-lived", "x")
	s.del("/d/short-lived")
	r := m.mustSync()
	if s.got("/d/f1") != 1 || s.got("/d/short-lived") != 0 || r.Updated != 1 {
		t.Errorf("%+v", r)
	}
}

// TestFutureUntil reads a document again whose end is yet to come (RS-AMB-25).
func TestFutureUntil(t *testing.T) {
	t.Parallel()
	s, m := seeded(t, style{})
	s.put("/d/f1", "second")
	s.mu.Lock()
	text, _ := s.document("/rs/changelist.xml")
	s.mu.Unlock()
	until := fmt.Sprintf(` until="%s"/>`, time.Now().Add(time.Hour).UTC().Format(time.RFC3339))
	head := `<rs:md capability="changelist" from="` + s.time(s.from) + `"`
	s.replace("/rs/changelist.xml", strings.Replace(text, head+"/>", head+until, 1))
	m.mustSync()
	s.put("/d/f2", "second, too")
	s.mu.Lock()
	delete(s.doc, "/rs/changelist.xml")
	s.mu.Unlock()
	m.mustSync()
}
