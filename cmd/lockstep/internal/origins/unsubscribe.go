package origins

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"lockstep/cmd/lockstep/internal/config"
	"lockstep/destination"
	"lockstep/destination/journal"
	"lockstep/internal/fetch"
)

// A Subscriber is an [Origin] that hubs may notify.
type Subscriber interface {
	// Unsubscribe ends the subscriptions at hubs of the upstreams whose addresses
	// keep does not report. It must not be called while Watch runs. It returns the
	// subscriptions that could not be ended.
	Unsubscribe(ctx context.Context, keep func(address string) bool) ([]destination.Unsubscription, error)

	// Leave removes the upstreams from those that the process reports as its own.
	Leave()
}

// An Unsubscription is the result of ending a subscription.
type Unsubscription = destination.Unsubscription

// A subscriber is a mirror that may have subscriptions.
type subscriber struct {
	address string // of the upstream
	journal journal.Journal
	client  *fetch.Client
}

// note records a mirror that was opened.
func (o *Opener) note(u *config.Member, j journal.Journal, c *fetch.Client) {
	o.Upstreams.opened = append(o.Upstreams.opened, subscriber{u.Origin.WithoutUser(), j, c})
}

// Unsubscribe implements [Subscriber].
func (u upstream) Unsubscribe(ctx context.Context, keep func(address string) bool) (failed []destination.Unsubscription, err error) {
	for _, s := range u.subscribed() {
		if u.callbacks == nil || keep(s.address) {
			continue
		}
		left, serr := s.unsubscribe(ctx, u.callbacks, u.log)
		failed, err = append(failed, left...), errors.Join(err, serr)
	}
	return failed, err
}

// unsubscribe ends the subscriptions of a mirror, and returns those that remain.
func (s *subscriber) unsubscribe(ctx context.Context, callbacks *Callbacks, log *slog.Logger) (failed []destination.Unsubscription, err error) {
	callback, err := destination.CallbackOf(ctx, s.journal)
	if err != nil || callback == "" {
		return nil, err
	}
	u, err := destination.NewUnsubscriber(s.journal, s.client, callback, log)
	if err != nil {
		return nil, fmt.Errorf("unsubscribe from %s: %w", s.address, err)
	}
	callbacks.add(callback, u.Handler())
	defer callbacks.remove(callback)
	done, err := u.Run(ctx)
	if errors.Is(err, context.DeadlineExceeded) {
		err = nil // each says how far it came
	}
	for _, d := range done {
		if !d.Ended {
			failed = append(failed, d)
		}
	}
	return failed, err
}
