package destination_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"lockstep/blob"
	"lockstep/blob/faultfs"
	"lockstep/destination"
)

func (m *mirror) auditWith(o destination.AuditOptions) (destination.AuditReport, error) {
	m.t.Helper()
	return m.destination().Audit(context.Background(), m.address(), o)
}

// kinds returns the findings of an audit as text, as "corrupt d/f1, missing d/f2".
func kinds(a destination.AuditReport) string {
	var found []string
	for _, f := range a.Findings {
		name := f.Path
		if name == "" {
			name = f.URI[strings.Index(f.URI, "/d/"):]
		}
		found = append(found, fmt.Sprint(f.Kind, " ", name))
	}
	slices.Sort(found)
	return strings.Join(found, ", ")
}

func wantKinds(t testing.TB, what string, a destination.AuditReport, want string) {
	t.Helper()
	if got := kinds(a); got != want {
		t.Errorf("%s: found %q, want %q", what, got, want)
	}
}

func (m *mirror) path(name string) string { return filepath.Join(m.dir, filepath.FromSlash(name)) }

func writeFile(t testing.TB, path, data string) {
	t.Helper()
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(data), 0o644)); err != nil {
		t.Fatal(err)
	}
}

// TestAuditQuick reads only files whose metadata changed, unless Content is set.
func TestAuditQuick(t *testing.T) {
	t.Parallel()
	_, m := seeded(t, style{})
	a, err := m.auditWith(destination.AuditOptions{})
	if err != nil || !a.InSync || a.Read != 0 || a.Verified != 0 || a.Resources != 10 || a.Content {
		t.Errorf("%v, %+v", err, a)
	}
	flip := damages[0].do
	if err := errors.Join(flip(testRand(), m.path("d/f0")), os.Remove(m.path("d/f1"))); err != nil {
		t.Fatal(err)
	}
	writeFile(t, m.path("d/f2"), "content X") // as an editor does: the time is another one
	writeFile(t, m.path("d/f3"), "content 3")
	a, err = m.auditWith(destination.AuditOptions{})
	if err != nil || a.Verified != 1 || a.Read != 18 {
		t.Errorf("%v, %+v", err, a)
	}
	wantKinds(t, "without Content", a, "corrupt d/f2, missing d/f1")
	a, err = m.auditWith(destination.AuditOptions{Content: true})
	if err != nil || a.Verified != 7 || !a.Content {
		t.Errorf("%v, %+v", err, a)
	}
	wantKinds(t, "with Content", a, "corrupt d/f0, corrupt d/f2, missing d/f1")
	for _, f := range a.Findings {
		if f.Set == "" || f.Expected == nil || f.Expected.Hash == "" || f.Expected.Length == nil || f.Kind == destination.Corrupt && f.Found.Hash == "" {
			t.Errorf("finding %+v", f)
		}
	}
}

// TestAuditQuickLengths finds files of another length, whatever their times.
func TestAuditQuickLengths(t *testing.T) {
	t.Parallel()
	_, m := seeded(t, style{})
	for i, d := range damages[1:3] {
		if err := d.do(testRand(), m.path(fmt.Sprint("d/f", i))); err != nil {
			t.Fatal(err)
		}
	}
	a, err := m.auditWith(destination.AuditOptions{})
	if err != nil || a.Read != 0 {
		t.Errorf("%v, %+v", err, a)
	}
	wantKinds(t, "without Content", a, "corrupt d/f0, corrupt d/f1")
}

// TestAuditDumps learns the desired state of a mirror from manifests alone.
func TestAuditDumps(t *testing.T) {
	t.Parallel()
	for _, ds := range []dumpStyle{{dump: true, noList: true}, {dump: true, noList: true, changeDump: true, noChangeList: true}} {
		s := newSite(t, style{dumpStyle: ds})
		fill(s, 12)
		m := newMirror(t, s)
		m.mustSync()
		s.put("/d/003", "changed")
		s.put("/d/012", "created")
		s.del("/d/004")
		writeFile(t, m.path("d/000"), "damaged")
		if err := os.Remove(m.path("d/001")); err != nil {
			t.Fatal(err)
		}
		a, err := m.fix()
		if err != nil || !a.InSync || a.Resources != 12 {
			t.Errorf("%+v: %v, %+v", ds, err, a)
		}
		wantKinds(t, fmt.Sprintf("%+v", ds), a, "corrupt d/000, extra d/004, missing /d/012, missing d/001, stale d/003")
		m.same()
	}
}

