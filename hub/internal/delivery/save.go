package delivery

import (
	"context"
	"maps"
	"slices"

	"lockstep/hub/hubstore"
	"lockstep/hub/internal/group"
	"lockstep/hub/internal/refusal"
)

// A saver saves changes, those of several callers together.
type saver struct {
	store    hubstore.Store
	registry *registry
	batches  *group.Group[*saving]
}

func newSaver(s hubstore.Store, r *registry) *saver {
	x := &saver{store: s, registry: r}
	x.batches = group.New(x.commit)
	return x
}

// A saving is a set of changes that is being saved.
type saving struct {
	changes hubstore.Changes
	err     error
	done    chan struct{}
}

func (s *saving) Size() int { return 0 }

// save writes changes, together with those of other callers. It does not update
// the hub's memory for subscriptions that are put or removed. If it returns an
// error of ctx, the changes may still be written.
func (x *saver) save(ctx context.Context, c hubstore.Changes) error { return x.enter(c).wait(ctx) }

// enter begins to save changes, after those entered before. It returns nil if
// the hub is shutting down.
func (x *saver) enter(c hubstore.Changes) *saving {
	s := &saving{changes: c, done: make(chan struct{})}
	if !x.batches.Add(s) {
		return nil
	}
	return s
}

// wait returns the result.
func (s *saving) wait(ctx context.Context) error {
	if s == nil {
		return refusal.ErrNotReady
	}
	select {
	case <-s.done:
		return s.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// commit saves a batch as one.
func (x *saver) commit(batch []*saving) {
	all := make([]hubstore.Changes, len(batch))
	for i, s := range batch {
		all[i] = s.changes
	}
	c := merge(all)
	err := x.store.Save(context.Background(), c) // the batch has many callers, none of whom may cancel it
	if err == nil && len(c.Topics) > 0 {
		x.registry.mu.Lock()
		for _, t := range c.Topics {
			known := x.registry.topic(t.URL)
			known.row, known.state = true, t.State
		}
		x.registry.mu.Unlock()
	}
	for _, s := range batch {
		s.err = err
		close(s.done)
	}
}

// merge returns changes that do what all of them do one after the other.
func merge(all []hubstore.Changes) hubstore.Changes {
	if len(all) == 1 {
		return all[0]
	}
	topics, put, ask := map[string]hubstore.Topic{}, map[hubstore.Key]hubstore.Subscription{}, map[hubstore.Key]hubstore.Request{}
	remove, progress := map[hubstore.Key]hubstore.Removal{}, map[hubstore.Key]hubstore.Progress{}
	var settle []hubstore.Request
	for _, c := range all {
		for _, t := range c.Topics {
			topics[t.URL] = t
		}
		for _, s := range c.Put {
			put[s.Key] = s
			delete(remove, s.Key)
			delete(progress, s.Key)
		}
		for _, r := range c.Remove {
			if s, ok := put[r.Key]; ok && r.Matches(s.Created, s.Expires) {
				delete(put, r.Key)
				r = hubstore.Removal{Key: r.Key} // the store may have the row before that one
			} else if ok {
				continue
			}
			if earlier, ok := remove[r.Key]; !ok || !earlier.Created.IsZero() {
				remove[r.Key] = r
			}
		}
		for k, p := range c.Progress {
			if s, ok := put[k]; ok {
				s.Progress = p
				put[k] = s
				continue
			}
			progress[k] = p
		}
		for _, r := range c.Ask {
			if earlier, ok := ask[r.Key]; ok && r.Attempts > 0 && !r.At.Equal(earlier.At) {
				continue
			}
			ask[r.Key] = r
		}
		settle = append(settle, c.Settle...)
	}
	return hubstore.Changes{
		Topics: slices.Collect(maps.Values(topics)), Put: slices.Collect(maps.Values(put)), Remove: slices.Collect(maps.Values(remove)),
		Progress: progress, Ask: slices.Collect(maps.Values(ask)), Settle: settle,
	}
}
