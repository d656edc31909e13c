package hub

import (
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"time"

	"lockstep/hub/hubstore"
	"lockstep/websub"
)

const (
	claimFor    = 10 * time.Second // after which other hubs take over the shards of a hub that died
	claimShare  = 10               // claims are renewed after this fraction of the ttl
	claimSafe   = 4                // if they were not renewed, deliveries stop this fraction of the ttl before its end
	claimTime   = 5                // the fraction of the ttl within which the store must answer
	releaseTime = 2 * time.Second
	newsEvery   = 25 * time.Millisecond
	claimSay    = 10 * time.Second // between two reports that the store is unavailable
)

// changesTopic is the log through which hubs notify each other of changes to a
// subscription or a request in another hub's shard. The body of a message is a
// Key.
const changesTopic = "urn:x-lockstep:hub:changes"

// sharing records which shards belong to this hub.
type sharing struct {
	owner       string
	ttl         time.Duration // of the claims
	own         [hubstore.Shards]bool
	until       time.Time // the claims are valid until then
	want        int
	mark        int64 // position in Sharer.News
	changesRead int64 // number of the last message of changesTopic that was read
}

func newSharing() sharing { return sharing{owner: rand.Text(), ttl: claimFor, want: hubstore.Shards} }

// owns reports whether this hub handles a key.
func (h *Hub) owns(key hubstore.Key) bool {
	if h.sharer == nil {
		return true
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.sharing.own[key.Shard()]
}

// share renews the claims and reads the changes of other hubs, until ctx ends.
func (h *Hub) share(ctx context.Context) {
	claims, news := time.NewTicker(h.sharing.ttl/claimShare), time.NewTicker(newsEvery)
	defer claims.Stop()
	defer news.Stop()
	var said time.Time // when a failure was last logged
	for {
		var err error
		select {
		case <-ctx.Done():
			return
		case <-claims.C:
			err = h.claim(ctx)
		case <-news.C:
			err = h.news(ctx)
		}
		if err != nil && ctx.Err() == nil && time.Since(said) >= claimSay {
			said = time.Now()
			h.opts.Logger.Error("the store that hubs share could not be used", slog.Any("err", err))
		}
	}
}

// claim renews the claims, and gains or gives up shards as needed. It gives up
// claims that could not be renewed in time.
func (h *Hub) claim(ctx context.Context) error {
	x := &h.sharing
	asked := time.Now()
	asking, cancel := context.WithTimeout(ctx, x.ttl/claimTime)
	defer cancel()
	if err := h.retire(asking); err != nil {
		h.opts.Logger.Error("progress could not be saved: messages may be delivered twice", slog.Any("err", err))
	}
	shards, owners, err := h.sharer.Claim(asking, x.owner, x.want, x.ttl)
	if err != nil {
		if time.Now().After(x.until.Add(-x.ttl / claimSafe)) {
			h.lose(nil)
		}
		return fmt.Errorf("claim shards: %w", err)
	}
	x.until = asked.Add(x.ttl)
	had := x.want
	x.want = (hubstore.Shards + owners - 1) / max(owners, 1)
	h.lose(shards)
	if err := h.gain(ctx, shards); err != nil || x.want <= had {
		return err
	}
	return h.claim(ctx) // a hub has ended: claim its shards now
}

// retire drops the subscriptions of the shards that Claim will give up, and
// saves their progress before other hubs continue with them.
func (h *Hub) retire(ctx context.Context) error {
	h.mu.Lock()
	var keep []int
	more := false
	for i, own := range h.sharing.own {
		if more = more || own && len(keep) == h.sharing.want; own && !more {
			keep = append(keep, i)
		}
	}
	if !more {
		h.mu.Unlock()
		return nil
	}
	progress := map[hubstore.Key]hubstore.Progress{}
	for _, s := range h.dirty {
		if s.stage != gone {
			progress[s.Key] = s.Progress
		}
	}
	saving := h.enter(hubstore.Changes{Progress: progress})
	h.mu.Unlock()
	h.lose(keep)
	return saving.wait(ctx)
}

// lose drops the subscriptions of all shards except those in shards.
func (h *Hub) lose(shards []int) {
	var keep [hubstore.Shards]bool
	for _, i := range shards {
		keep[i] = true
	}
	var lost []int
	for i := range keep {
		h.mu.Lock()
		if h.sharing.own[i] && !keep[i] {
			h.sharing.own[i] = false
			lost = append(lost, i)
			for _, s := range h.registry.shards[i] {
				h.registry.drop(s)
			}
		}
		h.mu.Unlock()
	}
	if len(lost) > 0 && h.verifier != nil {
		h.verifier.unload(lost)
	}
}

// gain loads the shards that are new.
func (h *Hub) gain(ctx context.Context, shards []int) error {
	var gained []int
	for _, i := range shards {
		h.mu.Lock()
		is := h.sharing.own[i]
		h.sharing.own[i] = true
		h.mu.Unlock()
		if is {
			continue
		}
		if err := h.loadShards(ctx, i); err != nil {
			h.mu.Lock()
			h.sharing.own[i] = false // to be loaded again
			h.mu.Unlock()
			return err
		}
		gained = append(gained, i)
	}
	h.mu.Lock()
	if h.running {
		h.spawn()
	}
	h.mu.Unlock()
	if len(gained) == 0 || h.verifier == nil {
		return nil
	}
	return h.verifier.load(ctx, gained)
}

// release ends all claims.
func (h *Hub) release() error {
	if h.sharer == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), releaseTime)
	defer cancel()
	if err := h.sharer.Release(ctx, h.sharing.owner); err != nil {
		return fmt.Errorf("release shards: %w", err)
	}
	return nil
}

