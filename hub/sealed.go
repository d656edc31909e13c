package hub

import (
	"context"
	"fmt"
)

// CheckSecret reports an error if [Options.Secret] is not the key that
// encrypted the subscribers' secrets: with another key, all signed deliveries
// would fail. It tries one of the secrets.
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
