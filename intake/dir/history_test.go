//go:build unix

package dir_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"os"
	"path"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"lockstep/catalog"
	"lockstep/intake/dir"
)

// oddNames are few, so that histories come back to the same names.
var oddNames = []string{
	"a", "b", "a-", "a.txt", "a0", "d", "D", "d d", "%2F", "x?y#z", "new\nline", "\xff\xfe", "é", "...", ".hidden", "~", "+",
	longName, "robots.txt", "-", "resourcesync", ".well-known", ".lockstep-x", "tab\t", "q\"<>&'", "\\", "%", "%zz", "\x01\x7f",
}

var longName = func() string {
	b := make([]byte, 255)
	for i := range b {
		b[i] = byte(0x80 + i%64) // escaped three times as long
	}
	return string(b)
}()

func genPath() *rapid.Generator[string] {
	return rapid.Custom(func(t *rapid.T) string {
		return path.Join(rapid.SliceOfN(rapid.SampledFrom(oddNames), 1, 3).Draw(t, "path")...)
	})
}

// history is a tree, a catalog and what happens to them.
type history struct {
	root    string
	cat     *faultyCatalog
	dir     *dir.Dir
	modes   []os.FileMode // for chmod
	touched []string
}

func newHistory(t *rapid.T) *history {
	root, err := os.MkdirTemp("", "history-")
	must(t, err)
	t.Cleanup(func() {
		readable(root)
		_ = os.RemoveAll(root)
	})
	h := &history{root: root, cat: &faultyCatalog{Catalog: catalog.NewMem(nil)}, modes: []os.FileMode{0, 0o100, 0o400, 0o755}}
	h.dir = newDir(t, root, h.cat, dir.Options{AllowEmpty: true})
	return h
}

// readable undoes every chmod.
func readable(dir string) {
	_ = os.Chmod(dir, 0o755)
	es, _ := os.ReadDir(dir)
	for _, e := range es {
		name := filepath.Join(dir, e.Name())
		if e.IsDir() {
			readable(name)
		} else if e.Type() == 0 {
			_ = os.Chmod(name, 0o644)
		}
	}
}

func (h *history) path(t *rapid.T) string {
	rel := genPath().Draw(t, "at")
	h.touched = append(h.touched, rel)
	// No pipe in the way: what package os does with one would wait for ever.
	for i := range len(rel) + 1 {
		if i < len(rel) && rel[i] != '/' {
			continue
		}
		name := filepath.Join(h.root, rel[:i])
		if fi, err := os.Stat(name); err == nil && fi.Mode().Type() == os.ModeNamedPipe {
			readable(filepath.Dir(name))
			_ = os.Remove(name)
			h.touched = append(h.touched, path.Dir(rel[:i]))
		}
	}
	return filepath.Join(h.root, rel)
}

// actions change the tree. What the system refuses has not happened.
func (h *history) actions() map[string]func(*rapid.T) {
	return map[string]func(*rapid.T){
		"write": func(t *rapid.T) {
			name := h.path(t)
			_ = os.MkdirAll(filepath.Dir(name), 0o755)
			// Few sizes: most changes leave the size as it was.
			text := fmt.Sprintf("%0*d", rapid.SampledFrom([]int{0, 1, 7}).Draw(t, "size"), rapid.IntRange(1, 9).Draw(t, "text"))
			_ = os.WriteFile(name, []byte(text), 0o644)
		},
		"large": func(t *rapid.T) {
			b := make([]byte, rapid.SampledFrom([]int{128<<10 - 1, 128 << 10, 128<<10 + 1, 300 << 10}).Draw(t, "size"))
			b[len(b)-1] = byte(rapid.IntRange(1, 9).Draw(t, "last"))
			_ = os.WriteFile(h.path(t), b, 0o644)
		},
		"remove": func(t *rapid.T) { _ = os.RemoveAll(h.path(t)) },
		"rename": func(t *rapid.T) { _ = os.Rename(h.path(t), h.path(t)) },
		"mkdir":  func(t *rapid.T) { _ = os.Mkdir(h.path(t), 0o755) },
		"chmod": func(t *rapid.T) {
			mode := rapid.SampledFrom(h.modes).Draw(t, "mode")
			if name := h.path(t); mode == 0o755 {
				readable(name)
			} else if fi, err := os.Lstat(name); err == nil && fi.Mode().Type()&^os.ModeDir == 0 {
				_ = os.Chmod(name, mode)
			}
		},
		"fifo": func(t *rapid.T) { _ = syscall.Mkfifo(h.path(t), 0o644) },
	}
}

