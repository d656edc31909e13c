package destination_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"lockstep/destination"
)

// A lockedBuffer is a bytes.Buffer for several goroutines.
type lockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// TestFollowSaysOnceThatChangesAreUnknown: while a Change List stays unreadable each pass
// reads the Resource List, from whose time on changes are unknown. That the time is
// another one is no other reason.
func TestFollowSaysOnceThatChangesAreUnknown(t *testing.T) {
	t.Parallel()
	s, m := seeded(t, style{})
	m.mustSync()
	s.breakDocuments(func(w http.ResponseWriter) { http.Error(w, "not now", http.StatusForbidden) }, "/rs/changelist.xml")
	var said lockedBuffer
	m.opts.Logger = slog.New(slog.NewTextHandler(&said, nil))
	f, err := m.destination().Follow(m.address(), destination.FollowOptions{Channel: destination.ChannelPoll, Poll: 5 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- f.Run(ctx) }()
	reasons := map[string]bool{}
	for i := 0; len(reasons) < 4; i++ {
		if i%20 == 0 {
			s.put(fmt.Sprintf("/new%d", i), "new") // and a later time of the list
		}
		for _, set := range f.Status().Sets {
			for _, u := range set.Unproven {
				reasons[u.Reason] = true
			}
		}
		select {
		case err := <-ended:
			t.Fatalf("follow ended: %v", err)
		case <-time.After(2 * time.Millisecond):
		}
	}
	stop()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(said.String(), "not known to be complete"); n != 1 {
		t.Errorf("said %d times, for %d reasons:\n%s", n, len(reasons), said.String())
	}
}
