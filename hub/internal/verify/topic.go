package verify

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"

	"lockstep/internal/fetch"
	"lockstep/websub"
)

// errWrongChallenge reports an answer that does not confirm the request
// (WS-I-04).
var errWrongChallenge = errors.New("the callback did not answer with the challenge")

// A topicError reports a topic that the hub accepts no subscriptions to.
type topicError struct {
	text  string
	again bool // a later attempt may succeed
}

func (e *topicError) Error() string { return e.text }

// unchecked returns the topic of a request if that has to name this hub, and was not asked
// yet: if CheckTopics is set and this is the first subscription to it (WS-SEC-05).
func (v *Verifier) unchecked(p *pending) *url.URL {
	if v.o.Names == nil || p.checked || p.Mode != websub.ModeSubscribe || v.o.Shards.Subscribed(p.Topic) {
		return nil
	}
	topic, err := url.Parse(p.Topic)
	switch {
	case err != nil:
		return &url.URL{} // of no host; asking it fails
	case v.o.Own(topic):
		return nil // it may be for clients with a credential
	}
	return topic
}

// check asks the topic of a request. There is no verdict if it names this hub.
func (v *Verifier) check(ctx context.Context, p *pending) *verdict {
	topic := v.unchecked(p)
	if topic == nil { // there are subscribers by now
		if u, err := url.Parse(p.Topic); err == nil {
			v.checks.Forgive(u) // it was not asked
		}
		return nil
	}
	if err := checkTopic(ctx, p.Topic, v.o.Names); err != nil {
		return &verdict{err: err, again: err.again, reason: err.text}
	}
	v.checks.Forgive(topic)
	return nil
}

// checkTopic asks the topic whether it names this hub (WS-SEC-05).
func checkTopic(ctx context.Context, topic string, names func(context.Context, string) (bool, error)) *topicError {
	named, err := names(ctx, topic)
	var status *websub.StatusError
	switch {
	case errors.Is(err, websub.ErrNoHub), err == nil && !named:
		return &topicError{text: "the topic does not name this hub"}
	case errors.As(err, &status):
		return &topicError{
			text:  fmt.Sprintf("the topic could not be read: status %d", status.Status),
			again: status.Status >= 500 || slices.Contains(passing(), status.Status),
		}
	case isTimeout(err), errors.Is(err, context.DeadlineExceeded):
		return &topicError{text: "the topic could not be read: no answer in time", again: true}
	case err != nil:
		return &topicError{text: "the topic could not be read: " + fetch.Printable(cause(err).Error()), again: true}
	}
	return nil
}

// passing returns the statuses below 500 after which a request may succeed
// later.
func passing() []int {
	return []int{http.StatusRequestTimeout, http.StatusTooEarly, http.StatusTooManyRequests}
}
