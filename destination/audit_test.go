package destination_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"lockstep/destination"
)

// fix audits with Content and Fix.
func (m *mirror) fix() (destination.AuditReport, error) {
	m.t.Helper()
	m.site.reset()
	return m.destination().Audit(context.Background(), m.address(), destination.AuditOptions{Content: true, Fix: true})
}

func testRand() *rand.Rand { return rand.New(rand.NewPCG(1, 2)) }

// A damage is something done to the file of a resource; it says whether the
// file is still right.
type damage struct {
	name  string
	right bool
	do    func(r *rand.Rand, path string) error
}

var damages = []damage{
	{"flip a bit", false, func(r *rand.Rand, path string) error {
		return rewrite(path, func(b []byte) []byte { b[r.IntN(len(b))] ^= 1 << r.IntN(8); return b })
	}},
	{"truncate", false, func(r *rand.Rand, path string) error {
		return rewrite(path, func(b []byte) []byte { return b[:r.IntN(len(b))] })
	}},
	{"extend", false, func(r *rand.Rand, path string) error {
		return rewrite(path, func(b []byte) []byte { return append(b, byte(r.IntN(256))) })
	}},
	{"delete", false, func(_ *rand.Rand, path string) error { return os.Remove(path) }},
	{"another file", false, func(_ *rand.Rand, path string) error {
		return errors.Join(os.Remove(path), os.WriteFile(path, []byte("something else"), 0o600))
	}},
	{"a directory", false, func(_ *rand.Rand, path string) error { return errors.Join(os.Remove(path), os.Mkdir(path, 0o755)) }},
	{"a link", false, func(_ *rand.Rand, path string) error {
		return errors.Join(os.Rename(path, path+".was"), os.Symlink(filepath.Base(path)+".was", path))
	}},
	{"a dead link", false, func(_ *rand.Rand, path string) error {
		return errors.Join(os.Remove(path), os.Symlink("nowhere", path))
	}},
	{"rename case", false, func(_ *rand.Rand, path string) error {
		return os.Rename(path, filepath.Join(filepath.Dir(path), strings.ToUpper(filepath.Base(path))))
	}},
	{"touch", true, func(_ *rand.Rand, path string) error { return os.Chtimes(path, time.Time{}, time.Now()) }},
	{"change the mode", true, func(_ *rand.Rand, path string) error { return os.Chmod(path, 0o400) }},
	{"rewrite the same", true, func(_ *rand.Rand, path string) error { return rewrite(path, func(b []byte) []byte { return b }) }},
}

// rewrite changes a file and leaves its times.
func rewrite(path string, change func([]byte) []byte) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	return errors.Join(os.WriteFile(path, change(b), 0o644), os.Chtimes(path, time.Time{}, info.ModTime()))
}

// TestDamages makes many random damages: each is found, and nothing undamaged is
// reported; then each is repaired.
func TestDamages(t *testing.T) {
	t.Parallel()
	const resources, rounds = 60, 12
	for _, st := range []style{{}, {noHash: true}, {noChanges: true, seconds: true}} {
		r := testRand()
		s := newSite(t, st)
		for i := range resources {
			s.put(fmt.Sprintf("/d%d/f%02d", i%3, i), fmt.Sprintf("content of %d, which is %x", i, r.Uint64()))
		}
		m := newMirror(t, s)
		m.mustSync()
		for round := range rounds {
			harmed := map[string]string{}
			order := r.Perm(resources)
			for k, i := range order[:r.IntN(resources/2)] {
				d := damages[r.IntN(len(damages))]
				path := fmt.Sprintf("d%d/f%02d", i%3, i)
				if err := d.do(r, filepath.Join(m.dir, path)); err != nil {
					t.Fatal(err)
				}
				if !d.right {
					harmed[path] = d.name
				}
				if k == 0 { // and two that change places
					a, b := order[resources-1], order[resources-2]
					swap(t, filepath.Join(m.dir, fmt.Sprintf("d%d/f%02d", a%3, a)), filepath.Join(m.dir, fmt.Sprintf("d%d/f%02d", b%3, b)))
					harmed[fmt.Sprintf("d%d/f%02d", a%3, a)], harmed[fmt.Sprintf("d%d/f%02d", b%3, b)] = "swap", "swap"
				}
			}
			found := m.audit()
			checkFound(t, fmt.Sprint("round ", round), found, harmed)
			a, err := m.fix()
			if err != nil || !a.InSync || a.Corrupt != found.Corrupt || a.Missing != found.Missing {
				t.Fatalf("round %d: fix: %v\n%+v", round, err, a)
			}
			if n := int64(len(harmed)); n > 0 && (a.Mended == nil || a.Mended.Fetched != n) {
				t.Errorf("round %d: mended %+v, want %d", round, a.Mended, n)
			}
			if a := m.audit(); !a.InSync {
				t.Fatalf("round %d: after fix: %+v", round, a)
			}
			m.tidy()
			m.same()
		}
	}
}

func swap(t *testing.T, a, b string) {
	t.Helper()
	if err := errors.Join(os.Rename(a, a+".x"), os.Rename(b, a), os.Rename(a+".x", b)); err != nil {
		t.Fatal(err)
	}
}

// tidy removes the files that are foreign.
func (m *mirror) tidy() {
	m.t.Helper()
	for _, f := range m.audit().Findings {
		if f.Kind == destination.Foreign {
			if err := os.Remove(filepath.Join(m.dir, f.Path)); err != nil {
				m.t.Fatal(err)
			}
		}
	}
}

// checkFound compares the findings of an audit with the damage.
func checkFound(t *testing.T, what string, a destination.AuditReport, harmed map[string]string) {
	t.Helper()
	got := map[string]bool{}
	for _, f := range a.Findings {
		switch f.Kind {
		case destination.Corrupt, destination.Missing:
			if harmed[f.Path] == "" {
				t.Errorf("%s: false alarm: %+v", what, f)
			}
			got[f.Path] = true
		case destination.Foreign:
		default:
			t.Errorf("%s: %+v", what, f)
		}
	}
	for path, damage := range harmed {
		if !got[path] {
			t.Errorf("%s: %s of %s was not found", what, damage, path)
		}
	}
	if a.InSync != (len(harmed) == 0) {
		t.Errorf("%s: in_sync is %v with %d harmed", what, a.InSync, len(harmed))
	}
}
