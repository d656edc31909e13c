package hubtest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"lockstep/hub/hubstore"
)

func testRefused(t *testing.T, s hubstore.Store) {
	good, fine := message(topicA, "1"), bare("https://example.org/")
	for _, url := range []string{"", "a\x00b", "\x00"} {
		if _, err := s.Append(t.Context(), []hubstore.Message{good, message(url, "1")}); err == nil {
			t.Errorf("Append takes topic %q", url)
		}
		if err := s.Save(t.Context(), hubstore.Changes{Put: []hubstore.Subscription{fine}, Topics: []hubstore.Topic{{URL: url}}}); err == nil {
			t.Errorf("Save takes topic %q", url)
		}
	}
	for _, k := range []hubstore.Key{"", "ab", "g" + fine.Key[1:], fine.Key + "0", hubstore.Key(strings.ToUpper(string(fine.Key))), fine.Key[:30] + "\x00\x00"} {
		if err := s.Save(t.Context(), hubstore.Changes{Put: []hubstore.Subscription{fine, {Key: k}}}); err == nil {
			t.Errorf("Save takes subscription %q", k)
		}
		if err := s.Save(t.Context(), hubstore.Changes{Put: []hubstore.Subscription{fine}, Ask: []hubstore.Request{{Key: k}}}); err == nil {
			t.Errorf("Save takes request %q", k)
		}
	}
	same(t, "topics", topics(t, s), nil) // all or nothing
	same(t, "subscriptions", subscriptions(t, s, -1), nil)
	same(t, "requests", requests(t, s, -1), nil)
}

func testBreak(t *testing.T, s hubstore.Store) {
	var c hubstore.Changes
	for i := range 5 {
		callback := fmt.Sprint("https://example.org/", i)
		c.Put, c.Ask = append(c.Put, bare(callback)), append(c.Ask, request(topicA, callback))
		c.Topics = append(c.Topics, hubstore.Topic{URL: callback})
	}
	save(t, s, c)
	appendTo(t, s, slices.Repeat([]hubstore.Message{message(topicA, "x")}, 500)...)
	for range s.Log(t.Context(), topicA, 0) {
		break
	}
	for range s.Topics(t.Context()) {
		break
	}
	for range s.Subscriptions(t.Context(), -1) {
		break
	}
	for range s.Requests(t.Context(), -1) {
		break
	}
	appendTo(t, s, message(topicA, "y"))
}

func testCancel(t *testing.T, s hubstore.Store) {
	sub := bare("https://example.org/")
	appendTo(t, s, message(topicA, "1"))
	save(t, s, hubstore.Changes{Put: []hubstore.Subscription{sub}, Ask: []hubstore.Request{request(topicA, "x")}})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.Append(ctx, []hubstore.Message{message(topicA, "2")}); !errors.Is(err, context.Canceled) {
		t.Errorf("Append = %v, want %v", err, context.Canceled)
	}
	if err := s.Save(ctx, hubstore.Changes{Remove: []hubstore.Removal{{Key: sub.Key}}}); !errors.Is(err, context.Canceled) {
		t.Errorf("Save = %v, want %v", err, context.Canceled)
	}
	if err := s.Trim(ctx, topicA, 1); !errors.Is(err, context.Canceled) {
		t.Errorf("Trim = %v, want %v", err, context.Canceled)
	}
	failed(t, "Log", s.Log(ctx, topicA, 0), context.Canceled)
	failed(t, "Topics", s.Topics(ctx), context.Canceled)
	failed(t, "Subscriptions", s.Subscriptions(ctx, -1), context.Canceled)
	failed(t, "Requests", s.Requests(ctx, -1), context.Canceled)
	same(t, "log", bodies(t, s, topicA, 0), []string{"1 1"})
	same(t, "subscriptions", subscriptions(t, s, -1), []hubstore.Subscription{sub})
}

