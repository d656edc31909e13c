package hub

import (
	"context"
	"fmt"

	"lockstep/hub/hubstore"
)

// Check returns nil if the hub accepts requests: it has loaded, is not shutting
// down, and its store works. Otherwise the error gives the reason.
func (h *Hub) Check(ctx context.Context) error {
	h.mu.Lock()
	running := h.running
	h.mu.Unlock()
	if !running {
		return ErrNotReady
	}
	if store, ok := h.store.(hubstore.Checker); ok {
		if err := store.Check(ctx); err != nil {
			return fmt.Errorf("the database does not work: %w", err)
		}
	}
	return nil
}
