package delivery

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"lockstep/hub/hubstore"
	"lockstep/websub"
)

const (
	claimFor    = 10 * time.Second // after which other hubs take over the shards of a hub that died
	claimShare  = 10               // claims are renewed after this fraction of the ttl
	claimSafe   = 4                // if they were not renewed, deliveries stop this fraction of the ttl before its end
	claimTime   = 5                // the fraction of the ttl within which the store must answer
	claimMost   = 4 * time.Minute  // the ttl where the store needs seconds for that
	releaseTime = 2 * time.Second
	newsEvery   = 25 * time.Millisecond
	claimSay    = 10 * time.Second // between two reports that the store is unavailable
)

// changesTopic is the log through which hubs notify each other of changes to a
// subscription or a request in another hub's shard. The body of a message is a
// Key.
const changesTopic = "urn:x-lockstep:hub:changes"

// Sharing divides the subscriptions among the hubs that use the same store, and
// exchanges changes with them.
type Sharing struct {
	sharer    hubstore.Sharer // nil: no other hub uses the store
	store     hubstore.Store
	registry  *registry
	saver     *saver
	progress  *progressSaver
	appender  *appender
	loader    *loader
	deliverer *deliverer
	users     []ShardUser // set by Engine.Run
	now       func() time.Time
	log       *slog.Logger

	owner string
	least time.Duration // ttl of the claims where the store is fast
	ttl   time.Duration // present one
	safe  time.Time     // without a renewal, deliveries stop then
	want  int           // number of shards to claim; only claim uses this, gained and safe

	gained  []int                         // shards whose further work is not loaded yet
	changed map[int]map[hubstore.Key]bool // keys that other hubs have changed and that are not read yet, by shard; only listen uses it

	// The lock of the registry guards what follows.
	own  [hubstore.Shards]bool
	mark int64 // position in Sharer.News
}

func newSharing(x Sharing) *Sharing {
	x.sharer, _ = x.store.(hubstore.Sharer)
	x.owner, x.least, x.ttl, x.want = rand.Text(), claimFor, claimFor, hubstore.Shards
	x.changed = map[int]map[hubstore.Key]bool{}
	x.progress.owns = x.has
	return &x
}

// ClaimFor sets for how long the hub claims shards, for tests. Call it before
// Run.
func (x *Sharing) ClaimFor(d time.Duration) { x.least, x.ttl = d, d }

// Shared reports whether other hubs may use the store.
func (x *Sharing) Shared() bool { return x.sharer != nil }

// Owned returns how many shards the hub owns.
func (x *Sharing) Owned() (n int) {
	x.registry.mu.Lock()
	defer x.registry.mu.Unlock()
	for _, own := range x.own {
		if own {
			n++
		}
	}
	return n
}

// start claims the first shards.
func (x *Sharing) start(ctx context.Context) error {
	if t := x.registry.topics[changesTopic]; t != nil {
		x.registry.changesRead = t.last
	}
	for {
		ttl := x.ttl
		if err := x.claim(ctx); x.ttl <= ttl || !errors.Is(err, context.DeadlineExceeded) || ctx.Err() != nil {
			return err
		}
	}
}

// loadUsers loads the further work of shards.
func (x *Sharing) loadUsers(ctx context.Context, shards []int) error {
	for _, u := range x.users {
		if err := u.Load(ctx, shards); err != nil {
			return err
		}
	}
	return nil
}

// Owns reports whether this hub owns the shard of a key, and no other hub can have
// loaded it yet.
func (x *Sharing) Owns(key hubstore.Key) bool {
	if x.sharer == nil {
		return true
	}
	x.registry.mu.Lock()
	defer x.registry.mu.Unlock()
	return x.has(key)
}

// has is Owns for callers that hold the lock of the registry. A hub that could not renew its claims in time
// may not know that it has lost them.
func (x *Sharing) has(key hubstore.Key) bool {
	return x.sharer == nil || x.own[key.Shard()] && !x.registry.lapsed()
}

