package hub_test

import (
	"context"
	"crypto/sha256"
	"fmt"
	"sync"
	"testing"
	"time"

	"lockstep/hub"
	"lockstep/hub/hubstore"
)

// A half is a store in memory that two hubs share: each claims every other shard.
type half struct {
	*hubstore.Mem
	*digests
	odd bool
}

// digests are the signed publications that any hub has accepted.
type digests struct{ seen sync.Map }

func (d *digests) Remember(_ context.Context, digest [sha256.Size]byte, until time.Time) (bool, error) {
	_, seen := d.seen.LoadOrStore(digest, true)
	return !seen && until.After(time.Now()), nil
}

func (d *digests) Forget(_ context.Context, digest [sha256.Size]byte) error {
	d.seen.Delete(digest)
	return nil
}

func (x half) Claim(context.Context, string, int, time.Duration) (shards []int, owners int, err error) {
	for i := range hubstore.Shards {
		if i%2 == 1 == x.odd {
			shards = append(shards, i)
		}
	}
	return shards, 2, nil
}

func (x half) Release(context.Context, string) error { return nil }

func (x half) News(ctx context.Context, mark int64) (map[string]int64, int64, error) {
	topics := map[string]int64{}
	for t, err := range x.Topics(ctx) {
		if err != nil {
			return nil, 0, err
		}
		topics[t.URL] = t.Last
	}
	return topics, mark + 1, nil
}

// TestTwoHubs tests that requests, publications and pings accepted by one hub
// are handled by the hub that owns the shard.
func TestTwoHubs(t *testing.T) {
	t.Parallel()
	mem := hubstore.NewMem()
	one := start(t, half{Mem: mem, digests: new(digests)}, nil)
	two := start(t, half{Mem: mem, digests: new(digests), odd: true}, func(o *hub.Options) { o.PublicURL = one.url })
	p := publishPage(t, one.url, "text/plain", says("the topic"))
	var subs []*subscriber
	for i := range 20 {
		sub := subscribe(t, nil)
		site := []*site{one, two}[i%2]
		wantStatus(t, site.post(t, "hub.mode", "subscribe", "hub.topic", p.url, "hub.callback", sub.url), 202)
		subs = append(subs, sub)
	}
	for _, sub := range subs {
		sub.nextAsked(t)
	}
	eventually(t, "all subscribed", func() bool { return len(one.subscriptions(t)) == 20 && len(one.requests(t)) == 0 })
	two.publish(t, p.url, "text/plain", "published")
	one.ping(t, p.url)
	for i, sub := range subs {
		got := map[string]bool{string(sub.nextTaken(t).body): true}
		got[string(sub.nextTaken(t).body)] = true
		if want := fmt.Sprint(map[string]bool{"published": true, "the topic": true}); fmt.Sprint(got) != want {
			t.Errorf("subscriber %d got %v, want %s", i, got, want)
		}
	}
	for i, sub := range subs {
		wantStatus(t, []*site{two, one}[i/2%2].post(t, "hub.mode", "unsubscribe", "hub.topic", p.url, "hub.callback", sub.url), 202)
	}
	for _, sub := range subs {
		if q := sub.nextAsked(t); q.Get("hub.mode") != "unsubscribe" {
			t.Errorf("asked %v, want unsubscribe", q)
		}
	}
	eventually(t, "all ended", func() bool { return len(one.subscriptions(t)) == 0 && len(one.requests(t)) == 0 })
	one.publish(t, p.url, "text/plain", "to nobody")
	subs[0].quiet(t)
}
