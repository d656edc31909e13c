package status

import (
	"context"
	"fmt"
	"time"

	"lockstep/cmd/lockstep/internal/hubserver"
	"lockstep/cmd/lockstep/internal/term"
	"lockstep/hub/status"
	"lockstep/internal/fetch"
)

// kindHub is the kind of a hub that runs on its own.
const kindHub = "hub"

// A Hub is what a hub says of itself: figures, and the subscriptions that lack messages.
type Hub struct {
	URL           string                `json:"url"`
	Topics        int                   `json:"topics"`
	Subscriptions int                   `json:"subscriptions"`
	Lacking       int                   `json:"behind"`     // subscriptions that lack messages
	Failing       int                   `json:"failing"`    // subscriptions that wait for a retry after failures
	Backlog       int64                 `json:"lag_max"`    // the most messages that one of them lacks
	Requests      int                   `json:"requests"`   // that wait to be verified
	Kept          int64                 `json:"kept_bytes"` // of messages
	Worst         []status.Subscription `json:"subscriptions_behind,omitempty"`
}

// maxWorst is how many subscriptions are listed.
const maxWorst = 100

// askHub asks the hub of the process.
func (s *Service) askHub(ctx context.Context) (*Hub, error) {
	var stats struct {
		URL string `json:"url"`
		status.Stats
	}
	if err := s.read(ctx, hubserver.APIPath, &stats); err != nil {
		return nil, err
	}
	h := &Hub{
		URL: stats.URL, Topics: stats.Topics, Subscriptions: stats.Subscriptions, Lacking: stats.Behind, Failing: stats.Waiting, Backlog: stats.LagMax,
		Requests: stats.Requests, Kept: stats.Kept,
	}
	if h.Lacking == 0 && h.Failing == 0 {
		return h, nil
	}
	var list struct {
		Subscriptions []status.Subscription `json:"subscriptions"`
	}
	if err := s.read(ctx, fmt.Sprintf("%s/subscriptions?behind=true&limit=%d", hubserver.APIPath, maxWorst), &list); err != nil {
		return nil, err
	}
	h.Worst = list.Subscriptions
	return h, nil
}

// sentence says how the hub is.
func (h *Hub) sentence() string {
	return h.URL + ": " + term.Count(h.Topics, "topic") + ", " + h.counts()
}

// counts says how many subscriptions there are, and how many lack messages.
func (h *Hub) counts() string {
	text := term.Count(h.Subscriptions, "subscription")
	if h.Lacking > 0 {
		text += fmt.Sprintf(", %s behind by up to %s", term.Thousands(int64(h.Lacking)), term.Count(h.Backlog, "message"))
	}
	if h.Failing > 0 {
		text += fmt.Sprintf(", %s failing", term.Thousands(int64(h.Failing)))
	}
	return text
}

// printBehind prints the subscriptions that lack messages, or fail.
func (h *Hub) printBehind(io term.IO) {
	if len(h.Worst) == 0 {
		return
	}
	lines := [][]string{{"TOPIC", "CALLBACK", "STATE", "LAST DELIVERY", "NEXT", "BEHIND", "ERROR"}}
	now := time.Now()
	for i := range h.Worst {
		s := &h.Worst[i]
		last, next, state := "-", "-", s.State
		if !s.LastTaken.IsZero() {
			last = s.LastTaken.Local().Format(time.DateTime)
		}
		if !s.Next.IsZero() {
			next = "in " + span(max(s.Next.Sub(now), 0))
		}
		if s.Attempts > 0 {
			state = "failing"
		}
		lines = append(lines, []string{fetch.Printable(s.Topic), fetch.Printable(s.Callback), state, last, next, term.Thousands(s.Lag), fetch.Printable(s.LastError)})
	}
	io.Printf("\n")
	for _, line := range layOut(lines, io.Columns()) {
		io.Printf("%s\n", line)
	}
}
