package dashboard

import (
	"cmp"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"lockstep/hub/status"
	"lockstep/internal/webpage"
)

// subscribers shows the subscriptions of the hub. Callbacks are shown by scheme and host only:
// the rest would allow readers to forge deliveries (WS-SEC-07).
func (d *Dashboard) subscribers(r *http.Request, _ *Overview) (any, webpage.Page, *webpage.View, error) {
	h := d.opts.Hub
	if h == nil {
		return nil, webpage.Page{}, nil, &problem{http.StatusNotFound, "this service has no hub"}
	}
	if !isReady(h) {
		return nil, webpage.Page{}, nil, &problem{http.StatusServiceUnavailable, "the hub is starting: try again in a second"}
	}
	l, err := listingOf(r, "subscribers", subscriberColumns())
	if err != nil {
		return nil, webpage.Page{}, nil, err
	}
	c := status.Selection{Topic: l.query.Get("topic")}
	if text := l.query.Get("behind"); text != "" {
		if c.Behind, err = strconv.ParseBool(text); err != nil {
			return nil, webpage.Page{}, nil, &problem{http.StatusBadRequest, fmt.Sprintf("behind %.40q: want true or false", text)}
		}
	}
	all, total := h.Subscriptions(r.Context(), c, l.order, l.end())
	shown := l.on(all)
	table := l.table("Subscribers", "There are none.", shown, total, func(s *status.Subscription) string {
		switch {
		case s.Attempts > 0:
			return "bad"
		case s.Lag > 0:
			return "warn"
		}
		return ""
	}, time.Now())
	if shown == nil {
		shown = []status.Subscription{}
	}
	data := list{Table: table, JSON: jsonOf("subscribers", r), Manage: true, Filters: []webpage.Link{
		{Text: "All", Href: "subscribers", Current: c == status.Selection{}},
		{Text: "Those that lack messages, or fail", Href: "subscribers?behind=true&order=desc&sort=lag", Current: c.Behind},
	}}
	lead := "Subscriptions of all topics."
	if c.Topic != "" {
		lead = "Subscriptions to " + shorten(c.Topic) + "."
	}
	page := webpage.Page{Title: "Subscribers", Lead: lead, Nav: "subscribers", Data: data}
	return map[string]any{"subscriptions": shown, "total": total, "page": l.page}, page, listView, nil
}

// subscriberColumns are those of the page of the hub, with the most important ones first.
func subscriberColumns() []column[status.Subscription] {
	type sub = status.Subscription
	text := func(of func(*sub) string) func(*sub, time.Time) webpage.Cell {
		return func(s *sub, _ time.Time) webpage.Cell { return webpage.Cell{Text: shorten(of(s))} }
	}
	when := func(of func(*sub) time.Time) func(*sub, time.Time) webpage.Cell {
		return func(s *sub, now time.Time) webpage.Cell { return ago(of(s), now) }
	}
	state := func(s *sub) string {
		if s.Attempts > 0 {
			return "failing"
		}
		return s.State
	}
	return []column[sub]{
		{"callback", "Callback at", false, false, func(a, b *sub) int { return strings.Compare(a.Callback, b.Callback) }, func(s *sub, _ time.Time) webpage.Cell {
			return webpage.Cell{Text: shorten(s.Callback), Title: shorten(string(s.Key)), Code: true}
		}},
		{"topic", "Topic", false, false, func(a, b *sub) int { return strings.Compare(a.Topic, b.Topic) }, func(s *sub, _ time.Time) webpage.Cell {
			return webpage.Cell{Text: shorten(s.Topic), Code: true}
		}},
		{"state", "State", false, false, func(a, b *sub) int { return strings.Compare(state(a), state(b)) }, text(state)},
		{"lag", "Lacks", true, false, func(a, b *sub) int { return cmp.Compare(a.Lag, b.Lag) }, text(func(s *sub) string { return webpage.Count(s.Lag) })},
		{"taken", "Delivered", true, false, func(a, b *sub) int { return cmp.Compare(a.Taken, b.Taken) }, text(func(s *sub) string { return webpage.Count(s.Taken) })},
		{"last", "Last delivery", false, false, func(a, b *sub) int { return a.LastTaken.Compare(b.LastTaken) }, when(func(s *sub) time.Time { return s.LastTaken })},
		{"attempts", "Failed attempts", true, false, func(a, b *sub) int { return cmp.Compare(a.Attempts, b.Attempts) }, text(func(s *sub) string { return webpage.Count(s.Attempts) })},
		{"next", "Next attempt", false, false, func(a, b *sub) int { return a.Next.Compare(b.Next) }, when(func(s *sub) time.Time { return s.Next })},
		{"expires", "Lease ends", false, false, func(a, b *sub) int { return a.Expires.Compare(b.Expires) }, when(func(s *sub) time.Time { return s.Expires })},
		{"error", "Last error", false, true, func(a, b *sub) int { return strings.Compare(a.LastError, b.LastError) }, text(func(s *sub) string { return s.LastError })},
	}
}