func testOwnership(t *testing.T, s hubstore.Store) {
	m := message(topicA, "body")
	m.Links = []string{"link"}
	sub, ask, state := subscription(topicA, "https://example.org/"), request(topicA, "https://example.org/"), []byte("state")
	appendTo(t, s, m)
	save(t, s, hubstore.Changes{Topics: []hubstore.Topic{{URL: topicA, State: state}}, Put: []hubstore.Subscription{sub}, Ask: []hubstore.Request{ask}})
	m.Body[0], m.Links[0], sub.Secret[0], ask.Secret[0], state[0] = 'X', "X", 'X', 'X', 'X'
	for range 2 { // the second time, to check that the caller may change the first result
		log, tt := collect(t, s.Log(t.Context(), topicA, 0)), topics(t, s)
		ss, rs := subscriptions(t, s, -1), requests(t, s, -1)
		got := fmt.Sprintf("%s %s %s %q %q", log[0].Body, log[0].Links, tt[0].State, ss[0].Secret[0], rs[0].Secret[0])
		if want := `body [link] state '\x00' '\x00'`; got != want {
			t.Fatalf("stored is %s, want %s", got, want)
		}
		log[0].Body[0], log[0].Links[0], tt[0].State[0], ss[0].Secret[0], rs[0].Secret[0] = 'Y', "Y", 'Y', 'Y', 'Y'
	}
}

// testConcurrentAppend appends to common and new topics from several
// goroutines: every number is assigned once, and the messages of one goroutine
// stay in order.
func testConcurrentAppend(t *testing.T, s hubstore.Store) {
	const sides, rounds = 4, 20
	var mu sync.Mutex
	given := make(map[string]string) // topic and number, body
	var wg sync.WaitGroup
	for side := range sides {
		wg.Go(func() {
			for round := range rounds {
				var ms []hubstore.Message
				for i := range 6 {
					topic := fmt.Sprint("https://example.org/", (i+side)%4)
					if i == 5 {
						topic = fmt.Sprint("https://example.org/new/", round)
					}
					ms = append(ms, message(topic, fmt.Sprintf("%d/%03d/%d", side, round, i)))
				}
				seqs, err := s.Append(t.Context(), ms)
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				for i, seq := range seqs {
					k := fmt.Sprint(ms[i].Topic, " ", seq)
					if was, ok := given[k]; ok {
						t.Errorf("%s was given to %s and %s", k, was, ms[i].Body)
					}
					given[k] = string(ms[i].Body)
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	n := 0
	for _, topic := range topics(t, s) {
		last := make(map[byte]string) // body, by goroutine
		for i, m := range collect(t, s.Log(t.Context(), topic.URL, 0)) {
			if m.Seq != int64(i+1) {
				t.Fatalf("%s: message %d follows %d", topic.URL, m.Seq, i)
			}
			if k := fmt.Sprint(topic.URL, " ", m.Seq); given[k] != string(m.Body) {
				t.Fatalf("%s is %s, want %s", k, m.Body, given[k])
			}
			if side := m.Body[0]; string(m.Body) < last[side] {
				t.Fatalf("%s: %s follows %s", topic.URL, m.Body, last[side])
			}
			last[m.Body[0]] = string(m.Body)
			n++
		}
	}
	if n != sides*rounds*6 {
		t.Errorf("%d messages, want %d", n, sides*rounds*6)
	}
}

// testConcurrentSave writes the same subscriptions from several goroutines.
func testConcurrentSave(t *testing.T, s hubstore.Store) {
	const keys = 200
	var all []hubstore.Subscription
	for i := range keys {
		all = append(all, bare(fmt.Sprint("https://example.org/", i)))
	}
	var wg sync.WaitGroup
	for side := range 4 {
		wg.Go(func() {
			for round := range 10 {
				c := hubstore.Changes{Put: slices.Clone(all), Progress: make(map[hubstore.Key]hubstore.Progress)}
				rand.Shuffle(keys, func(i, j int) { c.Put[i], c.Put[j] = c.Put[j], c.Put[i] })
				for _, sub := range c.Put[:keys/2] {
					c.Progress[sub.Key] = hubstore.Progress{Cursor: int64(side*100 + round + 1)}
				}
				c.Topics = []hubstore.Topic{{URL: fmt.Sprint(topicA, round)}}
				if err := s.Save(t.Context(), c); err != nil {
					t.Error(err)
				}
				if n := len(subscriptions(t, s, -1)); n != keys {
					t.Errorf("%d subscriptions, want %d", n, keys)
				}
			}
		})
	}
	wg.Wait()
	if n := len(topics(t, s)); n != 10 {
		t.Errorf("%d topics, want 10", n)
	}
}
