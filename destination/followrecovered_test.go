package destination_test

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"

	"lockstep/blob"
	"lockstep/destination"
)

// A failsOnce is a store that cannot store a name the first time.
type failsOnce struct {
	blob.Store
	name   string
	failed atomic.Bool
}

func (s *failsOnce) Commit(ctx context.Context, ws ...blob.Writer) error {
	if slices.ContainsFunc(ws, func(w blob.Writer) bool { return w.Name() == s.name }) && s.failed.CompareAndSwap(false, true) {
		return errors.New("input/output error")
	}
	return s.Store.Commit(ctx, ws...)
}

// TestFollowRecovers: the mirror could not be written once, and the notification was applied when it
// could be. The status names no error then, long before the next look at the Source.
func TestFollowRecovers(t *testing.T) {
	t.Parallel()
	s := newSite(t, style{})
	s.put("/a", "one")
	p := newPress(t, s, true, false)
	g := newFollowing(t, s, true)
	store := &failsOnce{Store: g.store, name: "b"}
	g.store = store
	g.start(destination.FollowOptions{})
	g.live(destination.ChannelHub)
	pulls := g.status().Pulls
	s.put("/b", "two")
	p.notify()
	g.becomes("/b", "two")
	eventually(t, func() bool {
		st := g.f.Status()
		return g.status().Waiting == 0 && st.Error == "" && st.Sets[0].Error == "" && st.Sets[0].Hint == ""
	})
	if !store.failed.Load() {
		t.Error("the mirror was written at once")
	}
	if n := g.status().Pulls; n != pulls {
		t.Errorf("the set was pulled %d times meanwhile", n-pulls)
	}
	g.end()
	g.same()
}