// links adds what makes one file appear under several names.
func (h *history) links(m map[string]func(*rapid.T)) map[string]func(*rapid.T) {
	m["symlink"] = func(t *rapid.T) {
		targets := append([]string{".", "..", "../..", "/etc/passwd", "../../../../../../../../etc/passwd", "nowhere", "a/a", "../a", "d/a"}, oddNames...)
		name := h.path(t)
		_ = os.Remove(name)
		_ = os.Symlink(rapid.SampledFrom(targets).Draw(t, "target"), name)
	}
	m["link"] = func(t *rapid.T) { _ = os.Link(h.path(t), h.path(t)) }
	return m
}

func (h *history) check(t *rapid.T, want map[string]content) {
	t.Helper()
	if diff := cmp.Diff(want, holds(t, h.cat)); diff != "" {
		t.Fatalf("catalog differs from the tree (-want +got):\n%s", diff)
	}
}

// TestHistory: whatever happens to a tree, after a scan the catalog is the
// tree; what could not be read is as it was; a scan that was broken off has
// deleted nothing.
func TestHistory(t *testing.T) {
	t.Parallel()
	unprivileged(t, func(t *testing.T) {
		rapid.Check(t, func(t *rapid.T) {
			h := newHistory(t)
			m := h.links(h.actions())
			m["scan"] = func(t *rapid.T) {
				before := holds(t, h.cat)
				scan(t, h.dir)
				h.check(t, look(t, h.root).want(before))
			}
			m["broken scan"] = func(t *rapid.T) {
				before := holds(t, h.cat)
				h.cat.failAfter.Store(int64(rapid.IntRange(1, 20).Draw(t, "rows")))
				_, err := h.dir.Scan(context.Background())
				h.cat.failAfter.Store(0)
				if hit := h.cat.hit.Swap(false); hit != errors.Is(err, errFault) {
					t.Fatalf("scan of a catalog that failed (%v): %v", hit, err)
				}
				if err == nil {
					return
				}
				after := holds(t, h.cat)
				for uri := range before {
					if _, ok := after[uri]; !ok {
						t.Fatalf("scan ended with %v, yet deleted %s", err, uri)
					}
				}
			}
			t.Repeat(m)
			readable(h.root)
			scan(t, h.dir)
			h.check(t, look(t, h.root).want(nil))
			if r := scan(t, h.dir); r.Changed() || r.Unchanged != r.Files {
				t.Fatalf("second scan: %+v", r)
			}
		})
	})
}

// TestHistoryInParts: scanning the paths that were touched comes to the same as
// scanning everything.
func TestHistoryInParts(t *testing.T) {
	t.Parallel()
	unprivileged(t, func(t *testing.T) {
		rapid.Check(t, func(t *rapid.T) {
			h := newHistory(t)
			// With half of the permissions to a directory one can look at a
			// name, but not for it, or the reverse: parts then know more, or
			// less, than the whole.
			h.modes = []os.FileMode{0, 0o755}
			scan(t, h.dir)
			m := h.actions()
			m["scan"] = func(t *rapid.T) {
				before := holds(t, h.cat)
				if _, err := h.dir.ScanPaths(context.Background(), h.touched...); err != nil {
					t.Fatal(err)
				}
				h.touched = nil
				h.check(t, look(t, h.root).want(before))
			}
			t.Repeat(m)
		})
	})
}

// faultyCatalog breaks off a reading after so many rows; 0 is never.
type faultyCatalog struct {
	catalog.Catalog
	failAfter atomic.Int64
	hit       atomic.Bool
}

var errFault = errors.New("catalog out of order")

func (c *faultyCatalog) Resources(ctx context.Context, set string, r catalog.Range) iter.Seq2[catalog.Record, error] {
	return func(yield func(catalog.Record, error) bool) {
		for rec, err := range c.Catalog.Resources(ctx, set, r) {
			if c.failAfter.Load() > 0 && c.failAfter.Add(-1) == 0 {
				c.failAfter.Store(1)
				c.hit.Store(true)
				yield(catalog.Record{}, errFault)
				return
			}
			if !yield(rec, err) {
				return
			}
		}
	}
}
