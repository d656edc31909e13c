package vault

import (
	"context"
	"sync"
)

const (
	// roomBytes is how much of contents that are open is held in memory: the
	// chunks they are being read from, for which who reads slowly takes his time.
	roomBytes = 64 << 20

	// roomLoans is how many more chunks there may be in memory, each only while a
	// piece of it is copied. Without room, a chunk is read again for each piece.
	roomLoans = 8
)

// A room bounds the memory of all Readers of a Vault together, however many there
// are and however slowly what they yield is taken.
type room struct {
	limit int64 // in bytes
	loans chan struct{}

	mu   sync.Mutex // guards used
	used int64
}

func newRoom(limit int64) *room { return &room{limit: limit, loans: make(chan struct{}, roomLoans)} }

// take takes room for n bytes. If there is none it lends some, which must be given
// back before anything is waited for; perhaps it waits until it can.
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

// give gives back what take returned.
func (m *room) give(cost int64, lent bool) {
	if lent {
		<-m.loans
		return
	}
	m.mu.Lock()
	m.used -= cost
	m.mu.Unlock()
}
