package main

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"lockstep/memento"
	"lockstep/resourcesync"
)

// A versionReader asks for every version that the documents of a Source name.
type versionReader struct {
	testing.TB
	base string
	seen map[string]string // URI-M to SHA-256
}

// read reads the lists, and each version in them that is new. It returns errDown if
// the Source went away meanwhile.
func (r *versionReader) read() error {
	c := &crawl{base: r.base, documents: make(map[string]string), state: make(map[string]string)}
	for name, capability := range map[string]resourcesync.Capability{"resourcelist.xml": resourcesync.ResourceList, "changelist.xml": resourcesync.ChangeList} {
		h, entries, err := c.document(r.base+"resourcesync/main/"+name, capability)
		if err != nil {
			return err
		}
		if h.Index {
			return fmt.Errorf("%s is an index", name)
		}
		for i := range entries {
			if err := r.entry(&entries[i]); err != nil {
				return err
			}
		}
	}
	return nil
}

// entry asks for the version an entry is about: each but of deletions names one
// (ME-RS-02, ME-RS-06).
func (r *versionReader) entry(e *resourcesync.Entry) error {
	i := slices.IndexFunc(e.Links, func(l resourcesync.Link) bool { return l.Rel == resourcesync.RelMemento })
	if (i < 0) != (e.Change == resourcesync.Deleted) {
		return fmt.Errorf("%s, %v: link number %d is the memento", e.Loc, e.Change, i)
	}
	if i < 0 {
		return nil
	}
	l := e.Links[i]
	sum := e.Hashes.Get(resourcesync.SHA256)
	if l.Href != memento.Base(r.base).Memento(e.Loc, l.Modified.Time()) || l.Hashes.Get(resourcesync.SHA256) != sum {
		return fmt.Errorf("%s has the link %+v", e.Loc, l) // ME-RS-03
	}
	if before, known := r.seen[l.Href]; known {
		if before != sum { // ME-MM-03
			return fmt.Errorf("%s is two versions", l.Href)
		}
		return nil
	}
	if err := r.verify(l.Href, sum); err != nil {
		return err
	}
	r.seen[l.Href] = sum
	return nil
}

func (r *versionReader) verify(uri, sum string) error {
	text, err := load(uri)
	if err != nil {
		return err
	}
	if got := sha256.Sum256(text); string(got[:]) != sum {
		return fmt.Errorf("%s: has other bytes than its hash", uri)
	}
	return nil
}

// TestVersionsServeKilled kills a Source that keeps versions while its files
// change: every version that one of its documents names at any time is there, right,
// and still there in the end (ME-RET-01).
func TestVersionsServeKilled(t *testing.T) {
	t.Parallel()
	files := newRestlessFiles(t, 30)
	src := newLivingSource(t, files.dir, t.TempDir(), "--versions")
	r := &versionReader{TB: t, base: src.base, seen: make(map[string]string)}
	stop := make(chan struct{})
	var busy sync.WaitGroup
	busy.Go(func() { files.change(5*time.Millisecond, stop) })
	busy.Go(func() {
		for !t.Failed() {
			select {
			case <-stop:
				return
			case <-time.After(5 * time.Millisecond):
			}
			if err := r.read(); err != nil && !errors.Is(err, errDown) {
				t.Error(err)
			}
		}
	})
	rest := sync.OnceFunc(func() { close(stop); busy.Wait() })
	defer rest()
	for range *serveKills / 2 {
		time.Sleep(time.Duration(rand.IntN(600)) * time.Millisecond)
		src.kill()
		src.start()
	}
	time.Sleep(200 * time.Millisecond)
	if rest(); t.Failed() {
		return
	}
	waitFor(t, "the last reading", func() bool {
		if err := r.read(); err != nil {
			t.Fatal(err)
		}
		return true
	})
	for uri, sum := range r.seen {
		if err := r.verify(uri, sum); err != nil {
			t.Error(err)
		}
	}
	if len(r.seen) < 30 {
		t.Errorf("%d versions seen: too few to tell", len(r.seen))
	}
	t.Logf("%d versions seen, %d changes made", len(r.seen), files.count)
	// The TimeMap of each has them all, in their order.
	for uri := range r.seen {
		_, original, _ := strings.Cut(strings.TrimPrefix(uri, r.base+memento.VersionsPrefix), "/")
		text, err := load(memento.Base(r.base).TimeMap(original))
		if err != nil || !strings.Contains(string(text), "<"+uri+">") {
			t.Errorf("%s is not in the TimeMap of %s: %v", uri, original, err)
		}
	}
}
