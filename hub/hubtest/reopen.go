package hubtest

import (
	"errors"
	"testing"

	"lockstep/hub"
)

// RunReopen tests that a persistent store has the same content after it was
// closed and opened again (WS-C-12). open returns the same store each time, at
// first empty; shut closes what open returned last.
func RunReopen(t *testing.T, open func() hub.Store, shut func()) {
	type state struct {
		Topics        []hub.Topic
		Log           []hub.Message
		Subscriptions []hub.Subscription
		Requests      []hub.Request
	}
	read := func(s hub.Store) state {
		return state{topics(t, s), collect(t, s.Log(t.Context(), topicA, 0)), subscriptions(t, s, -1), requests(t, s, -1)}
	}
	sub := subscription(topicA, "https://example.org/")
	steps := []func(hub.Store){
		func(s hub.Store) { appendTo(t, s, message(topicA, "1"), message(topicB, "1"), message(topicA, "2")) },
		func(s hub.Store) { save(t, s, hub.Changes{Ask: []hub.Request{request(topicA, "x")}}) },
		func(s hub.Store) {
			save(t, s, hub.Changes{Put: []hub.Subscription{sub}, Settle: []hub.Key{request(topicA, "x").Key}})
		},
		func(s hub.Store) { save(t, s, hub.Changes{Progress: map[hub.Key]hub.Progress{sub.Key: {Cursor: 2}}}) },
		func(s hub.Store) { trim(t, s, topicA, 2) },
		func(s hub.Store) { save(t, s, hub.Changes{Remove: []hub.Key{sub.Key}}) },
	}
	var want state
	var s hub.Store
	for i, step := range steps {
		s = open()
		same(t, "state after opening", read(s), want)
		step(s)
		now := read(s)
		if i > 0 && len(now.Topics) == 0 {
			t.Fatal("nothing is there any more")
		}
		want = now
		shut()
	}
	if _, err := s.Append(t.Context(), []hub.Message{message(topicA, "3")}); !errors.Is(err, hub.ErrStore) {
		t.Errorf("Append after Close = %v, want %v", err, hub.ErrStore)
	}
	if err := s.Save(t.Context(), hub.Changes{}); !errors.Is(err, hub.ErrStore) {
		t.Errorf("Save after Close = %v, want %v", err, hub.ErrStore)
	}
	failed(t, "Log after Close", s.Log(t.Context(), topicA, 0), hub.ErrStore)
	failed(t, "Subscriptions after Close", s.Subscriptions(t.Context(), -1), hub.ErrStore)
	s = open()
	defer shut()
	same(t, "state after opening", read(s), want)
	same(t, "number after all messages went", appendTo(t, s, message(topicA, "3")), []int64{3})
}