// TestFixAll repairs every kind of finding, and reports it.
func TestFixAll(t *testing.T) {
	t.Parallel()
	s, m := seeded(t, style{})
	s.put("/d/f3", "changed")
	s.put("/d/f10", "created")
	s.del("/d/f4")
	writeFile(t, m.path("d/f0"), "content X")
	writeFile(t, m.path("d/foreign"), "x")
	a, err := m.fix()
	if err != nil || !a.InSync || a.Mended == nil || *a.Mended != (destination.Mended{Fetched: 3, Deleted: 1}) {
		t.Errorf("%v, %+v, %+v", err, a, a.Mended)
	}
	wantKinds(t, "fix", a, "corrupt d/f0, extra d/f4, foreign d/foreign, missing /d/f10, stale d/f3")
	if f := m.files(); f["d/foreign"] != "x" {
		t.Errorf("files %v", f)
	}
	m.tidy()
	m.same()
	if a, err := m.fix(); err != nil || a.Mended != nil {
		t.Errorf("a second time: %v, %+v", err, a)
	}
	m.mustSync()
}

// TestFixStaleAndDamaged writes a version whose bytes are those that were
// written before, where the file has others.
func TestFixStaleAndDamaged(t *testing.T) {
	t.Parallel()
	s, m := seeded(t, style{noHash: true})
	s.put("/d/f0", "content 0")
	if err := damages[0].do(testRand(), m.path("d/f0")); err != nil {
		t.Fatal(err)
	}
	a, err := m.fix()
	if err != nil || !a.InSync {
		t.Errorf("%v, %+v", err, a)
	}
	wantKinds(t, "fix", a, "stale d/f0")
	m.same()
}

// TestFixBeside stores a resource beside a foreign file that occupies its path.
func TestFixBeside(t *testing.T) {
	t.Parallel()
	s, m := seeded(t, style{})
	s.put("/e/g", "deep")
	m.mustSync()
	if err := errors.Join(os.Remove(m.path("d/f0")), os.RemoveAll(m.path("e"))); err != nil {
		t.Fatal(err)
	}
	writeFile(t, m.path("d/f0/notes"), "the user's")
	writeFile(t, m.path("e"), "the user's, too")
	a, err := m.fix()
	if err != nil || !a.InSync {
		t.Fatalf("%v, %+v", err, a)
	}
	f := m.files()
	if f["d/f0/notes"] != "the user's" || f["e"] != "the user's, too" || f["d/f0%~-"] != "content 0" || f["e%~+/g"] != "deep" {
		t.Errorf("files %v", f)
	}
	if a := m.audit(); !a.InSync {
		t.Errorf("%+v", a)
	}
	m.mustSyncBeside()
}

// mustSyncBeside syncs a mirror in which there are foreign files.
func (m *mirror) mustSyncBeside() {
	m.t.Helper()
	if r, err := m.sync(); err != nil {
		m.t.Fatalf("Sync: %v\n%+v", err, r)
	}
}

// TestFixGuarded deletes no more than was consented to, and nothing that is to be
// kept.
func TestFixGuarded(t *testing.T) {
	t.Parallel()
	s, m := seeded(t, style{})
	for i := range 9 {
		s.del(fmt.Sprintf("/d/f%d", i))
	}
	writeFile(t, m.path("d/f9"), "content X")
	a, err := m.fix()
	var refused *destination.RefusedError
	if !errors.As(err, &refused) || !strings.Contains(refused.Hint, "--max-delete 90") || a.InSync || len(m.files()) != 10 {
		t.Errorf("%v, %+v", err, a)
	}
	m.opts.Delete = destination.DeleteKeep
	a, err = m.fix()
	if err != nil || a.InSync || a.Extra != 9 || a.Mended.Fetched != 1 || len(m.files()) != 10 {
		t.Errorf("keep: %v, %+v", err, a)
	}
	m.opts.Delete, m.opts.MaxDelete = "", 100
	if a, err = m.fix(); err != nil || !a.InSync || a.Mended.Deleted != 9 {
		t.Errorf("consented: %v, %+v", err, a)
	}
	m.same()
}

// TestFixRefuses makes no repair that would make the mirror worse.
func TestFixRefuses(t *testing.T) {
	t.Parallel()
	s, m := seeded(t, style{})
	m.opts.Include = []string{"*f1"}
	_, err := m.fix()
	var refused *destination.RefusedError
	if !errors.As(err, &refused) || !strings.Contains(refused.Hint, "sync") || len(m.files()) != 10 {
		t.Errorf("another selection: %v", err)
	}
	fresh := newMirror(t, s)
	_, err = fresh.fix()
	if !errors.As(err, &refused) || !strings.Contains(refused.Hint, "--adopt") || len(fresh.files()) != 0 {
		t.Errorf("no mirror: %v", err)
	}
}

