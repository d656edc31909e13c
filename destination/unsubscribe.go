package destination

import (
	"context"
	"log/slog"
	"net/http"

	"lockstep/destination/internal/follow"
	"lockstep/destination/internal/unsubscribe"
	"lockstep/destination/journal"
	"lockstep/destination/report"
	"lockstep/internal/fetch"
	"lockstep/websub"
)

// An Unsubscription is the result of ending one subscription.
type Unsubscription = report.Unsubscription

// An Unsubscriber ends the subscriptions that the Followers of a mirror made, for a
// mirror that is taken down.
type Unsubscriber struct{ ender *unsubscribe.Ender }

// CallbackOf returns the URL by which hubs reach the Followers of a mirror, as its
// Journal has it; "" if there are no subscriptions.
func CallbackOf(ctx context.Context, j journal.Journal) (string, error) {
	return websub.CallbackOf(ctx, follow.Subscriptions{Journal: j})
}

// NewUnsubscriber returns an Unsubscriber for the subscriptions recorded in j. Hubs
// verify by calling the Handler, below the URL callback.
func NewUnsubscriber(j journal.Journal, c *fetch.Client, callback string, log *slog.Logger) (*Unsubscriber, error) {
	e, err := unsubscribe.New(j, c, callback, log)
	if err != nil {
		return nil, err
	}
	return &Unsubscriber{ender: e}, nil
}

// Handler serves what hubs call to verify.
func (u *Unsubscriber) Handler() http.Handler { return u.ender.Handler() }

// Run asks the hubs to end the subscriptions, and returns when each has ended, was
// refused, or was asked for a few times without success. What could not be ended
// is tried again by the next Run of another Unsubscriber.
func (u *Unsubscriber) Run(ctx context.Context) ([]Unsubscription, error) {
	return u.ender.Run(ctx)
}
