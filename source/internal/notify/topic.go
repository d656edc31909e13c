package notify

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"math"
	"strings"
	"time"

	"lockstep/catalog"
	"lockstep/source/internal/document"
)

// windowLeast is how far back the content of a topic reaches at least if a hub fetches
// it: a hub may merge pings (RN-PB-09).
const windowLeast = 10 * time.Minute

// A topic is the content of the topic of a set: the last payload or, if a hub fetches
// it, a window of recent changes (RN-PB-09). It is immutable.
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

// show updates the topic before a hub is notified of n, because the hub may fetch it at
// once. It returns the place at which the content ends.
func (s *Channels) show(ctx context.Context, c *Channel, n *notification) (Place, error) {
	pingOnly, since := c.pingOnly()
	c.mu.Lock()
	old, e := c.topic, c.extent
	c.mu.Unlock()
	if old != nil && old.to.Seq >= n.to.Seq && old.window == pingOnly {
		return old.to, nil
	}
	if pingOnly {
		var err error
		if n, err = s.window(ctx, c, e, since); err != nil {
			return Place{}, err
		}
	}
	mod := s.opts.Docs.Now()
	if old != nil {
		mod = s.opts.Docs.After(old.mod)
	}
	t := newTopic(n, pingOnly, mod)
	if s.opts.Static {
		if err := s.opts.Docs.CommitBlob(ctx, c.Name, t.body, t.mod); err != nil {
			return Place{}, err
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.topic = t
	return t.to, nil
}

// pingOnly reports whether a hub fetches the content of the topic, and since when such
// hubs need changes there: since the third last ping that they accepted.
func (c *Channel) pingOnly() (pingOnly bool, since time.Time) {
	for _, q := range c.hubs() {
		if !q.pingOnly() {
			continue
		}
		if at := q.window(); !pingOnly || at.Before(since) {
			since = at
		}
		pingOnly = true
	}
	return pingOnly, since
}

// window returns a notification of the changes since that time, or of windowLeast if
// those are more, as far back as its size allows.
func (s *Channels) window(ctx context.Context, c *Channel, e extent, since time.Time) (*notification, error) {
	if least := s.opts.Docs.Now().Add(-windowLeast); least.Before(since) {
		since = least
	}
	from, err := s.at(ctx, c, e, max(e.after.Seq, e.through.Seq-notifiedEntries))
	if err != nil {
		return nil, err
	}
	changes, err := s.readChanges(ctx, c, from.Seq, e.through.Seq, math.MaxInt) // the newest ones are kept below
	if err != nil {
		return nil, err
	}
	drop := func(n int) { // drops the n oldest, but never separates two of the same instant, and never drops all
		for n < len(changes)-1 && n > 0 && !changes[n].EventTime.After(changes[n-1].EventTime) {
			n++
		}
		if n > 0 {
			from = Place{changes[n-1].Seq, changes[n-1].EventTime.Add(document.Boundary)}
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

// restore restores the content that a topic had before the process began, if the same
// bytes can still be built.
func (s *Channels) restore(ctx context.Context, c *Channel, stored *storedTopic) {
	e, _ := c.look()
	if stored == nil || stored.From.Seq < e.after.Seq || stored.To.Seq <= stored.From.Seq || stored.To.Seq > e.through.Seq {
		return
	}
	var changes []catalog.Change
	for change, err := range s.opts.Catalog.Changes(ctx, s.opts.Docs.CapabilityList(c.set.Name), stored.From.Seq) {
		if err != nil || change.Seq > stored.To.Seq || len(changes) > 2*notifiedEntries {
			break
		}
		changes = append(changes, change)
	}
	if len(changes) == 0 {
		return
	}
	n, _, err := s.encodeNotification(c, stored.From, changes)
	if err != nil || n == nil {
		return
	}
	if t := newTopic(n, stored.Window, stored.Mod); t.sum == stored.Sum {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.topic = t
	}
}

// topicLinks returns the value of the Link field of a topic (RN-PB-08, WS-D-02).
func (s *Channels) topicLinks(c *Channel, hubs ...Hub) string {
	var b strings.Builder
	b.WriteString("<" + s.opts.Docs.Base.URI(c.Name) + `>; rel="self"`)
	for _, h := range hubs {
		b.WriteString(", <" + h.URL + `>; rel="hub"`)
	}
	b.WriteString(", <" + s.opts.Docs.CapabilityList(c.set.Name) + `>; rel="resourcesync"`)
	return b.String()
}

// Links returns the value of the Link field of a topic.
func (s *Channels) Links(c *Channel) string { return s.topicLinks(c, s.opts.Hubs...) }

// A Topic is the content of the topic of a set.
type Topic struct {
	Body []byte
	Sum  string // sha-256 of the body, in hexadecimal digits
	Mod  time.Time
}

// Topic returns the content of the topic; ok is false if there is none.
func (c *Channel) Topic() (t Topic, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.topic == nil {
		return Topic{}, false
	}
	return Topic{Body: c.topic.body, Sum: c.topic.sum, Mod: c.topic.mod}, true
}