// TestFixInterrupted leaves unrepaired findings to the next sync, which does not
// compare everything.
func TestFixInterrupted(t *testing.T) {
	t.Parallel()
	s, m := seeded(t, style{})
	writeFile(t, m.path("d/f0"), "content X")
	writeFile(t, m.path("d/f1"), "content X")
	s.setFault(func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path == "/d/f1" {
			http.Error(w, "no", http.StatusInternalServerError)
		}
		return r.URL.Path == "/d/f1"
	})
	a, err := m.fix()
	if !errors.Is(err, destination.ErrIncomplete) || a.InSync || a.Mended.Fetched != 1 || a.Mended.Failed != 1 || len(a.Failures) == 0 {
		t.Errorf("%v, %+v, %+v", err, a, a.Mended)
	}
	writeFile(t, m.path("d/f2"), "content X")
	ctx, cancel := context.WithCancel(t.Context())
	s.setFault(func(_ http.ResponseWriter, r *http.Request) bool {
		if strings.HasPrefix(r.URL.Path, "/d/") {
			cancel()
			<-r.Context().Done()
			return true
		}
		return false
	})
	if a, err := m.destination().Audit(ctx, m.address(), destination.AuditOptions{Content: true, Fix: true}); !errors.Is(err, context.Canceled) || a.InSync {
		t.Errorf("interrupted: %v, %+v", err, a)
	}
	s.setFault(nil)
	m.mustSync()
	if a := m.audit(); !a.InSync || a.Verified != 10 {
		t.Errorf("%+v", a)
	}
}

// TestAuditChangesOnly audits against a Source with nothing but a Change List: what
// the list does not mention is compared with what was written.
func TestAuditChangesOnly(t *testing.T) {
	t.Parallel()
	s := newSite(t, style{})
	for i := range 6 {
		s.put(fmt.Sprintf("/d/f%d", i), fmt.Sprint("content ", i))
	}
	m := newMirror(t, s)
	m.at = s.url("/rs/changelist.xml")
	m.mustSync()
	s.forget(3)
	m.mustSync()
	if a := m.audit(); !a.InSync || a.Verified != 6 {
		t.Errorf("%+v", a)
	}
	for i := range 5 {
		writeFile(t, m.path(fmt.Sprintf("d/f%d", i)), "content X")
	}
	a, err := m.fix()
	if err != nil || !a.InSync || a.Corrupt != 5 || a.Mended.Fetched != 5 {
		t.Errorf("%v, %+v, %+v", err, a, a.Mended)
	}
	m.same()
	m.mustSync()
}

// TestAuditSitemap does not report what a plain Sitemap no longer lists as extra,
// unless it is configured to (RS-RL-12).
func TestAuditSitemap(t *testing.T) {
	t.Parallel()
	s, m := seeded(t, style{sitemap: true})
	s.del("/d/f1")
	writeFile(t, m.path("d/f1"), "content X")
	wantKinds(t, "keep", m.audit(), "corrupt d/f1")
	m.opts.Delete = destination.DeleteApply
	a, err := m.fix()
	if err != nil || !a.InSync {
		t.Errorf("%v, %+v", err, a)
	}
	wantKinds(t, "apply", a, "extra d/f1")
	m.same()
}

// TestAuditTwoSets examines a file that two sets contain only once.
func TestAuditTwoSets(t *testing.T) {
	t.Parallel()
	s, m := seeded(t, style{noChanges: true})
	s.twoSets()
	m.mustSync()
	if a := m.audit(); !a.InSync || a.Verified != 10 || a.Resources != 20 {
		t.Errorf("%+v", a)
	}
	writeFile(t, m.path("d/f0"), "content X")
	if err := os.Remove(m.path("d/f1")); err != nil {
		t.Fatal(err)
	}
	a, err := m.fix()
	if err != nil || !a.InSync || a.Mended.Fetched != 2 {
		t.Errorf("%v, %+v, %+v", err, a, a.Mended)
	}
	wantKinds(t, "fix", a, "corrupt d/f0, missing d/f1")
	m.same()
}

// twoSets makes the Source one of two sets that have the same resources.
func (s *site) twoSets() {
	s.mu.Lock()
	list, _ := s.document("/rs/resourcelist.xml")
	s.mu.Unlock()
	s.replace("/.well-known/resourcesync", doc("urlset", `<rs:md capability="description"/>`, fmt.Sprintf(
		`<url><loc>%[1]s/rs/capabilitylist.xml</loc><rs:md capability="capabilitylist"/></url><url><loc>%[1]s/two/capabilitylist.xml</loc><rs:md capability="capabilitylist"/></url>`, s.srv.URL)))
	s.replace("/two/capabilitylist.xml", doc("urlset", `<rs:md capability="capabilitylist"/>`,
		fmt.Sprintf(`<url><loc>%s/two/resourcelist.xml</loc><rs:md capability="resourcelist"/></url>`, s.srv.URL)))
	s.replace("/two/resourcelist.xml", list)
}

