package verify

import (
	"context"
	"net/http"
	"net/url"
	"time"

	"lockstep/hub/hubstore"
	"lockstep/hub/internal/address"
	"lockstep/hub/internal/refusal"
	"lockstep/websub"
)

// An ask is the state of the requests for a Key. It exists while one is pending
// or being verified.
type ask struct {
	turn   chan struct{} // its holder may change the stored request
	refs   int           // number of holders and waiters of the turn
	host   string
	topic  string   // as websub.Canonical spells it
	fresh  bool     // the registry does not count its subscription yet
	newest *pending // nil: no request is pending
	read   *pending // what the store had while refs was not 0, for the time after; nil: nothing
	put    int      // of v.puts, when put last set newest
	asked  *pending // the one that is verified while asking is true
	asking bool     // the topic or the callback is being asked, or the result is being written
	since  *int64   // the lowest since of verdicts that confirmed and could not be saved; the holder of the turn may change it; nil: none
	round  int      // counts the calls given to v.checks and v.calls: only the last one is valid
}

// known reports whether there is anything that a request could end.
func (v *Verifier) known(key hubstore.Key, a *ask) bool {
	if v.o.Members.Has(key) || v.o.Shards.Shared() {
		return true // with several hubs it may belong to another
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	return a.newest != nil
}

// Expects reports whether a client may be about to subscribe to a topic.
func (v *Verifier) Expects(topic string) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.topics[topic] > 0
}

// hold waits for the turn to change the stored request of key. It refuses new
// subscriptions beyond the limit; existing ones can always be renewed and
// ended, however many other requests there are.
func (v *Verifier) hold(ctx context.Context, r hubstore.Request, target *url.URL) (*ask, error) {
	key, host := r.Key, address.Host(target)
	subscribed := v.o.Members.Has(key)
	fresh := !subscribed && (r.Mode == websub.ModeSubscribe || v.o.Shards.Shared())
	v.mu.Lock()
	a := v.asks[key]
	if a == nil {
		if err := v.room(host, fresh, target); err != nil {
			v.mu.Unlock()
			return nil, err
		}
		a = v.open(r, host, fresh)
	}
	a.refs++
	v.mu.Unlock()
	select {
	case a.turn <- struct{}{}:
		return a, nil
	case <-ctx.Done():
		v.mu.Lock()
		defer v.mu.Unlock()
		v.drop(key, a)
		return nil, ctx.Err()
	}
}

// room returns an error unless one more subscription may be requested
// (WS-SEC-03). A request becomes a subscription while v.mu is held, so that
// each counts once.
func (v *Verifier) room(host string, fresh bool, target *url.URL) error {
	if !fresh {
		return nil
	}
	o := &v.o
	all, atHost := v.o.Members.Counts(target)
	switch {
	case v.hosts[host]+atHost >= o.MaxPerHost:
		return refusal.TooMany(time.Minute, "too many subscriptions with callbacks at this host")
	case len(v.asks) >= maxPending || len(v.asks)+all >= o.MaxSubscriptions:
		return refusal.Later(http.StatusServiceUnavailable, time.Minute, "the hub has as many subscriptions as it can keep")
	}
	return nil
}

func (v *Verifier) open(r hubstore.Request, host string, fresh bool) *ask {
	a := &ask{turn: make(chan struct{}, 1), host: host, topic: websub.Canonical(r.Topic)}
	v.asks[r.Key] = a
	v.topics[a.topic]++
	if fresh {
		a.fresh = true
		v.hosts[host]++
	}
	return a
}

func (v *Verifier) release(key hubstore.Key, a *ask) {
	<-a.turn
	v.mu.Lock()
	defer v.mu.Unlock()
	v.drop(key, a)
}

// drop releases one reference. With the last one the ask is removed, if no
// request is pending.
func (v *Verifier) drop(key hubstore.Key, a *ask) {
	if a.refs--; a.refs > 0 {
		return
	}
	if a.learn(a.read) && !a.asking {
		v.schedule(a)
	}
	if a.read = nil; a.newest == nil {
		v.close(key, a)
	}
}

// learn makes p, which was read from the store, the newest request, and reports whether it was not.
func (a *ask) learn(p *pending) bool {
	if p == nil || a.newest != nil && a.newest.At.Equal(p.At) {
		return false
	}
	a.newest = p
	return true
}

func (v *Verifier) close(key hubstore.Key, a *ask) {
	if v.asks[key] != a {
		return
	}
	delete(v.asks, key)
	v.counted(a)
	if v.topics[a.topic]--; v.topics[a.topic] == 0 {
		delete(v.topics, a.topic)
	}
}

// counted records that the registry now counts the subscription that a
// requested.
func (v *Verifier) counted(a *ask) {
	if a.fresh {
		a.fresh = false
		if v.hosts[a.host]--; v.hosts[a.host] == 0 {
			delete(v.hosts, a.host)
		}
	}
}
