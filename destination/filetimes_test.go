package destination_test

import (
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"lockstep/destination"
)

// timeOf returns the modification time of a file of the mirror.
func timeOf(t *testing.T, m *mirror, path string) time.Time {
	t.Helper()
	info, err := os.Stat(m.path(path))
	if err != nil {
		t.Fatal(err)
	}
	return info.ModTime()
}

// checkAll checks the files of the mirror, and that none differs from what is recorded.
func checkAll(t *testing.T, m *mirror) {
	t.Helper()
	m.opts.CheckLocal = destination.CheckAlways
	r, err := m.sync()
	if err != nil || r.Local == nil || !r.Local.Checked || r.Local.Touched+r.Local.Changed+r.Local.Missing > 0 {
		t.Errorf("check of the files: %v, %+v, want all as recorded", err, r.Local)
	}
}

// TestFileTimes: a file has the time that the Source states, else that of the response, else
// that of its writing.
func TestFileTimes(t *testing.T) {
	t.Parallel()
	s := newSite(t, style{noLastmod: true, noTimes: true, noChanges: true})
	for _, name := range []string{"/d/stated.txt", "/d/answered.txt", "/d/future.txt", "/d/silly.txt", "/d/unknown.txt"} {
		s.put(name, name)
	}
	stated := time.Date(2021, 3, 4, 5, 6, 7, 250_000_000, time.UTC)
	answered := time.Date(2022, 3, 4, 5, 6, 7, 0, time.UTC)
	s.rewrite = func(path, text string) string {
		if path != "/rs/resourcelist.xml" {
			return text
		}
		return strings.Replace(text, "<loc>"+s.url("/d/stated.txt")+"</loc>", "<loc>"+s.url("/d/stated.txt")+"</loc><lastmod>2021-03-04T05:06:07.25Z</lastmod>", 1)
	}
	s.setFault(func(w http.ResponseWriter, r *http.Request) bool {
		if !strings.HasPrefix(r.URL.Path, "/d/") {
			return false
		}
		switch r.URL.Path {
		case "/d/stated.txt", "/d/answered.txt":
			w.Header().Set("Last-Modified", answered.Format(http.TimeFormat))
		case "/d/future.txt":
			w.Header().Set("Last-Modified", time.Now().AddDate(1, 0, 0).UTC().Format(http.TimeFormat))
		case "/d/silly.txt":
			w.Header().Set("Last-Modified", "Thu, 01 Jan 1970 00:00:00 GMT")
		}
		_, _ = w.Write([]byte(r.URL.Path))
		return true
	})
	m := newMirror(t, s)
	start := time.Now().Truncate(time.Second)
	if _, err := m.sync(); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]time.Time{"d/stated.txt": stated, "d/answered.txt": answered} {
		if got := timeOf(t, m, path); !got.Equal(want) {
			t.Errorf("%s has the time %s, want %s", path, got, want)
		}
	}
	for _, path := range []string{"d/future.txt", "d/silly.txt", "d/unknown.txt"} {
		if got := timeOf(t, m, path); got.Before(start) || got.After(time.Now()) {
			t.Errorf("%s has the time %s, want that of the run", path, got)
		}
	}
	checkAll(t, m)
}

// TestFileTimesOfPackages: members of packages have the times that the Source states.
func TestFileTimesOfPackages(t *testing.T) {
	t.Parallel()
	s := newSite(t, style{dumpStyle: dumpStyle{dump: true, each: 10}})
	for _, name := range []string{"/d/a.txt", "/d/b.txt", "/d/c.txt"} {
		s.put(name, name)
	}
	m := newMirror(t, s)
	m.opts.Via = destination.ViaDump
	r, err := m.sync()
	if err != nil || r.By.Package != 3 {
		t.Fatalf("%v, %d from packages, want 3", err, r.By.Package)
	}
	for _, name := range []string{"/d/a.txt", "/d/b.txt", "/d/c.txt"} {
		if got, want := timeOf(t, m, name), s.file(name).mod; !got.Equal(want) {
			t.Errorf("%s has the time %s, want %s", name, got, want)
		}
	}
	checkAll(t, m)
}

// TestTimeAloneChanges: where the Source states another time for the same content, the file
// gets it without being fetched. One that another program has changed keeps its time, so
// that the check of the files finds it.
func TestTimeAloneChanges(t *testing.T) {
	t.Parallel()
	s := newSite(t, style{})
	for _, name := range []string{"/d/a.txt", "/d/edited.txt", "/d/same.txt"} {
		s.put(name, "content of "+name)
	}
	m := newMirror(t, s)
	if _, err := m.sync(); err != nil {
		t.Fatal(err)
	}
	edited := time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC)
	text := []byte("CONTENT of /d/edited.txt")
	if err := os.WriteFile(m.path("d/edited.txt"), text, 0o666); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(m.path("d/edited.txt"), edited, edited); err != nil {
		t.Fatal(err)
	}
	s.advance(time.Hour)
	for _, name := range []string{"/d/a.txt", "/d/edited.txt"} {
		s.put(name, "content of "+name)
	}
	m.opts.CheckLocal = destination.CheckNever
	s.reset()
	r, err := m.sync()
	if err != nil || r.By.Request > 0 {
		t.Fatalf("%v, %d requests for content, want none", err, r.By.Request)
	}
	if got, want := timeOf(t, m, "d/a.txt"), s.file("/d/a.txt").mod; !got.Equal(want) {
		t.Errorf("a.txt has the time %s, want %s", got, want)
	}
	if got, want := timeOf(t, m, "d/same.txt"), s.file("/d/same.txt").mod; !got.Equal(want) {
		t.Errorf("same.txt has the time %s, want %s", got, want)
	}
	if got := timeOf(t, m, "d/edited.txt"); !got.Equal(edited) {
		t.Errorf("edited.txt has the time %s, want %s: it hides the edit", got, edited)
	}
	m.opts.CheckLocal = destination.CheckAlways
	if r, err = m.sync(); err != nil || r.Local.Changed != 1 || r.Local.Touched != 0 {
		t.Errorf("check of the files: %v, %+v, want one changed", err, r.Local)
	}
	m.same()
	checkAll(t, m)
}

// TestFileTimesOfAdopted: a file that is adopted because its content is right gets the time
// that the Source states.
func TestFileTimesOfAdopted(t *testing.T) {
	t.Parallel()
	s := newSite(t, style{})
	s.put("/d/a.txt", "adopted")
	m := newMirror(t, s)
	if err := os.MkdirAll(m.path("d"), 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(m.path("d/a.txt"), []byte("adopted"), 0o666); err != nil {
		t.Fatal(err)
	}
	m.opts.Adopt = true
	r, err := m.sync()
	if err != nil || r.By.Adopted != 1 {
		t.Fatalf("%v, %d adopted, want 1", err, r.By.Adopted)
	}
	if got, want := timeOf(t, m, "d/a.txt"), s.file("/d/a.txt").mod; !got.Equal(want) {
		t.Errorf("the file has the time %s, want %s", got, want)
	}
	checkAll(t, m)
}
