package publishing

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"lockstep/blob"
	"lockstep/catalog"
	"lockstep/cmd/lockstep/internal/hubflags"
	"lockstep/cmd/lockstep/internal/sourcereport"
	"lockstep/cmd/lockstep/internal/term"
	"lockstep/source"
)

// TestPublicationPace: a change is published at once, also in a steady stream of
// them; the Resource List, which no client waits for, once a second. Where no hub and
// no client is notified, everything is published once a second.
func TestPublicationPace(t *testing.T) {
	t.Parallel()
	t.Run("heard", func(t *testing.T) { testPublicationPace(t, "http://hub.example.org/", 2*hubflags.DefaultDelay) })
	t.Run("unheard", func(t *testing.T) { testPublicationPace(t, hubflags.Embedded, publishPace+hubflags.DefaultDelay) })
}

func testPublicationPace(t *testing.T, hub string, within time.Duration) {
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
		hubs := hubflags.Hubs{URLs: []string{hub}}
		c := &Changes{
			Delay: hubflags.DefaultDelay, All: src.Publish, Urgent: src.PublishChanges,
			IsHeard: func() bool { return len(hubs.Elsewhere()) > 0 || src.Streams() > 0 },
		}
		var mu sync.Mutex  // guards what follows
		var at []time.Time // of each publication
		lists := 0
		published := map[int]time.Time{}
		n := &sourcereport.Reporter{IO: term.IO{Err: io.Discard}, Quiet: true, OnPublished: func(r source.Report) {
			mu.Lock()
			defer mu.Unlock()
			at = append(at, time.Now())
			if r.Sets[0].List {
				lists++
			}
			for i := len(published); i < int(r.Sets[0].Resources); i++ {
				published[i] = time.Now()
			}
		}}
		ctx, stop := context.WithCancel(t.Context())
		changed, done := make(chan struct{}, 1), make(chan error)
		go func() { done <- c.Run(ctx, changed, n) }()
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
		time.Sleep(publishFull) // since the Resource List was published
		change()
		time.Sleep(5 * time.Second)
		mu.Lock()
		if len(at) != 1 || at[0].Sub(made[0]) != hubflags.DefaultDelay {
			t.Errorf("a change that came alone was published %v after %s, want one publication after %s", at, made[0], hubflags.DefaultDelay)
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
		if most := int(long/publishFull) + 2; lists-1 > most || lists < most-4 {
			t.Errorf("%d Resource Lists in %s, want about %d", lists-1, long, most)
		}
		for i, m := range made {
			if p, ok := published[i]; !ok || p.Sub(m) > within {
				t.Errorf("change %d was published after %s, %v", i, p.Sub(m), ok)
			}
		}
		if most := int(long/publishPace) + 3; hub == hubflags.Embedded && len(at) > most {
			t.Errorf("%d publications in %s of which no client was notified, want %d at most", len(at), long, most)
		}
		last, err := src.Publish(t.Context())
		if err != nil || last.Written {
			t.Errorf("when all was over, Publish = %+v, %v; want nothing left to write", last, err)
		}
	})
}

// TestChangesBesideEverything: while a publication of everything takes long, changes are
// published as soon as without it; when it ends, what it has left is published a moment
// later. Run returns after it has ended.
func TestChangesBesideEverything(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const long = 10 * time.Second
		start := time.Now()
		var mu sync.Mutex               // guards what follows
		var urgent, all []time.Duration // when publications ended, since start
		c := &Changes{
			Delay: hubflags.DefaultDelay, IsHeard: func() bool { return true },
			Urgent: func(context.Context) (source.Report, error) {
				mu.Lock()
				defer mu.Unlock()
				urgent = append(urgent, time.Since(start))
				return source.Report{Later: true}, nil // that it is left, All may not see
			},
			All: func(context.Context) (source.Report, error) {
				time.Sleep(long)
				mu.Lock()
				defer mu.Unlock()
				all = append(all, time.Since(start))
				return source.Report{}, nil
			},
		}
		ctx, stop := context.WithCancel(t.Context())
		changed, done := make(chan struct{}, 1), make(chan error)
		go func() { done <- c.Run(ctx, changed, &sourcereport.Reporter{IO: term.IO{Err: io.Discard}, Quiet: true}) }()
		for range 50 {
			changed <- struct{}{}
			time.Sleep(100 * time.Millisecond)
		}
		time.Sleep(long)
		synctest.Wait()
		mu.Lock()
		for i, at := range urgent {
			if want := time.Duration(i)*100*time.Millisecond + hubflags.DefaultDelay; at != want {
				t.Errorf("change %d was published at %s, want %s", i, at, want)
			}
		}
		if len(urgent) != 50 || len(all) != 1 {
			t.Errorf("%d and %d publications, want 50 of changes and one of everything", len(urgent), len(all))
		}
		mu.Unlock()
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if want := 2*long + hubflags.DefaultDelay; len(all) != 2 || all[1] != want {
			t.Errorf("everything was published at %s; want the second time at %s, after what the first had left", all, want)
		}
	})
}