// TestAuditOrphans examines the files of a set that the Source no longer has.
func TestAuditOrphans(t *testing.T) {
	t.Parallel()
	s, m := seeded(t, style{noChanges: true})
	s.twoSets()
	s.put("/d/only", "in the first set")
	m.mustSync()
	s.replace("/.well-known/resourcesync", doc("urlset", `<rs:md capability="description"/>`, fmt.Sprintf(
		`<url><loc>%[1]s/two/capabilitylist.xml</loc><rs:md capability="capabilitylist"/></url>`, s.srv.URL)))
	m.mustSync()
	a := m.audit()
	if a.InSync || a.Verified != 10 || a.Resources != 10 || len(a.Withdrawn) != 1 {
		t.Errorf("%+v", a)
	}
	wantKinds(t, "withdrawn", a, "extra d/only")
	writeFile(t, m.path("d/only"), "damaged")
	writeFile(t, m.path("d/f1"), "damaged")
	a, err := m.fix()
	if err != nil || a.InSync || a.Mended == nil || a.Mended.Fetched != 1 {
		t.Errorf("%v, %+v, %+v", err, a, a.Mended)
	}
	wantKinds(t, "fix", a, "corrupt d/f1, extra d/only")
	wantKinds(t, "after", m.audit(), "extra d/only")
	m.opts.Baseline, m.opts.MaxDelete = true, 100
	s.del("/d/only")
	m.mustSync()
	m.opts.Baseline, m.opts.MaxDelete = false, 0
	wantKinds(t, "removed", m.audit(), "")
}

// TestFixOneSet changes nothing in sets that were not examined.
func TestFixOneSet(t *testing.T) {
	t.Parallel()
	s, m := seeded(t, style{noChanges: true})
	s.twoSets()
	s.put("/d/only", "in the first set")
	m.mustSync()
	writeFile(t, m.path("d/f0"), "content X")
	m.opts.Sets = []string{s.url("/two/capabilitylist.xml")}
	m.opts.MaxDelete = 100
	a, err := m.fix()
	if err != nil || !a.InSync || a.Mended.Fetched != 1 || a.Mended.Deleted != 0 || a.Resources != 10 {
		t.Errorf("%v, %+v, %+v", err, a, a.Mended)
	}
	m.same()
}

// TestFixOfSeveralSets: a resource of two sets whose row is dropped, because its path is occupied, stays in the set that
// the repair did not read.
func TestFixOfSeveralSets(t *testing.T) {
	t.Parallel()
	s, m := seeded(t, style{})
	s.twoSets()
	m.mustSync()
	if err := os.Remove(m.path("d/f0")); err != nil {
		t.Fatal(err)
	}
	writeFile(t, m.path("d/f0/notes"), "the user's")
	m.opts.Sets = []string{s.url("/two/capabilitylist.xml")}
	if a, err := m.fix(); err != nil || !a.InSync {
		t.Fatalf("%v, %+v", err, a)
	}
	m.opts.Sets = nil
	m.mustSyncBeside()
	if a := m.audit(); !a.InSync || a.Resources != 20 {
		t.Errorf("after the repair: %+v", a)
	}
	s.mu.Lock()
	s.now = s.now.Add(time.Hour)
	gone := s.files["/d/f0"]
	delete(s.files, "/d/f0")
	list, _ := s.document("/rs/resourcelist.xml")
	s.files["/d/f0"] = gone
	s.mu.Unlock()
	s.replace("/two/resourcelist.xml", list)
	m.mustSyncBeside()
	if f := m.files(); f["d/f0%~-"] != "content 0" {
		t.Errorf("a resource that one of its sets still has was deleted: %v", f)
	}
}

// TestFixNotBack does not repair a mirror from a Source that went back in time.
func TestFixNotBack(t *testing.T) {
	t.Parallel()
	s, m := seeded(t, style{})
	s.mu.Lock()
	log, now, files := s.log, s.now, maps.Clone(s.files)
	s.now = s.now.Add(time.Hour)
	s.mu.Unlock()
	s.put("/d/f1", "newer")
	m.mustSync()
	s.mu.Lock()
	s.files, s.log, s.now = files, log, now
	s.mu.Unlock()
	if a, err := m.fix(); !errors.Is(err, destination.ErrRefused) || a.InSync || m.files()["d/f1"] != "newer" {
		t.Errorf("%v, %+v", err, a)
	}
}