// news reads what other hubs have accepted.
func (h *Hub) news(ctx context.Context) error {
	if h.sharer == nil {
		return nil
	}
	h.mu.Lock()
	mark := h.sharing.mark
	h.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, h.sharing.ttl/claimTime)
	defer cancel()
	topics, next, err := h.sharer.News(ctx, mark)
	if err != nil {
		return fmt.Errorf("look for news: %w", err)
	}
	h.mu.Lock()
	h.sharing.mark = max(h.sharing.mark, next)
	for uri, last := range topics {
		t := h.registry.topic(uri)
		t.row = true
		if last > t.last {
			t.ages.add(h.now(), last, h.grain())
			h.arrived(t, last)
		}
	}
	h.spawn()
	h.mu.Unlock()
	return h.listen(ctx, topics[changesTopic])
}

// notifyOwner notifies the hub that owns the shard of a change to a key.
func (h *Hub) notifyOwner(ctx context.Context, key hubstore.Key) error {
	if h.owns(key) {
		return nil
	}
	a := &appending{message: hubstore.Message{Topic: changesTopic, ID: rand.Text(), At: h.now(), Body: []byte(key)}, done: make(chan struct{})}
	if !h.appends.add(a) {
		return ErrNotReady
	}
	select {
	case <-a.done:
		return a.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// listen handles the notifications of other hubs.
func (h *Hub) listen(ctx context.Context, last int64) error {
	h.mu.Lock()
	after := h.sharing.changesRead
	h.sharing.changesRead = max(after, last)
	h.mu.Unlock()
	if last <= after {
		return nil
	}
	changed := map[int]map[hubstore.Key]bool{}
	for m, err := range h.store.Log(ctx, changesTopic, after) {
		if err != nil {
			h.mu.Lock()
			h.sharing.changesRead = after
			h.mu.Unlock()
			return fmt.Errorf("look for news of subscriptions: %w", err)
		}
		if k := hubstore.Key(m.Body); h.owns(k) {
			if changed[k.Shard()] == nil {
				changed[k.Shard()] = map[hubstore.Key]bool{}
			}
			changed[k.Shard()][k] = true
		}
	}
	for shard, keys := range changed {
		if err := h.reload(ctx, shard, keys); err != nil {
			return err
		}
	}
	return nil
}

// reload reads changed subscriptions and requests of a shard from the store.
func (h *Hub) reload(ctx context.Context, shard int, keys map[hubstore.Key]bool) error {
	for row, err := range h.store.Subscriptions(ctx, shard) {
		if err != nil {
			return fmt.Errorf("load subscriptions: %w", err)
		}
		if keys[row.Key] {
			h.mu.Lock()
			h.join(row)
			h.mu.Unlock()
			delete(keys, row.Key)
		}
	}
	h.mu.Lock()
	for k := range keys {
		if s := h.registry.find(k); s != nil {
			h.registry.drop(s)
		}
	}
	h.mu.Unlock()
	if h.verifier == nil {
		return nil
	}
	return h.verifier.load(ctx, []int{shard})
}

// others describes the needs of other hubs for the logs.
type others struct {
	mine    bool             // this hub trims the logs
	cursors map[string]int64 // by topic: the lowest cursor of all subscriptions
}

// others asks the store, if there may be other hubs.
func (h *Hub) others(ctx context.Context) (others, error) {
	if h.sharer == nil {
		return others{mine: true}, nil
	}
	h.mu.Lock()
	o := others{mine: h.sharing.own[0], cursors: map[string]int64{}}
	h.mu.Unlock()
	if !o.mine {
		return o, nil
	}
	for row, err := range h.store.Subscriptions(ctx, -1) {
		if err != nil {
			return o, err
		}
		uri := websub.Canonical(row.Topic)
		if c, ok := o.cursors[uri]; !ok || row.Progress.Cursor < c {
			o.cursors[uri] = row.Progress.Cursor
		}
	}
	return o, nil
}