// TestOneSetFails: while one set cannot be published, changes of the others are published
// within a second, and everything is published as soon as without the failure. What fails
// is tried again after a minute at most, and reported then.
func TestOneSetFails(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex // guards what follows
		var urgent, all []time.Time
		failing := true
		c := &Changes{
			Delay: hubflags.DefaultDelay, IsHeard: func() bool { return true },
			Urgent: func(context.Context) (source.Report, error) {
				mu.Lock()
				defer mu.Unlock()
				urgent = append(urgent, time.Now())
				if failing {
					return source.Report{Later: true}, errors.New("publish set bad: permission denied")
				}
				return source.Report{}, nil
			},
			All: func(context.Context) (source.Report, error) {
				mu.Lock()
				defer mu.Unlock()
				all = append(all, time.Now())
				return source.Report{}, nil
			},
		}
		ctx, stop := context.WithCancel(t.Context())
		var said bytes.Buffer
		changed, done := make(chan struct{}, 1), make(chan error)
		go func() { done <- c.Run(ctx, changed, &sourcereport.Reporter{IO: term.IO{Err: &said}, Quiet: true}) }()
		changed <- struct{}{}
		time.Sleep(10 * time.Minute)
		mu.Lock()
		for i, at := range urgent[1:] {
			if pause := at.Sub(urgent[i]); pause > publishRetryMost+hubflags.DefaultDelay {
				t.Errorf("attempt %d came %s after the one before it", i+1, pause)
			}
		}
		if first := urgent[0]; len(urgent) < 10 || len(all) == 0 || all[0].Sub(first) > publishFull {
			t.Errorf("%d attempts since %s, publications of everything at %s", len(urgent), first, all)
		}
		attempts := len(urgent)
		mu.Unlock()
		for range 3 {
			made := time.Now()
			select {
			case changed <- struct{}{}:
			default:
			}
			time.Sleep(publishPace + hubflags.DefaultDelay)
			mu.Lock()
			if last := urgent[len(urgent)-1]; last.Before(made) {
				t.Errorf("a change was not published within a second, but %s before", made.Sub(last))
			}
			mu.Unlock()
		}
		synctest.Wait()
		if n := strings.Count(said.String(), "permission denied"); n < attempts || n > attempts+1 {
			t.Errorf("%d attempts, and three for changes, were reported %d times", attempts, n)
		}
		mu.Lock()
		failing = false
		mu.Unlock()
		time.Sleep(2 * publishRetryMost)
		mu.Lock()
		attempts = len(urgent)
		mu.Unlock()
		time.Sleep(time.Hour)
		synctest.Wait()
		if len(urgent) != attempts {
			t.Errorf("%d attempts after one has succeeded", len(urgent)-attempts)
		}
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// TestPublicationRest: a publication that costs little is soon followed by the next
// one, one that writes much is not.
func TestPublicationRest(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		bytes      int64
		took, want time.Duration
	}{
		{0, 0, 0},
		{200_000, time.Millisecond, 10 * time.Millisecond},
		{200_000, 40 * time.Millisecond, 80 * time.Millisecond},
		{1e9, 300 * time.Millisecond, time.Second},
		{1e9, 3 * time.Second, 6 * time.Second},
	} {
		r := source.Report{Sets: []source.SetReport{{Bytes: tt.bytes / 2}, {Bytes: tt.bytes / 2}}}
		if got := restAfter(&r, tt.took); got != tt.want {
			t.Errorf("after %d bytes in %s we rest for %s, want %s", tt.bytes, tt.took, got, tt.want)
		}
	}
}
