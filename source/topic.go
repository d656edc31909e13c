package source

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"math"
	"net/http"
	"strings"
	"time"

	"lockstep/catalog"
	"lockstep/source/internal/document"
)

// windowLeast is how far back what stands at a topic reaches at least, where a
// hub fetches it: a hub may merge pings (RN-PB-09).
const windowLeast = 10 * time.Minute

// A topic is what stands at the topic of a set: the payload sent last or, where
// a hub fetches it, a window of recent changes (RN-PB-09). It does not change.
type topic struct {
	*notification
	window bool
	sum    string // sha-256 of the body, in hexadecimal digits
	mod    time.Time
}

func newTopic(n *notification, window bool, mod time.Time) *topic {
	sum := sha256.Sum256(n.body)
	return &topic{notification: n, window: window, sum: hex.EncodeToString(sum[:]), mod: mod}
}

// show puts up at the topic what a hub is about to be told of, before it is: a
// hub may look at once. It returns how far one is told that looks.
func (s *Source) show(ctx context.Context, c *channel, n *notification) (place, error) {
	thin, since := c.thin()
	c.mu.Lock()
	old, e := c.topic, c.extent
	c.mu.Unlock()
	if old != nil && old.to.Seq >= n.to.Seq && old.window == thin {
		return old.to, nil
	}
	if thin {
		var err error
		if n, err = s.window(ctx, c, e, since); err != nil {
			return place{}, err
		}
	}
	mod := s.docs.Now()
	if old != nil {
		mod = s.docs.After(old.mod)
	}
	t := newTopic(n, thin, mod)
	if s.opts.Static {
		if err := s.docs.CommitBlob(ctx, c.name, t.body, t.mod); err != nil {
			return place{}, err
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.topic = t
	return t.to, nil
}

// thin reports whether a hub fetches what stands at the topic, and since when
// hubs that do need to find there what changed: since the last but two of
// the pings they accepted.
func (c *channel) thin() (thin bool, since time.Time) {
	for _, q := range c.hubs() {
		if !q.thin() {
			continue
		}
		if at := q.window(); !thin || at.Before(since) {
			since = at
		}
		thin = true
	}
	return thin, since
}

// window returns the changes since then, or of windowLeast if those are more,
// as far back as there is room for.
func (s *Source) window(ctx context.Context, c *channel, e extent, since time.Time) (*notification, error) {
	if least := s.docs.Now().Add(-windowLeast); least.Before(since) {
		since = least
	}
	from, err := s.at(ctx, c, e, max(e.after.Seq, e.through.Seq-notifiedEntries))
	if err != nil {
		return nil, err
	}
	changes, err := s.readChanges(ctx, c, from.Seq, e.through.Seq, math.MaxInt) // the newest are wanted
	if err != nil {
		return nil, err
	}
	drop := func(n int) { // never between two of the same instant, and never all
		for n < len(changes)-1 && n > 0 && !changes[n].EventTime.After(changes[n-1].EventTime) {
			n++
		}
		if n > 0 {
			from = place{changes[n-1].Seq, changes[n-1].EventTime.Add(document.Boundary)}
			changes = changes[n:]
		}
	}
	old := 0
	for old < len(changes)-1 && changes[old].EventTime.Before(since) {
		old++
	}
	drop(old)
	for {
		n, fit, err := s.encodeNotification(c, from, changes)
		if err != nil || fit == len(changes) {
			return n, err
		}
		drop(len(changes) - fit)
	}
}

// restore puts up again what stood at a topic before the process began, if it
// can still be told byte for byte.
func (s *Source) restore(ctx context.Context, c *channel, kept *keptTopic) {
	e, _ := c.look()
	if kept == nil || kept.From.Seq < e.after.Seq || kept.To.Seq <= kept.From.Seq || kept.To.Seq > e.through.Seq {
		return
	}
	var changes []catalog.Change
	for change, err := range s.catalog.Changes(ctx, s.docs.CapabilityList(c.set.Name), kept.From.Seq) {
		if err != nil || change.Seq > kept.To.Seq || len(changes) > 2*notifiedEntries {
			break
		}
		changes = append(changes, change)
	}
	if len(changes) == 0 {
		return
	}
	n, _, err := s.encodeNotification(c, kept.From, changes)
	if err != nil || n == nil {
		return
	}
	if t := newTopic(n, kept.Window, kept.Mod); t.sum == kept.Sum {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.topic = t
	}
}

// topicLinks is the value of the Link field that goes with a topic (RN-PB-08,
// WS-D-02).
func (s *Source) topicLinks(c *channel, hubs ...Hub) string {
	var b strings.Builder
	b.WriteString("<" + s.docs.Base.URI(c.name) + `>; rel="self"`)
	for _, h := range hubs {
		b.WriteString(", <" + h.URL + `>; rel="hub"`)
	}
	b.WriteString(", <" + s.docs.CapabilityList(c.set.Name) + `>; rel="resourcesync"`)
	return b.String()
}

// topic answers requests for a topic: with what stands there, with 204 if that
// is nothing, or with the stream of events for those who ask for one.
func (h *handler) topic(w http.ResponseWriter, r *http.Request, rel string) {
	var c *channel
	for _, known := range h.channels {
		if known.name == rel {
			c = known
		}
	}
	if c == nil {
		h.fail(w, r, http.StatusNotFound)
		return
	}
	header := w.Header()
	header.Set("Link", h.topicLinks(c, h.opts.Hubs...))
	header["Cache-Control"] = revalidate
	header.Set("Vary", "Accept")
	if h.opts.Streams > 0 && r.Method == http.MethodGet && wantsEvents(r.Header["Accept"]) {
		h.events(w, r, c)
		return
	}
	c.mu.Lock()
	t := c.topic
	c.mu.Unlock()
	if t == nil {
		w.WriteHeader(http.StatusNoContent)
		return
	}
	header.Set("Content-Type", notificationType)
	header.Set("ETag", `"`+t.sum[:32]+`"`)
	http.ServeContent(w, r, "", lastModified(t.mod, h.docs.Now()), bytes.NewReader(t.body))
}
