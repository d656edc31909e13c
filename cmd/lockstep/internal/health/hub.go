package health

import (
	"fmt"
	"time"

	"lockstep/cmd/lockstep/internal/term"
	"lockstep/hub/status"
	"lockstep/internal/fetch"
)

// KindHub is the kind of a hub that runs on its own.
const KindHub = "hub"

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

// HubOf returns the state of a hub with these figures.
func HubOf(url string, s *status.Stats) *Hub {
	return &Hub{
		URL: url, Topics: s.Topics, Subscriptions: s.Subscriptions, Lacking: s.Behind, Failing: s.Waiting, Backlog: s.LagMax,
		Requests: s.Requests, Kept: s.Kept,
	}
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
			last = s.LastTaken.UTC().Format(timeForm)
		}
		if !s.Next.IsZero() {
			next = "in " + Span(max(s.Next.Sub(now), 0))
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
