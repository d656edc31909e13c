package main

import (
	"context"
	"fmt"
	"io"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"lockstep/blob"
	"lockstep/catalog"
	"lockstep/source"
)

// TestPublicationPace: a change that comes alone is published at once, a steady
// stream of them once a second, and none waits for two.
func TestPublicationPace(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const base = "http://x.org/"
		cat := catalog.NewMem(time.Now)
		src, err := source.New(cat, &blob.Mem{}, source.Options{BaseURL: base})
		if err != nil {
			t.Fatal(err)
		}
		list, err := source.CapabilityListURI(base, source.DefaultSet)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := src.Publish(t.Context()); err != nil {
			t.Fatal(err)
		}
		s := &site{src: src}
		var mu sync.Mutex  // guards what follows
		var at []time.Time // of each publication
		published := map[int]time.Time{}
		n := &newsroom{io: stdio{Err: io.Discard}, quiet: true, onPublished: func(r source.Report) {
			mu.Lock()
			defer mu.Unlock()
			at = append(at, time.Now())
			for i := len(published); i < int(r.Sets[0].Resources); i++ {
				published[i] = time.Now()
			}
		}}
		ctx, stop := context.WithCancel(t.Context())
		changed, done := make(chan struct{}, 1), make(chan error)
		go func() { done <- s.publishChanges(ctx, changed, n) }()
		var made []time.Time
		change := func() {
			u := catalog.Update{Record: catalog.Record{URI: fmt.Sprintf("%s%d", base, len(made)), Length: 1}}
			if _, err := cat.Apply(ctx, list, []catalog.Update{u}); err != nil {
				t.Error(err)
			}
			made = append(made, time.Now())
			select {
			case changed <- struct{}{}:
			default:
			}
		}
		change()
		time.Sleep(5 * time.Second)
		mu.Lock()
		if len(at) != 1 || at[0].Sub(made[0]) != publishDelay {
			t.Errorf("a change that came alone was published %v after %s, want one publication after %s", at, made[0], publishDelay)
		}
		mu.Unlock()
		const every, long = 70 * time.Millisecond, 20 * time.Second // 14 changes a second
		for range long / every {
			change()
			time.Sleep(every)
		}
		time.Sleep(5 * time.Second)
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if most := int(long/publishPace) + 2; len(at)-1 > most {
			t.Errorf("%d publications in %s, want at most %d", len(at)-1, long, most)
		}
		for i, m := range made {
			if p, ok := published[i]; !ok || p.Sub(m) > 2*time.Second {
				t.Errorf("change %d was published after %s, %v", i, p.Sub(m), ok)
			}
		}
	})
}
