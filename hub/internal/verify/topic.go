package verify

import (
	"context"
	"errors"
	"fmt"
	"net/http"
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

// checkTopic asks the topic whether it names this hub (WS-SEC-05).
func (v *Verifier) checkTopic(ctx context.Context, topic string) *topicError {
	named, err := v.o.Names(ctx, topic)
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
