package source_test

import (
	"context"
	"fmt"
	"iter"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"lockstep/blob"
	"lockstep/catalog"
	"lockstep/source"
)

// interrupting is a Catalog that calls end when changes are read.
type interrupting struct {
	catalog.Catalog
	end atomic.Pointer[func()]
}

func (c *interrupting) Changes(ctx context.Context, set string, after catalog.Seq) iter.Seq2[catalog.Change, error] {
	if end := c.end.Load(); end != nil {
		(*end)()
	}
	return c.Catalog.Changes(ctx, set, after)
}

// TestNotifyEndsWhileItReadsChanges: a process that is ended while a notification is due
// does not wait for it.
func TestNotifyEndsWhileItReadsChanges(t *testing.T) {
	t.Parallel()
	cat := &interrupting{Catalog: catalog.NewMem(nil)}
	hub := &sink{t: t}
	src, err := source.New(cat, &blob.Mem{}, source.Options{BaseURL: baseURL, Hubs: []source.Hub{{URL: "https://hub.example.net/", Notifier: hub}}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, end := context.WithCancel(t.Context())
	defer end()
	publish := func() {
		t.Helper()
		if _, err := src.Publish(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	publish()
	if err := src.NotifyOnce(ctx); err != nil { // the hub is to get what comes now
		t.Fatal(err)
	}
	list, err := source.CapabilityListURI(baseURL, source.DefaultSet)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := cat.Apply(ctx, list, []catalog.Update{{Record: record(baseURL+"a", "text")}}); err != nil {
		t.Fatal(err)
	}
	publish()
	stop := func() { end() }
	cat.end.Store(&stop)
	done := make(chan error, 1)
	go func() { done <- src.Notify(ctx) }()
	select {
	case err := <-done:
		if err != nil || ctx.Err() == nil {
			t.Errorf("%v; the context: %v", err, ctx.Err())
		}
	case <-time.After(time.Minute):
		t.Fatal("Notify does not end")
	}
}

// A failingStore is a store that cannot be reached by the first readers of what hubs were sent.
type failingStore struct {
	blob.Store
	fails atomic.Int64
}

func (s *failingStore) Open(ctx context.Context, name string) (blob.Reader, error) {
	if strings.HasSuffix(name, ".notify.json") && s.fails.Add(-1) >= 0 {
		return nil, fmt.Errorf("open %s: %w", name, blob.ErrUnavailable)
	}
	return s.Store.Open(ctx, name)
}

// TestNotifyBeginsWhileTheStoreIsDown: hubs are notified once it can be read what they were sent.
func TestNotifyBeginsWhileTheStoreIsDown(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := &failingStore{Store: &blob.Mem{}}
		store.fails.Store(5)
		cat, hub := catalog.NewMem(nil), &sink{t: t}
		src, err := source.New(cat, store, source.Options{BaseURL: baseURL, Hubs: []source.Hub{{URL: "https://hub.example.net/", Notifier: hub}}})
		if err != nil {
			t.Fatal(err)
		}
		publish := func() {
			t.Helper()
			if _, err := src.Publish(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		publish()
		ctx, end := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- src.Notify(ctx) }()
		time.Sleep(time.Minute)
		list, err := source.CapabilityListURI(baseURL, source.DefaultSet)
		if err == nil {
			_, err = cat.Apply(ctx, list, []catalog.Update{{Record: record(baseURL+"a", "text")}})
		}
		if err != nil {
			t.Fatal(err)
		}
		publish()
		synctest.Wait()
		end()
		if err := <-done; err != nil {
			t.Errorf("Notify = %v", err)
		}
		if hub.calls != 1 {
			t.Errorf("the hub was notified %d times, want once", hub.calls)
		}
	})
}
