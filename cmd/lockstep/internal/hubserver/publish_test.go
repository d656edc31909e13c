package hubserver_test

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"time"

	"lockstep/cmd/lockstep/internal/hubserver"
	"lockstep/hub"
	"lockstep/hub/hubstore"
)

// TestPublishBeforeTheHubRuns: what a Source publishes while its hub is still loading is
// accepted as soon as that is done, without a second attempt.
func TestPublishBeforeTheHubRuns(t *testing.T) {
	t.Parallel()
	front, err := hubserver.New(t.Context(), hubstore.NewMem(), hub.Options{PublicURL: "http://source.example/hub"})
	if err != nil {
		t.Fatal(err)
	}
	publish := func(ctx context.Context) error {
		return front.Publish(ctx, "http://source.example/topic", http.Header{"Content-Type": {"application/xml"}}, []byte("<urlset/>"))
	}
	short, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if err := publish(short); !errors.Is(err, hub.ErrNotReady) {
		t.Errorf("to a hub that does not run for as long as the caller waits: %v", err)
	}
	early := make(chan error, 1)
	go func() { early <- publish(t.Context()) }()
	select {
	case err := <-early:
		t.Fatalf("before the hub runs: %v", err)
	case <-time.After(20 * time.Millisecond):
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- front.Run(ctx) }()
	if err := <-early; err != nil {
		t.Error(err)
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if err := publish(t.Context()); !errors.Is(err, hub.ErrNotReady) {
		t.Errorf("to a hub that has ended: %v", err)
	}
}