// TestBackAfterKill detects that a Source went back in time also when the previous
// run was killed during a full comparison.
func TestBackAfterKill(t *testing.T) {
	t.Parallel()
	s, m := seeded(t, style{})
	s.mu.Lock()
	log, now, from, files := s.log, s.now, s.from, maps.Clone(s.files)
	s.now = s.now.Add(time.Hour)
	s.mu.Unlock()
	s.put("/d/f1", "newer")
	m.mustSync()
	s.put("/d/f2", "newer, too")
	s.forget(1 << 30) // now everything has to be compared
	dir := m.store
	m.store = &dying{Dir: dir.(*blob.Dir)}
	if _, err := m.sync(); !errors.Is(err, faultfs.ErrCrash) {
		t.Fatal(err)
	}
	m.store = dir
	s.mu.Lock()
	s.files, s.log, s.now, s.from = files, log, now, from
	s.mu.Unlock()
	if r, err := m.sync(); !errors.Is(err, destination.ErrRefused) || m.files()["d/f1"] != "newer" || m.files()["d/f2"] != "newer, too" {
		t.Errorf("%v, %+v, %v", err, r, m.files())
	}
}

// TestAuditAfterKill recognizes files that a killed run had committed but not
// recorded, and changes nothing.
func TestAuditAfterKill(t *testing.T) {
	t.Parallel()
	s, m := seeded(t, style{})
	s.put("/d/f0", "changed")
	s.put("/d/f10", "created")
	dir := m.store
	m.store = &dying{Dir: dir.(*blob.Dir)}
	if _, err := m.sync(); !errors.Is(err, faultfs.ErrCrash) {
		t.Fatal(err)
	}
	m.store = dir
	if f := m.files(); f["d/f0"] != "changed" || f["d/f10"] != "created" {
		t.Fatalf("files %v", f)
	}
	for range 2 {
		if a := m.audit(); !a.InSync || a.Foreign != 0 || a.Verified != 11 {
			t.Errorf("%+v", a)
		}
	}
	m.mustSync()
}

// A dying store fails once it has committed.
type dying struct{ *blob.Dir }

func (s *dying) Commit(ctx context.Context, ws ...blob.Writer) error {
	if err := s.Dir.Commit(ctx, ws...); err != nil {
		return err
	}
	return &blob.CommitError{Done: len(ws), Name: ws[0].Name(), Err: faultfs.ErrCrash}
}

// TestAuditPlain compares a directory that another program filled.
func TestAuditPlain(t *testing.T) {
	t.Parallel()
	for _, st := range []style{{}, {noHash: true, seconds: true}} {
		s := newSite(t, st)
		for i := range 5 {
			s.put(fmt.Sprintf("/d/f%d", i), fmt.Sprint("content ", i))
		}
		s.put("/d/a%20b%3F", "odd")
		s.later()
		m := newMirror(t, s)
		m.filled("d/f0", "/d/f0")
		m.filled("d/a%20b%3F", "/d/a%20b%3F") // as resync writes it
		m.filled("d/f2", "/d/f2")
		writeFile(t, m.path("d/f1"), "content X")
		writeFile(t, m.path("d/f3"), "short")
		writeFile(t, m.path("d/notes"), "x")
		want := "foreign d/notes, missing d/f4, stale d/f1, stale d/f3"
		if st.noHash { // of one the length is right
			want = "foreign d/notes, missing d/f4, stale d/f3"
		}
		before := fmt.Sprint(m.files())
		a, err := m.auditWith(destination.AuditOptions{})
		if err != nil || a.InSync || a.Resources != 6 || len(a.Warnings) == 0 || st.noHash != (a.Unverifiable == 1) {
			t.Errorf("%v, %+v", err, a)
		}
		wantKinds(t, fmt.Sprintf("%+v", st), a, want)
		if fmt.Sprint(m.files()) != before {
			t.Error("the audit changed files")
		}
	}
}

// later lets time pass at the Source, so that its Resource List is of another
// second than its last change.
func (s *site) later() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now = s.now.Add(2 * time.Second)
}

// filled writes the file of a resource as another program does, with its time
// in whole seconds.
func (m *mirror) filled(name, resource string) {
	m.t.Helper()
	f := m.site.file(resource)
	writeFile(m.t, m.path(name), string(f.data))
	if err := os.Chtimes(m.path(name), time.Time{}, f.mod.Truncate(time.Second)); err != nil {
		m.t.Fatal(err)
	}
}
