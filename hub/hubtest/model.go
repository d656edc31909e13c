package hubtest

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"lockstep/hub/hubstore"
)

// testModel applies the same random operations to the store and to one in
// memory, and compares the results.
func testModel(t *testing.T, s hubstore.Store) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	model := hubstore.NewMem()
	topic := func() string { return fmt.Sprint("https://example.org/", r.IntN(5)) }
	callback := func() string { return fmt.Sprint("https://example.org/", r.IntN(30)) }
	ask := func() hubstore.Request {
		r1 := request(topic(), callback())
		r1.At, r1.Attempts = r1.At.Add(time.Duration(r.IntN(2))*time.Second), r.IntN(2)
		return r1
	}
	progress := func() hubstore.Progress {
		return hubstore.Progress{Cursor: r.Int64N(100), Attempts: r.IntN(3), Next: time.UnixMicro(r.Int64()).UTC(), LastError: callback()}
	}
	for range 60 {
		var ms []hubstore.Message
		for range r.IntN(8) {
			ms = append(ms, message(topic(), callback()))
		}
		got, want := appendTo(t, s, ms...), appendTo(t, model, ms...)
		same(t, "numbers", got, want)
		c := hubstore.Changes{Progress: make(map[hubstore.Key]hubstore.Progress)}
		for range r.IntN(8) {
			sub := subscription(topic(), callback())
			sub.Progress = progress()
			c.Put = append(c.Put, sub)
			c.Remove = append(c.Remove, hubstore.Removal{Key: hubstore.KeyOf(topic(), callback())})
			c.Progress[hubstore.KeyOf(topic(), callback())] = progress()
			c.Ask = append(c.Ask, ask())
			c.Settle = append(c.Settle, ask())
			c.Topics = append(c.Topics, hubstore.Topic{URL: topic(), State: []byte(callback())})
		}
		save(t, s, c)
		save(t, model, c)
		if r.IntN(4) == 0 {
			url, upto := topic(), r.Int64N(50)
			trim(t, s, url, upto)
			trim(t, model, url, upto)
		}
		same(t, "topics", topics(t, s), topics(t, model))
		url, after := topic(), r.Int64N(40)
		same(t, "log", collect(t, s.Log(t.Context(), url, after)), collect(t, model.Log(t.Context(), url, after)))
		shard := r.IntN(hubstore.Shards+1) - 1
		same(t, "subscriptions", subscriptions(t, s, shard), subscriptions(t, model, shard))
	}
	same(t, "subscriptions", subscriptions(t, s, -1), subscriptions(t, model, -1))
	same(t, "requests", requests(t, s, -1), requests(t, model, -1))
}
