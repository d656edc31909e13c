package destination

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"lockstep/destination/internal/follow"
	"lockstep/destination/journal"
	"lockstep/internal/fetch"
	"lockstep/websub"
)

const (
	// endingTries is how often a hub is asked to end a subscription in one run.
	endingTries = 3
	// endingPending is how long a hub may take to verify that.
	endingPending = 10 * time.Second
)

// An Unsubscription is the result of ending one subscription.
type Unsubscription struct {
	Set     string    `json:"set"` // URI of the set
	Topic   string    `json:"topic"`
	Hub     string    `json:"hub"`
	Ended   bool      `json:"ended"`              // the hub has verified that we meant it, or the lease had ended
	Expires time.Time `json:"lease_end,omitzero"` // of one that could not be ended: the hub drops it then
	Error   string    `json:"error,omitempty"`
}

// An Unsubscriber ends the subscriptions that the Followers of a mirror made, for a
// mirror that is taken down.
type Unsubscriber struct {
	sub *websub.Subscriber

	mu    sync.Mutex // guards found
	found map[string]*Unsubscription
}

// CallbackOf returns the URL by which hubs reach the Followers of a mirror, as its
// Journal has it; "" if there are no subscriptions.
func CallbackOf(ctx context.Context, j journal.Journal) (string, error) {
	return websub.CallbackOf(ctx, follow.Subscriptions{Journal: j})
}

// NewUnsubscriber returns an Unsubscriber for the subscriptions recorded in j. Hubs
// verify by calling the Handler, below the URL callback.
func NewUnsubscriber(j journal.Journal, c *fetch.Client, callback string, log *slog.Logger) (*Unsubscriber, error) {
	u := &Unsubscriber{found: map[string]*Unsubscription{}}
	var err error
	u.sub, err = websub.NewSubscriber(websub.SubscriberOptions{
		Callback: callback, Client: &follow.Patient{Client: c}, State: follow.Subscriptions{Journal: j}, OnEvent: u.onEvent, Logger: log,
		Deliver:    func(context.Context, websub.Delivery) error { return errors.New("the mirror is taken down") },
		Rediscover: func(_ context.Context, w websub.Wish) (websub.Wish, error) { return w, nil },
		Pending:    endingPending, RetryFirst: time.Second, KeepTrying: true,
	})
	return u, err
}

// Handler serves what hubs call to verify.
func (u *Unsubscriber) Handler() http.Handler { return u.sub.Handler() }

// Run asks the hubs to end the subscriptions, and returns when each has ended, was
// refused, or was asked for a few times without success. What could not be ended
// is tried again by the next Run of another Unsubscriber.
func (u *Unsubscriber) Run(ctx context.Context) ([]Unsubscription, error) {
	n, err := u.sub.DropAll(ctx)
	if err != nil || n == 0 {
		return nil, err
	}
	u.mu.Lock()
	for _, st := range u.sub.Subscriptions() {
		if st.Hub != "" {
			u.found[st.ID] = &Unsubscription{Set: st.ID, Topic: st.Topic, Hub: st.Hub, Expires: st.Expires}
		}
	}
	u.mu.Unlock()
	own, stop := context.WithCancel(ctx)
	running := make(chan error, 1)
	go func() { running <- u.sub.Run(own) }()
	u.wait(ctx)
	stop()
	if err := <-running; err != nil {
		return nil, err
	}
	return u.results(), context.Cause(ctx)
}

// wait waits until nothing more is going to be tried.
func (u *Unsubscriber) wait(ctx context.Context) {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for ctx.Err() == nil {
		if !slices.ContainsFunc(u.sub.Subscriptions(), func(st websub.SubscriptionState) bool { return st.Attempts < endingTries }) {
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
	}
}

func (u *Unsubscriber) onEvent(e websub.SubscriberEvent) {
	u.mu.Lock()
	defer u.mu.Unlock()
	s := u.found[e.ID]
	if s == nil {
		return
	}
	switch e.Kind {
	case websub.Expired:
		s.Ended = true
	case websub.Ended:
		s.Ended, s.Error = e.Reason == "", fetch.Printable(e.Reason)
	}
}

// results returns the results by set.
func (u *Unsubscriber) results() []Unsubscription {
	u.mu.Lock()
	defer u.mu.Unlock()
	left := map[string]string{}
	for _, st := range u.sub.Subscriptions() {
		left[st.ID] = fmt.Sprintf("%s; it was asked %d times", fetch.Printable(st.LastError), st.Attempts)
	}
	var out []Unsubscription
	for id, s := range u.found {
		if why, still := left[id]; still {
			s.Ended, s.Error = false, why
		} else if s.Error == "" {
			s.Ended = true // as a lease that was over already
		}
		if s.Ended {
			s.Expires = time.Time{}
		}
		out = append(out, *s)
	}
	slices.SortFunc(out, func(a, b Unsubscription) int { return strings.Compare(a.Set, b.Set) })
	return out
}
