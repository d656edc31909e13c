// Package unsubscribe ends the subscriptions that the Followers of a mirror made.
package unsubscribe

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"sort"
	"sync"
	"time"

	"lockstep/destination/internal/follow"
	"lockstep/destination/journal"
	"lockstep/destination/report"
	"lockstep/internal/fetch"
	"lockstep/websub"
)

const (
	// maxAttempts is how often a hub is asked to end a subscription in one run.
	maxAttempts = 3
	// pendingTime is how long a hub may take to verify that.
	pendingTime = 10 * time.Second
)

// An Ender ends subscriptions.
type Ender struct {
	sub *websub.Subscriber

	mu    sync.Mutex // guards found
	found map[string]*report.Unsubscription
}

// New returns an Ender of the subscriptions recorded in j. Hubs verify by calling
// the Handler, below the URL callback.
func New(j journal.Journal, c *fetch.Client, callback string, log *slog.Logger) (*Ender, error) {
	e := &Ender{found: map[string]*report.Unsubscription{}}
	var err error
	e.sub, err = websub.NewSubscriber(websub.SubscriberOptions{
		Callback: callback, Client: &follow.Patient{Client: c}, State: follow.Subscriptions{Journal: j}, OnEvent: e.onEvent, Logger: log,
		Deliver:    func(context.Context, websub.Delivery) error { return errors.New("the mirror is taken down") },
		Rediscover: func(_ context.Context, w websub.Wish) (websub.Wish, error) { return w, nil },
		Pending:    pendingTime, RetryFirst: time.Second, KeepTrying: true,
	})
	return e, err
}

// Handler serves what hubs call to verify.
func (e *Ender) Handler() http.Handler { return e.sub.Handler() }

// Run asks the hubs to end the subscriptions, and returns when each has ended, was
// refused, or was asked for a few times without success.
func (e *Ender) Run(ctx context.Context) ([]report.Unsubscription, error) {
	n, err := e.sub.DropAll(ctx)
	if err != nil || n == 0 {
		return nil, err
	}
	e.mu.Lock()
	for _, st := range e.sub.Subscriptions() {
		if st.Hub != "" {
			e.found[st.ID] = &report.Unsubscription{Set: st.ID, Topic: st.Topic, Hub: st.Hub, Expires: st.Expires}
		}
	}
	e.mu.Unlock()
	own, stop := context.WithCancel(ctx)
	running := make(chan error, 1)
	go func() { running <- e.sub.Run(own) }()
	e.wait(ctx)
	stop()
	if err := <-running; err != nil {
		return nil, err
	}
	return e.results(), context.Cause(ctx)
}

// wait waits until nothing more is going to be tried.
func (e *Ender) wait(ctx context.Context) {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for ctx.Err() == nil {
		if !slices.ContainsFunc(e.sub.Subscriptions(), func(st websub.SubscriptionState) bool { return st.Attempts < maxAttempts }) {
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
	}
}

func (e *Ender) onEvent(event websub.SubscriberEvent) {
	e.mu.Lock()
	defer e.mu.Unlock()
	s := e.found[event.ID]
	if s == nil {
		return
	}
	switch event.Kind {
	case websub.Expired:
		s.Ended = true
	case websub.Ended:
		s.Ended, s.Error = event.Reason == "", fetch.Printable(event.Reason)
	}
}

// results returns the results by set.
func (e *Ender) results() []report.Unsubscription {
	e.mu.Lock()
	defer e.mu.Unlock()
	left := map[string]string{}
	for _, st := range e.sub.Subscriptions() {
		left[st.ID] = fmt.Sprintf("%s; it was asked %d times", fetch.Printable(st.LastError), st.Attempts)
	}
	var out []report.Unsubscription
	for id, s := range e.found {
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
	sort.SliceStable(out, func(i, j int) bool { return out[i].Set < out[j].Set })
	return out
}
