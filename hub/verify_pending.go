package hub

import (
	"context"
	"net/http"
	"net/url"
	"time"

	"lockstep/websub"
)

// An ask is what is under way for a Key. There is one as long as anything is.
type ask struct {
	turn   chan struct{} // held by who changes what the store says of the request
	refs   int           // of those who hold the turn, or wait for it
	host   string
	topic  string   // as websub.Canonical spells it
	fresh  bool     // no subscription there is counts it
	newest *pending // nil: nothing is asked for
	asking bool     // the callback is being asked, or what came of it is being written
	round  int      // counts what v.calls was given: only the last of it holds
}

// known reports whether there is anything that a request could end.
func (v *intents) known(key Key, a *ask) bool {
	if _, ok := v.h.subscription(key); ok || v.h.sharer != nil {
		return true // with several hubs it may be another's
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	return a.newest != nil
}

// expects reports whether somebody may be about to subscribe to a topic.
func (v *intents) expects(topic string) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.topics[topic] > 0
}

// hold waits for the turn to change what the store says of key. It refuses one
// new subscription more than may be; what there is can always be renewed and
// ended, however many others ask.
func (v *intents) hold(ctx context.Context, r Request, target *url.URL) (*ask, error) {
	key, host := r.Key, bareHost(target)
	_, subscribed := v.h.subscription(key)
	fresh := !subscribed && (r.Mode == websub.ModeSubscribe || v.h.sharer != nil)
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

// room says whether one more may be asked for (WS-SEC-03). What is asked for
// becomes a subscription while v.mu is held, so that each counts once.
func (v *intents) room(host string, fresh bool, target *url.URL) error {
	if !fresh {
		return nil
	}
	o := &v.h.opts
	all, atHost := v.h.count(target)
	switch {
	case v.hosts[host]+atHost >= o.MaxPerHost:
		return tooMany(time.Minute, "too many subscriptions with callbacks at this host")
	case len(v.asks) >= maxPending || len(v.asks)+all >= o.MaxSubscriptions:
		return again(http.StatusServiceUnavailable, time.Minute, "the hub has as many subscriptions as it can keep")
	}
	return nil
}

func (v *intents) open(r Request, host string, fresh bool) *ask {
	a := &ask{turn: make(chan struct{}, 1), host: host, topic: websub.Canonical(r.Topic)}
	v.asks[r.Key] = a
	v.topics[a.topic]++
	if fresh {
		a.fresh = true
		v.hosts[host]++
	}
	return a
}

func (v *intents) release(key Key, a *ask) {
	<-a.turn
	v.mu.Lock()
	defer v.mu.Unlock()
	v.drop(key, a)
}

// drop gives up one reference; with the last the ask is forgotten, if nothing is
// asked for.
func (v *intents) drop(key Key, a *ask) {
	if a.refs--; a.refs > 0 || a.newest != nil {
		return
	}
	v.close(key, a)
}

func (v *intents) close(key Key, a *ask) {
	if v.asks[key] != a {
		return
	}
	delete(v.asks, key)
	v.counted(a)
	if v.topics[a.topic]--; v.topics[a.topic] == 0 {
		delete(v.topics, a.topic)
	}
}

// counted notes that from now on the registry counts what a asked for.
func (v *intents) counted(a *ask) {
	if a.fresh {
		a.fresh = false
		if v.hosts[a.host]--; v.hosts[a.host] == 0 {
			delete(v.hosts, a.host)
		}
	}
}