// run renews the claims and reads the changes of other hubs, until ctx ends.
func (x *Sharing) run(ctx context.Context) {
	if x.sharer == nil {
		return
	}
	claims, news := time.NewTicker(x.least/claimShare), time.NewTicker(newsEvery)
	defer claims.Stop()
	defer news.Stop()
	var said time.Time // when a failure was last logged
	for {
		var err error
		select {
		case <-ctx.Done():
			return
		case <-claims.C:
			err = x.claim(ctx)
		case <-news.C:
			err = x.follow(ctx)
		}
		if err != nil && ctx.Err() == nil && time.Since(said) >= claimSay {
			said = time.Now()
			x.log.Error("the store that hubs share could not be used", slog.Any("err", err))
		}
	}
}

// claim renews the claims, and gains or gives up shards as needed. It gives up
// claims that could not be renewed in time. The next ones are for longer if the store has not
// answered in its time, or has needed much of it, so that they can be kept.
func (x *Sharing) claim(ctx context.Context) error {
	asked := time.Now()
	asking, cancel := context.WithTimeout(ctx, x.ttl/claimTime)
	defer cancel()
	if err := x.retire(asking); err != nil {
		x.log.Error("progress could not be saved: messages may be delivered twice", slog.Any("err", err))
	}
	shards, owners, err := x.sharer.Claim(asking, x.owner, x.want, x.ttl)
	if err != nil {
		if time.Now().After(x.safe) {
			x.lose(nil)
		}
		if asking.Err() != nil {
			x.ttl = max(x.ttl, min(2*x.ttl, claimMost))
		}
		return fmt.Errorf("claim shards: %w", err)
	}
	if !x.renewed(asked, false) { // another hub may have had the shards since
		x.lose(nil)
		x.renewed(asked, true)
	}
	x.ttl = max(x.least, min(2*claimTime*time.Since(asked), claimMost))
	had := x.want
	x.want = (hubstore.Shards + owners - 1) / max(owners, 1)
	x.lose(shards)
	if err := x.whileRenewing(ctx, had, func() error { return x.gain(ctx, shards) }); err != nil || x.want <= had {
		return err
	}
	return x.claim(ctx) // a hub has ended: claim its shards now
}

// renewed records that the claims were renewed by a call that began when asked says. It returns false, and does not, if
// they had lapsed, unless that has been dealt with.
func (x *Sharing) renewed(asked time.Time, again bool) bool {
	x.registry.mu.Lock()
	defer x.registry.mu.Unlock()
	if x.registry.lapsed() && !again {
		return false
	}
	x.registry.until, x.safe = asked.Add(x.ttl), asked.Add(x.ttl-x.ttl/claimSafe)
	return true
}

// whileRenewing calls load, which may take longer than the claims are valid. It renews them meanwhile, and may claim
// more, up to want in all, which the next call of claim finds.
func (x *Sharing) whileRenewing(ctx context.Context, want int, load func() error) error {
	renewing, stop := context.WithCancel(ctx)
	var renewals sync.WaitGroup
	renewals.Go(func() {
		ticker := time.NewTicker(x.least / claimShare)
		defer ticker.Stop()
		for {
			select {
			case <-renewing.Done():
				return
			case <-ticker.C:
			}
			asked := time.Now()
			asking, cancel := context.WithTimeout(renewing, x.ttl/claimTime)
			if _, _, err := x.sharer.Claim(asking, x.owner, want, x.ttl); err == nil {
				x.renewed(asked, false)
			}
			cancel()
		}
	})
	err := load()
	stop()
	renewals.Wait()
	return err
}

// retire drops the subscriptions of the shards that Claim will give up, and
// saves their progress before other hubs continue with them.
func (x *Sharing) retire(ctx context.Context) error {
	x.registry.mu.Lock()
	var keep []int
	more := false
	for i, own := range x.own {
		if more = more || own && len(keep) == x.want; own && !more {
			keep = append(keep, i)
		}
	}
	if !more {
		x.registry.mu.Unlock()
		return nil
	}
	saving := x.saver.enter(hubstore.Changes{Progress: x.progress.unsaved(), Remove: slices.Collect(maps.Values(x.progress.removing))})
	x.registry.mu.Unlock()
	x.lose(keep)
	return saving.wait(ctx)
}

// lose drops the subscriptions of all shards except those in shards.
func (x *Sharing) lose(shards []int) {
	var keep [hubstore.Shards]bool
	for _, i := range shards {
		keep[i] = true
	}
	var lost []int
	for i := range keep {
		x.registry.mu.Lock()
		if x.own[i] && !keep[i] {
			x.own[i] = false
			lost = append(lost, i)
			x.progress.lose(i)
		}
		x.registry.mu.Unlock()
	}
	if len(lost) > 0 {
		for _, u := range x.users {
			u.Unload(lost)
		}
	}
}

