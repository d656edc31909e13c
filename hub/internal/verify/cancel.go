package verify

import (
	"context"
	"fmt"

	"lockstep/hub/hubstore"
	"lockstep/websub"
)

// Cancel removes the pending requests to subscribe to a topic, for good when it returns.
// Confirmations that arrive later have no effect.
func (v *Verifier) Cancel(ctx context.Context, topic string) error {
	for key, a := range holdAll(v, websub.Canonical(topic)) {
		if err := v.cancel(ctx, key, a); err != nil {
			return fmt.Errorf("cancel requests to subscribe to %s: %w", topic, err)
		}
	}
	return nil
}

// holdAll returns the asks for a topic, with a reference to each.
func holdAll(v *Verifier, topic string) map[hubstore.Key]*ask {
	v.mu.Lock()
	defer v.mu.Unlock()
	all := make(map[hubstore.Key]*ask)
	for key, a := range v.asks {
		if a.topic == topic {
			a.refs++
			all[key] = a
		}
	}
	return all
}

// cancel removes the pending requests of an ask, to which the caller gives up its
// reference.
func (v *Verifier) cancel(ctx context.Context, key hubstore.Key, a *ask) error {
	select {
	case a.turn <- struct{}{}:
		defer v.release(key, a)
	case <-ctx.Done():
		v.mu.Lock()
		defer v.mu.Unlock()
		v.drop(key, a)
		return ctx.Err()
	}
	v.mu.Lock()
	if a.asking && a.asked.Mode == websub.ModeSubscribe { // newest may be another one
		a.asked.canceled = true
	}
	p := a.newest
	if p != nil && p.Mode == websub.ModeSubscribe {
		p.canceled, a.newest = true, nil
	} else {
		p = nil
	}
	if p != nil && a.read != nil && a.read.At.Equal(p.At) {
		a.read = nil
	}
	v.mu.Unlock()
	if p == nil {
		return nil
	}
	return v.o.Shards.Save(ctx, hubstore.Changes{Settle: []hubstore.Request{p.Request}})
}

// Subscribes reports whether r is a request to subscribe to a topic.
func Subscribes(r *hubstore.Request, topic string) bool {
	return r.Mode == websub.ModeSubscribe && websub.Canonical(r.Topic) == websub.Canonical(topic)
}
