package hub

import (
	"context"
	"fmt"
)

// A Checker is a Store that can say whether it works: [Hub.Check] asks it.
type Checker interface {
	// Check reads and writes, changing nothing, and returns why that is not
	// possible. It answers within seconds, and may be called often.
	Check(ctx context.Context) error
}

// Check returns nil if the hub takes requests: it has loaded, is not about to
// stop, and its store works. Otherwise it says why not.
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