// gain loads the shards that are new, and the further work of those for which an earlier
// call could not load it. The hub owns a shard only once its subscriptions are loaded: until
// then, a request to renew one of them would be taken for one of a new subscription.
func (x *Sharing) gain(ctx context.Context, shards []int) (err error) {
	var fresh []int
	x.registry.mu.Lock()
	for _, i := range shards {
		if !x.own[i] {
			fresh = append(fresh, i)
		}
	}
	x.registry.mu.Unlock()
	if err = x.loader.shards(ctx, fresh); err == nil && len(fresh) > 0 {
		err = x.loader.topics(ctx, fresh)
	}
	x.registry.mu.Lock()
	for _, i := range fresh {
		if x.own[i] = err == nil; !x.own[i] {
			x.registry.clear(i) // to be loaded again
		}
	}
	if err == nil {
		x.gained = append(x.gained, fresh...)
	}
	if x.registry.open {
		x.deliverer.spawn()
	}
	x.gained = slices.DeleteFunc(x.gained, func(i int) bool { return !x.own[i] })
	x.registry.mu.Unlock()
	if len(x.gained) == 0 {
		return err
	}
	if uerr := x.loadUsers(ctx, x.gained); uerr != nil {
		return errors.Join(err, uerr)
	}
	x.gained = nil
	return err
}

// release ends all claims.
func (x *Sharing) release() error {
	if x.sharer == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), releaseTime)
	defer cancel()
	if err := x.sharer.Release(ctx, x.owner); err != nil {
		return fmt.Errorf("release shards: %w", err)
	}
	return nil
}

// follow reads what other hubs have accepted and changed.
func (x *Sharing) follow(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, x.ttl/claimTime)
	defer cancel()
	if err := x.news(ctx); err != nil {
		return err
	}
	return x.listen(ctx)
}

// news looks up to which number each topic has messages, also of other hubs. It reads
// everything again if the store has lost messages, and after an error, when another
// server may answer.
func (x *Sharing) news(ctx context.Context) error {
	if x.sharer == nil {
		return nil
	}
	x.registry.mu.Lock()
	mark := x.mark
	x.registry.mu.Unlock()
	step := x.registry.step.Add(1)
	topics, next, err := x.sharer.News(ctx, mark)
	if err == nil && next < mark {
		x.readAll()
		step = x.registry.step.Add(1)
		topics, next, err = x.sharer.News(ctx, 0)
	}
	if err == nil {
		err = x.hear(ctx, topics, next, step)
	}
	if err == nil {
		return nil
	}
	if !errors.Is(ctx.Err(), context.Canceled) {
		x.readAll()
	}
	return fmt.Errorf("look for news: %w", err)
}

// readAll has the next call of news read everything.
func (x *Sharing) readAll() {
	x.registry.mu.Lock()
	x.mark = 0
	x.registry.mu.Unlock()
}

// hear records what an operation that began at a step has found.
func (x *Sharing) hear(ctx context.Context, topics map[string]int64, next, step int64) (err error) {
	x.registry.mu.Lock()
	defer x.registry.mu.Unlock()
	x.mark = max(x.mark, next)
	for uri, last := range topics {
		err = errors.Join(err, x.appender.heard(ctx, uri, last, step))
	}
	x.deliverer.spawn()
	return err
}

// notifyOwner notifies the hub that owns the shard of a change to a key that was
// saved.
func (x *Sharing) notifyOwner(ctx context.Context, key hubstore.Key) error {
	if x.Owns(key) {
		return nil
	}
	return x.notify(ctx, key)
}

// notify does so whichever hub that is.
func (x *Sharing) notify(ctx context.Context, key hubstore.Key) error {
	_, err := x.appender.add(ctx, hubstore.Message{Topic: changesTopic, ID: rand.Text(), At: x.now(), Body: []byte(key)})
	return err
}

// Save writes changes, and notifies the owners of the requests in them.
func (x *Sharing) Save(ctx context.Context, c hubstore.Changes) error {
	if err := x.saver.save(ctx, c); err != nil {
		return err
	}
	for _, r := range c.Ask {
		if err := x.notifyOwner(ctx, r.Key); err != nil {
			return err
		}
	}
	return nil
}

