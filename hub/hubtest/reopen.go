package hubtest

import (
	"errors"
	"testing"

	"lockstep/hub/hubstore"
)

// RunReopen tests that a persistent store has the same content after it was
// closed and opened again (WS-C-12). open returns the same store each time, at
// first empty; shut closes what open returned last.
func RunReopen(t *testing.T, open func() hubstore.Store, shut func()) {
	type state struct {
		Topics        []hubstore.Topic
		Log           []hubstore.Message
		Subscriptions []hubstore.Subscription
		Requests      []hubstore.Request
	}
	read := func(s hubstore.Store) state {
		return state{topics(t, s), collect(t, s.Log(t.Context(), topicA, 0)), subscriptions(t, s, -1), requests(t, s, -1)}
	}
	sub := subscription(topicA, "https://example.org/")
	steps := []func(hubstore.Store){
		func(s hubstore.Store) {
			appendTo(t, s, message(topicA, "1"), message(topicB, "1"), message(topicA, "2"))
		},
		func(s hubstore.Store) { save(t, s, hubstore.Changes{Ask: []hubstore.Request{request(topicA, "x")}}) },
		func(s hubstore.Store) {
			save(t, s, hubstore.Changes{Put: []hubstore.Subscription{sub}, Settle: []hubstore.Request{request(topicA, "x")}})
		},
		func(s hubstore.Store) {
			save(t, s, hubstore.Changes{Progress: map[hubstore.Key]hubstore.Progress{sub.Key: {Cursor: 2}}})
		},
		func(s hubstore.Store) { trim(t, s, topicA, 2) },
		func(s hubstore.Store) { save(t, s, hubstore.Changes{Remove: []hubstore.Removal{{Key: sub.Key}}}) },
	}
	var want state
	var s hubstore.Store
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
	if _, err := s.Append(t.Context(), []hubstore.Message{message(topicA, "3")}); !errors.Is(err, hubstore.ErrStore) {
		t.Errorf("Append after Close = %v, want %v", err, hubstore.ErrStore)
	}
	if err := s.Save(t.Context(), hubstore.Changes{}); !errors.Is(err, hubstore.ErrStore) {
		t.Errorf("Save after Close = %v, want %v", err, hubstore.ErrStore)
	}
	failed(t, "Log after Close", s.Log(t.Context(), topicA, 0), hubstore.ErrStore)
	failed(t, "Subscriptions after Close", s.Subscriptions(t.Context(), -1), hubstore.ErrStore)
	s = open()
	defer shut()
	same(t, "state after opening", read(s), want)
	same(t, "number after all messages went", appendTo(t, s, message(topicA, "3")), []int64{3})
}
