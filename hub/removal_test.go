package hub_test

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"testing"
	"time"

	"lockstep/hub"
	"lockstep/hub/hubstore"
)

// A removalStore fails the first removal of a row, once it is released.
type removalStore struct {
	*hubstore.Mem
	once     sync.Once
	removing chan struct{} // closed when the removal has begun
	release  chan struct{}
}

func (s *removalStore) Save(ctx context.Context, c hubstore.Changes) error {
	failed := false
	if len(c.Remove) > 0 {
		s.once.Do(func() {
			close(s.removing)
			<-s.release
			failed = true
		})
	}
	if failed {
		return errors.New("no room on the disk")
	}
	if len(c.Put) > 0 {
		time.Sleep(20 * time.Millisecond) // so that the removal is scheduled again before the subscription exists
	}
	return s.Mem.Save(ctx, c)
}

// TestFailedRemoval: the row of a subscription that has ended cannot be deleted, and the callback subscribes again
// meanwhile. When the deletion is repeated, the row of the new subscription remains.
func TestFailedRemoval(t *testing.T) {
	t.Parallel()
	s := newSink(t, func(w http.ResponseWriter, _ *http.Request, _ string) { w.WriteHeader(http.StatusGone) })
	store := &removalStore{Mem: hubstore.NewMem(), removing: make(chan struct{}), release: make(chan struct{})}
	r := run(t, store, hub.Options{})
	key := r.subscribe(s.URL+"/cb", "")
	r.publish("1")
	<-store.removing
	subscribed := make(chan error, 1)
	go func() {
		_, err := r.SubscribeVerified(context.Background(), topicURL, s.URL+"/cb", "", time.Hour, time.Now())
		subscribed <- err
	}()
	time.Sleep(20 * time.Millisecond) // so that it waits for the store; if it comes later, the test finds nothing
	close(store.release)
	if err := <-subscribed; err != nil {
		t.Fatal(err)
	}
	if err := r.stop(); err != nil { // which repeats what could not be saved
		t.Fatal(err)
	}
	if all := rows(t, store.Mem); len(all) != 1 || all[0].Key != key {
		t.Errorf("rows: %+v, want that of the new subscription", all)
	}
}
