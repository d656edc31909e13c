package following

import (
	"sync"
	"sync/atomic"

	"lockstep/destination"
	"lockstep/internal/fetch"
)

// open is what there is of a mirror while it is open.
type open struct {
	follower *destination.Follower
	client   *fetch.Client
}

// traffic is what was sent and received.
type traffic struct{ requests, bytes int64 }

// A link leads to a mirror that is opened, perhaps repeatedly.
type link struct {
	open atomic.Pointer[open] // nil: the mirror has not been opened yet

	mu     sync.Mutex // guards before
	before traffic    // of clients that are closed
}

// attach has the link lead to a mirror that was opened.
func (l *link) attach(follower *destination.Follower, client *fetch.Client) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if old := l.open.Swap(&open{follower, client}); old != nil {
		l.before.requests, l.before.bytes = l.before.requests+old.client.Requests(), l.before.bytes+old.client.Bytes()
	}
}

// traffic returns what was sent and received so far.
func (l *link) traffic() traffic {
	l.mu.Lock()
	defer l.mu.Unlock()
	t := l.before
	if o := l.open.Load(); o != nil {
		t.requests, t.bytes = t.requests+o.client.Requests(), t.bytes+o.client.Bytes()
	}
	return t
}
