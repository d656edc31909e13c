package hub

import (
	"context"
	"fmt"
)

// A Checker is a Store that can check whether it works. [Hub.Check] calls it.
type Checker interface {
	// Check reads and writes, changing nothing, and returns an error if that is not
	// possible. It returns within seconds and may be called often.
	Check(ctx context.Context) error
}

// Check returns nil if the hub accepts requests: it has loaded, is not shutting
// down, and its store works. Otherwise the error gives the reason.
func (h *Hub) Check(ctx context.Context) error {
	h.mu.Lock()
	running := h.running
	h.mu.Unlock()
	if !running {
		return ErrNotReady
	}
	if store, ok := h.store.(Checker); ok {
		if err := store.Check(ctx); err != nil {
			return fmt.Errorf("the database does not work: %w", err)
		}
	}
	return nil
}
