package destination_test

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"lockstep/destination"
	"lockstep/storage/sqlite"
)

// A localDamage is something that happens to a file of a mirror behind our back. It
// reports whether the file is then damaged, and whether its bytes are right but
// its time is not.
type localDamage struct {
	name            string
	do              func(t *testing.T, path string)
	broken, touched bool
}

func localDamages() []localDamage {
	must := func(t *testing.T, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	return []localDamage{
		{"missing", func(t *testing.T, path string) { must(t, os.Remove(path)) }, true, false},
		{"truncated", func(t *testing.T, path string) { must(t, os.Truncate(path, 1)) }, true, false},
		{"emptied", func(t *testing.T, path string) { must(t, os.Truncate(path, 0)) }, true, false},
		{"longer", func(t *testing.T, path string) {
			data, err := os.ReadFile(path)
			must(t, err)
			must(t, os.WriteFile(path, append(data, '!'), 0o644))
		}, true, false},
		{"other bytes", func(t *testing.T, path string) {
			data, err := os.ReadFile(path)
			must(t, err)
			data[0] ^= 1
			must(t, os.WriteFile(path, data, 0o644))
			at := time.Now().Add(-time.Hour)
			must(t, os.Chtimes(path, at, at))
		}, true, false},
		{"touched", func(t *testing.T, path string) {
			at := time.Now().Add(-time.Minute)
			must(t, os.Chtimes(path, at, at))
		}, false, true},
		{"directory", func(t *testing.T, path string) { must(t, os.Remove(path)); must(t, os.Mkdir(path, 0o755)) }, true, false},
		{"symlink to the right bytes", func(t *testing.T, path string) {
			other := filepath.Join(t.TempDir(), "other")
			must(t, os.Rename(path, other))
			must(t, os.Symlink(other, path))
		}, true, false},
		{"symlink to nothing", func(t *testing.T, path string) { must(t, os.Remove(path)); must(t, os.Symlink("nothing", path)) }, true, false},
		{"parent is a symlink", func(t *testing.T, path string) {
			dir := filepath.Dir(path)
			other := filepath.Join(t.TempDir(), "other")
			must(t, os.Rename(dir, other))
			must(t, os.Symlink(other, dir))
		}, true, false},
	}
}

// localSite is a Source with some files, each in a directory of its own.
func localSite(t testing.TB, st style, n int) *site {
	s := newSite(t, st)
	for i := range n {
		s.put(fmt.Sprintf("/d%d/f", i), fmt.Sprintf("content of %d", i))
	}
	return s
}

// TestLocalDamage makes every kind of damage: a run finds and repairs it though
// nothing has changed at the Source.
func TestLocalDamage(t *testing.T) {
	t.Parallel()
	styles := map[string]style{
		"hashes": {}, "no hashes": {noHash: true}, "no times": {noTimes: true, noLastmod: true}, "no change list": {noChanges: true}, "sitemap": {sitemap: true},
	}
	for name, st := range styles {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := localSite(t, st, 12)
			m := newMirror(t, s)
			s.later()
			m.mustSync()
			m.mustSync()
			for i, d := range localDamages() {
				path := m.path(fmt.Sprintf("d%d/f", i))
				was, err := os.Stat(path)
				if err != nil {
					t.Fatal(err)
				}
				d.do(t, path)
				m.opts.DryRun = true
				if r, err := m.sync(); err != nil || r.Local == nil || !r.Local.Checked || (r.Local.Damaged() == 1) != d.broken || (r.Local.Touched == 1) != d.touched {
					t.Errorf("%s: dry run: %v, %+v", d.name, err, r.Local)
				}
				m.opts.DryRun = false
				r := m.mustSync()
				switch l := r.Local; {
				case l == nil || !l.Checked || l.CheckedAt.IsZero() || l.Files != 12:
					t.Errorf("%s: not checked: %+v", d.name, l)
				case d.broken && (l.Damaged() != 1 || l.Repaired != 1 || s.bytes() == 0):
					t.Errorf("%s: %+v, %d requests", d.name, l, s.resourceGets())
				case d.touched && (l.Touched != 1 || l.Damaged() != 0 || s.bytes() != 0):
					t.Errorf("%s: %+v, %d requests: the record alone should be refreshed", d.name, l, s.resourceGets())
				}
				if now, err := os.Stat(path); d.touched && !st.noTimes && (err != nil || !now.ModTime().Equal(was.ModTime())) {
					t.Errorf("%s: the file has the time %v, %v, want that of the resource, %v", d.name, now.ModTime(), err, was.ModTime())
				}
				if r = m.mustSync(); r.Local.Damaged()+r.Local.Touched != 0 || s.bytes() != 0 {
					t.Errorf("%s: the next run: %+v, %d requests", d.name, r.Local, s.resourceGets())
				}
			}
			if a := m.audit(); a.Corrupt+a.Missing+a.Stale+a.Extra > 0 {
				t.Errorf("audit: %+v", a)
			}
		})
	}
}

