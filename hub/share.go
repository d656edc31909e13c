package hub

import (
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"time"

	"lockstep/websub"
)

const (
	claimFor    = 10 * time.Second // after which the shards of a hub that died are taken over
	claimShare  = 10               // the part of that after which they are renewed
	claimSafe   = 4                // the part of that before whose end deliveries cease if they were not
	claimTime   = 5                // the part of that for which the store has time to answer
	releaseTime = 2 * time.Second
	newsEvery   = 25 * time.Millisecond
	claimSay    = 10 * time.Second // between two reports that the store could not be used
)

// changesTopic is the log by which hubs tell each other that something became of
// a subscription or a request in the other's shard. A message is a Key.
const changesTopic = "urn:x-lockstep:hub:changes"

// sharing is which part of the work is this hub's.
type sharing struct {
	owner string
	ttl   time.Duration // of claims
	own   [Shards]bool
	until time.Time // the claims are good
	want  int
	mark  int64 // of the news that were read
	told  int64 // number of the last message of changesTopic that was read
}

func newSharing() sharing { return sharing{owner: rand.Text(), ttl: claimFor, want: Shards} }

// owns reports whether what becomes of a key is this hub's to see to.
func (h *Hub) owns(key Key) bool {
	if h.sharer == nil {
		return true
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.sharing.own[key.Shard()]
}

// share keeps the claims and listens for news, until ctx ends.
func (h *Hub) share(ctx context.Context) {
	claims, news := time.NewTicker(h.sharing.ttl/claimShare), time.NewTicker(newsEvery)
	defer claims.Stop()
	defer news.Stop()
	var said time.Time // that something failed
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

// claim renews the claims, and takes or lets go what is due. Claims that could
// not be renewed in time are let go.
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
	x.want = (Shards + owners - 1) / max(owners, 1)
	h.lose(shards)
	if err := h.gain(ctx, shards); err != nil || x.want <= had {
		return err
	}
	return h.claim(ctx) // a hub has ended: now what it had
}

// retire forgets the subscriptions of the shards that Claim will let go, and
// saves how far they are before others go on with them.
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
	progress := map[Key]Progress{}
	for _, s := range h.dirty {
		if s.stage != gone {
			progress[s.Key] = s.Progress
		}
	}
	saving := h.enter(Changes{Progress: progress})
	h.mu.Unlock()
	h.lose(keep)
	return saving.wait(ctx)
}

// lose forgets the subscriptions of all shards but those of shards.
func (h *Hub) lose(shards []int) {
	var keep [Shards]bool
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

// gain loads those of shards that are new.
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

// release lets go all claims.
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

// news learns what other hubs have accepted.
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

// tell lets the hub whose shard it is know that something became of a key.
func (h *Hub) tell(ctx context.Context, key Key) error {
	if h.owns(key) {
		return nil
	}
	a := &appending{message: Message{Topic: changesTopic, ID: rand.Text(), At: h.now(), Body: []byte(key)}, done: make(chan struct{})}
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

// listen takes in what others told.
func (h *Hub) listen(ctx context.Context, last int64) error {
	h.mu.Lock()
	after := h.sharing.told
	h.sharing.told = max(after, last)
	h.mu.Unlock()
	if last <= after {
		return nil
	}
	changed := map[int]map[Key]bool{}
	for m, err := range h.store.Log(ctx, changesTopic, after) {
		if err != nil {
			h.mu.Lock()
			h.sharing.told = after
			h.mu.Unlock()
			return fmt.Errorf("look for news of subscriptions: %w", err)
		}
		if k := Key(m.Body); h.owns(k) {
			if changed[k.Shard()] == nil {
				changed[k.Shard()] = map[Key]bool{}
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

// reload takes in what became of subscriptions and requests of a shard.
func (h *Hub) reload(ctx context.Context, shard int, keys map[Key]bool) error {
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

// others is what other hubs have to do with the logs.
type others struct {
	mine    bool             // it is this hub that trims
	cursors map[string]int64 // by topic: how far all subscriptions have come
}

// others asks the store, if there may be any.
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
