package vault

import (
	"context"
	"sync"
)

const (
	// roomBytes is how much of open contents is held in memory: the chunks being
	// read, which a slow reader may need for a long time.
	roomBytes = 64 << 20

	// roomLoans is how many more chunks may be in memory, each only while a piece
	// of it is copied. Without memory, a chunk is read again for each piece.
	roomLoans = 8
)

// A room limits the memory of all Readers of a Vault together, however many there
// are and however slowly they read.
type room struct {
	limit int64 // in bytes
	loans chan struct{}

	mu   sync.Mutex // guards used
	used int64
}

func newRoom(limit int64) *room { return &room{limit: limit, loans: make(chan struct{}, roomLoans)} }

// take takes memory for n bytes. If none is left it lends some, which the caller
// must return before it waits for anything; it may wait until it can lend.
func (m *room) take(ctx context.Context, n int64) (cost int64, lent bool, err error) {
	m.mu.Lock()
	fits := m.used+n <= m.limit
	if fits {
		m.used += n
	}
	m.mu.Unlock()
	if fits {
		return n, false, nil
	}
	select {
	case m.loans <- struct{}{}:
		return n, true, nil
	case <-ctx.Done():
		return 0, false, ctx.Err()
	}
}

// give returns what take took.
func (m *room) give(cost int64, lent bool) {
	if lent {
		<-m.loans
		return
	}
	m.mu.Lock()
	m.used -= cost
	m.mu.Unlock()
}