// TestLocalDamageUnrepaired never says that a mirror is in step while a damaged
// file cannot be fetched.
func TestLocalDamageUnrepaired(t *testing.T) {
	t.Parallel()
	s := localSite(t, style{}, 3)
	m := newMirror(t, s)
	m.mustSync()
	if err := os.Truncate(m.path("d1/f"), 3); err != nil {
		t.Fatal(err)
	}
	s.setFault(func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path == "/d1/f" {
			http.Error(w, "no", http.StatusForbidden)
			return true
		}
		return false
	})
	for range 3 {
		r, err := m.sync()
		if !errors.Is(err, destination.ErrIncomplete) || r.Failed != 1 {
			t.Fatalf("%v, %+v", err, r)
		}
	}
	s.setFault(nil)
	m.mustSync()
}

// TestLocalDamageOfChanged repairs files whose resources have changed, or gone,
// at the Source meanwhile: what the Source says now counts.
func TestLocalDamageOfChanged(t *testing.T) {
	t.Parallel()
	for _, st := range []style{{}, {noChanges: true}, {noHash: true}} {
		s := localSite(t, st, 6)
		m := newMirror(t, s)
		s.later()
		m.mustSync()
		for i := range 3 {
			if err := os.Remove(m.path(fmt.Sprintf("d%d/f", i))); err != nil {
				t.Fatal(err)
			}
		}
		s.put("/d0/f", "another version")
		s.del("/d1/f")
		s.later()
		m.mustSync()
	}
}

// TestLocalRandomDamage damages files at random, over and over, while the Source
// changes: each run makes the mirror exact, and fetches what is damaged only.
func TestLocalRandomDamage(t *testing.T) {
	t.Parallel()
	kinds := localDamages()
	for seed := range uint64(12) {
		r := rand.New(rand.NewPCG(seed, 3))
		s := localSite(t, style{noHash: seed%3 == 1, noChanges: seed%4 == 2}, 20)
		m := newMirror(t, s)
		if seed%2 == 0 {
			db, err := sqlite.Open(filepath.Join(t.TempDir(), "j.db"))
			if err != nil {
				t.Fatal(err)
			}
			defer db.Close()
			m.journal = db.Journal()
		}
		s.later()
		m.mustSync()
		for round := range 6 {
			broken := map[int]string{}
			for range r.IntN(5) {
				i, d := r.IntN(20), kinds[r.IntN(len(kinds))]
				if broken[i] == "" && d.broken {
					if _, err := os.Lstat(m.path(fmt.Sprintf("d%d/f", i))); err == nil {
						d.do(t, m.path(fmt.Sprintf("d%d/f", i)))
						broken[i] = d.name
					}
				}
			}
			changed := r.IntN(20)
			s.put(fmt.Sprintf("/d%d/f", changed), fmt.Sprintf("round %d", round))
			s.later()
			rep := m.mustSync()
			if got := rep.Local.Damaged(); got != int64(len(broken)) {
				t.Fatalf("seed %d, round %d: %v: %+v", seed, round, slices.Collect(maps.Values(broken)), rep.Local)
			}
			delete(broken, changed)
			if gets := s.resourceGets(); gets > len(broken)+1 {
				t.Fatalf("seed %d, round %d: %d requests for %v", seed, round, gets, broken)
			}
		}
	}
}

// TestLocalContentOnly: bytes that were replaced by as many, with the time restored,
// are found by an audit with Content.
func TestLocalContentOnly(t *testing.T) {
	t.Parallel()
	s := localSite(t, style{}, 3)
	m := newMirror(t, s)
	m.mustSync()
	path := m.path("d1/f")
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	writeFile(t, path, strings.Repeat("x", int(info.Size())))
	if err := os.Chtimes(path, info.ModTime(), info.ModTime()); err != nil {
		t.Fatal(err)
	}
	if r, err := m.sync(); err != nil || r.Local.Damaged() != 0 {
		t.Errorf("%v, %+v", err, r.Local)
	}
	wantKinds(t, "audit --content", m.audit(), "corrupt d1/f")
}

// TestLocalWhen examines files as often as Options.CheckLocal says.
func TestLocalWhen(t *testing.T) {
	t.Parallel()
	s := localSite(t, style{}, 3)
	m := newMirror(t, s)
	m.mustSync()
	for _, tt := range []struct {
		when    destination.CheckLocal
		checked bool
	}{{destination.CheckNever, false}, {destination.CheckDaily, true}, {destination.CheckDaily, false}, {destination.CheckAuto, true}, {destination.CheckAlways, true}} {
		m.opts.CheckLocal = tt.when
		r := m.mustSync()
		if r.Local == nil || r.Local.Checked != tt.checked || tt.checked == r.Local.CheckedAt.IsZero() && tt.when != destination.CheckDaily {
			t.Errorf("%q: %+v", tt.when, r.Local)
		}
	}
}
