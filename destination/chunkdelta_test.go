package destination_test

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"lockstep/internal/chunkdelta"
	"lockstep/patch"
)

// noise returns incompressible content with an edit for each of n.
func noise(edits int) string {
	b := make([]byte, 200_000)
	_, _ = rand.NewChaCha8([32]byte{1}).Read(b) // never fails
	for i := range edits {
		copy(b[10_000+i*20_000:], fmt.Sprintf("edit %d", i))
	}
	return string(b)
}

// chunkDelta returns the delta of a large content.
func chunkDelta(t *testing.T, old, data string) []byte {
	t.Helper()
	x, err := chunkdelta.IndexOf(bytes.NewReader([]byte(old)), sha256.Sum256([]byte(old)))
	if err != nil {
		t.Fatal(err)
	}
	s := chunkdelta.NewScanner(nil, x)
	if err := s.Scan(bytes.NewReader([]byte(data))); err != nil {
		t.Fatal(err)
	}
	d, err := s.Delta()
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// putLarge changes a resource and announces the delta of a large content.
func (p *patching) putLarge(t *testing.T, s *site, path, data string) {
	t.Helper()
	p.add(path, data, patch.TypeChunkDelta, chunkDelta(t, string(s.file(path).data), data))
	s.put(path, data)
}

// TestChunkDeltas: one change or several of a large content are applied to the
// version held, and cost as many bytes as changed.
func TestChunkDeltas(t *testing.T) {
	t.Parallel()
	s := newSite(t, style{})
	p := newPatching(s)
	s.put("/a", noise(0))
	s.put("/b", noise(0))
	m := newMirror(t, s)
	m.mustSync()
	p.putLarge(t, s, "/a", noise(1))
	for i := range 3 {
		p.putLarge(t, s, "/b", noise(i+1))
	}
	if r := m.mustSync(); r.By.Patch != 2 || s.resourceGets() != 0 || r.Bytes > 100_000 {
		t.Errorf("by %+v with %d requests, %d bytes; want patches", r.By, s.resourceGets(), r.Bytes)
	}
	if got, err := os.ReadFile(filepath.Join(m.dir, "b")); err != nil || string(got) != noise(3) {
		t.Errorf("another content, %v", err)
	}
	p.put(t, s, "/a", noise(2)) // a delta of each kind
	p.putLarge(t, s, "/a", noise(3))
	if r := m.mustSync(); r.By.Patch != 1 {
		t.Errorf("by %+v, want a chain of different patches", r.By)
	}
}

// TestChunkDeltasRefused: the content is fetched if the delta, or what it is applied
// to, is not what it should be.
func TestChunkDeltasRefused(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(*testing.T, *mirror, *[]byte){
		"damaged here": func(t *testing.T, m *mirror, _ *[]byte) { m.overwrite(t, noise(5)) },
		"shorter here": func(t *testing.T, m *mirror, _ *[]byte) { m.overwrite(t, noise(0)[1:]) },
		"gone here": func(t *testing.T, m *mirror, _ *[]byte) {
			if err := os.Remove(filepath.Join(m.dir, "a")); err != nil {
				t.Fatal(err)
			}
		},
		"damaged":            func(_ *testing.T, _ *mirror, p *[]byte) { (*p)[len(*p)/2] ^= 1 },
		"of other bytes":     func(t *testing.T, _ *mirror, p *[]byte) { *p = chunkDelta(t, noise(2), noise(1)) },
		"yields other bytes": func(t *testing.T, _ *mirror, p *[]byte) { *p = chunkDelta(t, noise(0), noise(2)) },
		"yields fewer bytes": func(t *testing.T, _ *mirror, p *[]byte) { *p = chunkDelta(t, noise(0), noise(1)[1:]) },
		"of another type": func(t *testing.T, _ *mirror, p *[]byte) {
			*p, _ = new(patch.Deltas).Make([]byte(noise(0)), []byte(noise(1)))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, style{})
			p := newPatching(s)
			s.put("/a", noise(0))
			m := newMirror(t, s)
			m.mustSync()
			delta := chunkDelta(t, noise(0), noise(1))
			spoil(t, m, &delta)
			p.add("/a", noise(1), patch.TypeChunkDelta, delta)
			s.put("/a", noise(1))
			if r := m.mustSync(); r.By.Request != 1 || r.Failed != 0 || s.got("/a") != 1 {
				t.Errorf("by %+v with %d requests, want one for the whole", r.By, s.got("/a"))
			}
		})
	}
}

// overwrite changes the file of /a, but not its time.
func (m *mirror) overwrite(t *testing.T, data string) {
	t.Helper()
	file := filepath.Join(m.dir, "a")
	info, err := os.Stat(file)
	if err == nil {
		err = os.WriteFile(file, []byte(data), 0o644)
	}
	if err == nil {
		err = os.Chtimes(file, time.Time{}, info.ModTime())
	}
	if err != nil {
		t.Fatal(err)
	}
}
