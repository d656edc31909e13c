package hub

import (
	"context"
	"fmt"
)

// CheckSecret tells whether [Options.Secret] is the key that the secrets of
// subscribers were sealed with: with another, deliveries to those who have one
// would all fail. It looks at one of them.
func (h *Hub) CheckSecret(ctx context.Context) error {
	for s, err := range h.store.Subscriptions(ctx, -1) {
		if err != nil {
			return fmt.Errorf("look at the secrets of subscribers: %w", err)
		}
		if len(s.Secret) == 0 {
			continue
		}
		if _, err := h.unseal(s.Key, s.Secret); err != nil {
			return fmt.Errorf("look at the secrets of subscribers: %w", err)
		}
		return nil
	}
	return nil
}
