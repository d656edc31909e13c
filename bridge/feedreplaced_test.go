package bridge_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"lockstep/destination"
)

// TestReplacedFeedWithGap: a feed that has replaced another one is read as a whole, also if one of
// its archive documents is unavailable at first.
func TestReplacedFeedWithGap(t *testing.T) {
	t.Parallel()
	p := newPress(t)
	for i := range 5 {
		p.put(i, fmt.Sprint("old ", i), 1)
	}
	m := newMirror(t, p.srv.URL+"/feed")
	m.mustSync()
	p.mu.Lock()
	p.id, p.history, p.texts = "urn:uuid:other", nil, map[int]string{}
	p.now = p.now.Add(-time.Hour)
	p.mu.Unlock()
	for i := range 12 {
		p.put(100+i, fmt.Sprint(i), 1)
	}
	p.archive(0)
	p.mu.Lock()
	p.absent["/archive/0/5"] = true
	p.mu.Unlock()
	m.opts.Baseline, m.opts.MaxDelete = true, 100
	if r, err := m.sync(); !errors.Is(err, destination.ErrIncomplete) {
		t.Fatalf("Sync = %v\n%+v", err, r)
	}
	m.opts.Baseline = false
	p.mu.Lock()
	clear(p.absent)
	p.mu.Unlock()
	m.mustSync()
	m.holds(p.want())
}
