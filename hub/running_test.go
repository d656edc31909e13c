package hub_test

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"time"

	"lockstep/hub"
	"lockstep/hub/hubstore"
)

// TestDefaultLease: a subscriber that requests no lease gets ten days, within
// the bounds (WS-L-01).
func TestDefaultLease(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		options hub.Options
		want    time.Duration
	}{
		"nothing set":   {hub.Options{}, 10 * 24 * time.Hour},
		"a short most":  {hub.Options{LeaseMax: time.Hour}, time.Hour},
		"a long least":  {hub.Options{LeaseMin: 20 * 24 * time.Hour}, 20 * 24 * time.Hour},
		"a default":     {hub.Options{LeaseDefault: time.Second}, time.Second},
		"beyond bounds": {hub.Options{LeaseDefault: 100 * 24 * time.Hour}, 100 * 24 * time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSink(t, func(w http.ResponseWriter, r *http.Request, _ string) {
				_, _ = w.Write([]byte(r.URL.Query().Get("hub.challenge")))
			})
			h := run(t, hubstore.NewMem(), tt.options)
			form := map[string][]string{"hub.mode": {"subscribe"}, "hub.topic": {topicURL}, "hub.callback": {s.URL + "/cb"}}
			if status := post(h, form); status != http.StatusAccepted {
				t.Fatalf("subscribe: %d", status)
			}
			var row hubstore.Subscription
			eventually(t, "subscription", func() (ok bool) {
				row, ok = h.Row(hubstore.KeyOf(topicURL, s.URL+"/cb"))
				return ok
			})
			if got := row.Expires.Sub(row.Created); got > tt.want || got < tt.want-10*time.Second {
				t.Errorf("the lease is %v, want %v", got, tt.want)
			}
		})
	}
}

// TestNotRunning: nothing is accepted before the hub runs, nor afterwards.
func TestNotRunning(t *testing.T) {
	t.Parallel()
	h, err := hub.New(hubstore.NewMem(), hub.Options{PublicURL: "https://hub.example/"})
	if err != nil {
		t.Fatal(err)
	}
	m := hubstore.Message{Topic: topicURL, Body: []byte("x")}
	if _, err := h.Accept(context.Background(), m); !errors.Is(err, hub.ErrNotReady) {
		t.Errorf("before Run: %v", err)
	}
	r := run(t, hubstore.NewMem(), hub.Options{})
	if err := r.stop(); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Accept(context.Background(), m); !errors.Is(err, hub.ErrNotReady) {
		t.Errorf("after Run: %v", err)
	}
}