// Subscribed reports whether a topic has subscribers among those of this hub.
func (x *Sharing) Subscribed(topic string) bool { return x.registry.subscribed(topic) }

// Newest returns the number of the newest message of a topic, by whichever hub it was
// accepted; 0 if there is none.
func (x *Sharing) Newest(ctx context.Context, topic string) (int64, error) {
	if err := x.news(ctx); err != nil {
		return 0, err
	}
	t, _ := x.registry.state(topic)
	return t.Last, nil
}

// listen reads from the store what other hubs have changed. After an error it continues
// when it is called again.
func (x *Sharing) listen(ctx context.Context) error {
	if err := x.listChanges(ctx); err != nil {
		return err
	}
	for shard, keys := range x.changed {
		x.registry.mu.Lock()
		own := x.own[shard]
		x.registry.mu.Unlock()
		if own { // if not, the hub that gains the shard reads all of it
			if err := x.reload(ctx, shard, keys); err != nil {
				return err
			}
		}
		if !own || len(keys) == 0 {
			delete(x.changed, shard)
		}
	}
	return nil
}

// listChanges adds to changed what other hubs have changed since it was called last.
func (x *Sharing) listChanges(ctx context.Context) error {
	x.registry.mu.Lock()
	after, last := x.registry.changesRead, int64(0)
	if t := x.registry.topics[changesTopic]; t != nil {
		last = t.last
	}
	x.registry.mu.Unlock()
	if last <= after {
		return nil
	}
	for m, err := range x.store.Log(ctx, changesTopic, after) {
		if err != nil {
			return fmt.Errorf("look for news of subscriptions: %w", err)
		}
		k := hubstore.Key(m.Body)
		if x.changed[k.Shard()] == nil {
			x.changed[k.Shard()] = map[hubstore.Key]bool{}
		}
		x.changed[k.Shard()][k] = true
	}
	x.registry.mu.Lock()
	if x.registry.changesRead == after { // else messages were lost meanwhile
		x.registry.changesRead = last
	}
	x.registry.mu.Unlock()
	return nil
}

// reload reads changed subscriptions and requests of a shard from the store, and removes them from keys. What this
// hub has saved or begun to remove before is written first. Keys remain whose subscription it has changed meanwhile: what
// was read may be older than that, or newer.
func (x *Sharing) reload(ctx context.Context, shard int, keys map[hubstore.Key]bool) error {
	x.registry.mu.Lock()
	x.registry.touched = map[hubstore.Key]bool{}
	saving := x.saver.enter(hubstore.Changes{Remove: slices.Collect(maps.Values(x.progress.removing))})
	x.registry.mu.Unlock()
	rows, err := map[hubstore.Key]hubstore.Subscription{}, saving.wait(ctx)
	if err == nil {
		for row, rerr := range x.store.Subscriptions(ctx, shard) {
			if err = rerr; keys[row.Key] {
				rows[row.Key] = row
			}
		}
	}
	x.registry.mu.Lock()
	touched := x.registry.touched
	x.registry.touched = nil
	for k := range keys {
		if err != nil || touched[k] {
			continue
		}
		if row, ok := rows[k]; ok {
			x.loader.join(resumed(row, x.now(), x.loader.retryMost))
		} else if s := x.registry.find(k); s != nil {
			x.registry.drop(s)
		}
	}
	x.registry.mu.Unlock()
	if err != nil {
		return fmt.Errorf("load subscriptions: %w", err)
	}
	if err := x.loadUsers(ctx, []int{shard}); err != nil {
		return err
	}
	maps.DeleteFunc(keys, func(k hubstore.Key, _ bool) bool { return !touched[k] })
	return nil
}

// others describes the needs of other hubs for the logs.
type others struct {
	mine    bool             // this hub trims the logs
	cursors map[string]int64 // by topic: the lowest cursor of all subscriptions
}

// others asks the store, if there may be other hubs.
func (x *Sharing) others(ctx context.Context) (others, error) {
	if x.sharer == nil {
		return others{mine: true}, nil
	}
	x.registry.mu.Lock()
	o := others{mine: x.own[0] && !x.registry.lapsed(), cursors: map[string]int64{}}
	x.registry.mu.Unlock()
	if !o.mine {
		return o, nil
	}
	for row, err := range x.store.Subscriptions(ctx, -1) {
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
