// Package notify sends to hubs and event streams what a Source has published: the
// changes in the Change List of each set, as notifications (RN-PL-08).
package notify

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"lockstep/catalog"
	"lockstep/source/internal/describe"
	"lockstep/source/internal/document"
	"lockstep/source/internal/names"
)

// A Set is a set of resources whose changes are notified.
type Set struct {
	Name  string
	Rules describe.Rules
}

// A Notifier takes notifications and passes them to all who have subscribed.
type Notifier interface {
	Publish(ctx context.Context, topic string, header http.Header, body []byte) error
}

// A pingNotifier only notifies its hub that there are changes, which the hub then
// fetches from the topic (RN-PB-03). What Thin returns may change: a Notifier
// can find out by asking.
type pingNotifier interface{ Thin() bool }

// A Hub passes notifications on, for all sets of a Source.
type Hub struct {
	URL      string   // as subscribers reach it; Capability Lists name it (RN-CH-07)
	Notifier Notifier // notifies it; nil: another program does
}

// A Notification is the result of one attempt to notify a hub.
type Notification struct {
	Set         string
	Hub         string // its URL
	Entries     int    // changes in it
	Bytes       int
	From, Until time.Time     // its interval
	Seq         catalog.Seq   // the last of its changes
	Gap         bool          // From is later than the Until before: changes in between could not be sent
	Refused     bool          // for good: it is not repeated, and what follows it begins with a gap
	Err         error         // why it was not accepted; nil: it was
	Retry       time.Duration // until it is repeated; 0: never, or it was accepted
}

// MediaType is the media type of notifications (RN-PB-01).
const MediaType = "application/xml"

// Options configures [Channels].
type Options struct {
	Docs     *document.Store
	Catalog  catalog.Catalog
	Hubs     []Hub
	OnNotify func(Notification) // called after each attempt, from several goroutines; may be nil
	Static   bool               // the content of a topic is written as a document
}

// Channels are the channels of all sets of a Source.
type Channels struct {
	opts     Options
	channels []*Channel // in the order of the sets
	recent   recentList
}

// New returns the channels of the sets.
func New(o Options, sets []Set) *Channels {
	s := &Channels{opts: o}
	for _, set := range sets {
		s.channels = append(s.channels, newChannel(set))
	}
	return s
}

// Find returns the channel whose topic has that name, nil if there is none.
func (s *Channels) Find(topic string) *Channel {
	for _, c := range s.channels {
		if c.Name == topic {
			return c
		}
	}
	return nil
}

// A Place is a point in the history of a set: all changes through Seq were sent, in
// intervals that end at Until.
type Place struct {
	Seq   catalog.Seq `json:"seq"`
	Until time.Time   `json:"until"`
}

// An extent is the content of the published Change List of a set: the changes after
// one place, through another. No other changes are sent, because notifications and
// Change List must agree (RN-PL-08).
type extent struct{ after, through Place }

// A Channel is the notifications of one set (RN-CH-03).
type Channel struct {
	set  Set
	Name string // of the topic

	// building is held while a notification is built from the catalog, across IO:
	// other callers usually need the same one.
	building sync.Mutex

	saving  sync.Mutex    // held while the state is written, across IO: one writer at a time
	moved   chan struct{} // has an element if there is a change to save; capacity 1
	streams atomic.Int64  // number of open event streams

	mu     sync.Mutex      // guards the following fields
	extent extent          // zero: nothing is published yet
	first  Place           // through which changes were published when this process began: where new hubs begin
	grown  chan struct{}   // closed when the extent changes
	recent []*notification // the last few notifications, shared by receivers at the same Place
	topic  *topic          // content of the topic; nil: none
	queues []*queue        // of the hubs that are notified; nil: not open yet
	stored []byte          // content of the blob with the channel's state
}

// SetName returns the name of the set whose channel it is.
func (c *Channel) SetName() string { return c.set.Name }

// recentNotifications is how many notifications a channel holds in memory, to share
// them among receivers that keep up. Each has up to notifiedBytes. Those of all channels
// together have up to recentBytes: memory filled by many sets.
const (
	recentNotifications = 4
	recentBytes         = 32 << 20
)

func newChannel(set Set) *Channel {
	return &Channel{set: set, Name: names.Set(set.Name).Topic(), grown: make(chan struct{}), moved: make(chan struct{}, 1)}
}

// Streams returns the number of open event streams of all sets.
func (s *Channels) Streams() int64 {
	var n int64
	for _, c := range s.channels {
		n += c.streams.Load()
	}
	return n
}

// look returns the published extent, and a channel that is closed when it changes.
func (c *Channel) look() (extent, <-chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.extent, c.grown
}

// start returns where a hub begins that was never notified: before anything that was
// published since its subscribers could be there.
func (c *Channel) start() Place {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.first
}

// grow records the published extent.
func (c *Channel) grow(e extent) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e == c.extent {
		return
	}
	if c.first.Until.IsZero() {
		c.first = e.through
	}
	c.extent = e
	close(c.grown)
	c.grown = make(chan struct{})
}

// Publish records that the published Change List of a set has the changes after one
// place, through another.
func (s *Channels) Publish(set string, after, through Place) {
	if c := s.Find(names.Set(set).Topic()); c != nil {
		c.grow(extent{after: after, through: through})
	}
}

// locate returns the place at which notifications continue for a receiver at p, and
// whether there is a gap in between: changes that have left the Change List (RN-PB-06),
// or that a restored catalog does not have.
func (e *extent) locate(p Place) (from Place, gap bool) {
	if p.Seq < e.after.Seq || p.Seq > e.through.Seq || p.Until.Before(e.after.Until) {
		return e.after, true
	}
	return p, false
}

// at returns the place after the change numbered seq, which must be in e.
func (s *Channels) at(ctx context.Context, c *Channel, e extent, seq catalog.Seq) (Place, error) {
	switch {
	case seq == e.after.Seq:
		return e.after, nil
	case seq == e.through.Seq:
		return e.through, nil
	}
	for change, err := range s.opts.Catalog.Changes(ctx, s.opts.Docs.CapabilityList(c.set.Name), seq-1) {
		if err == nil && change.Seq != seq {
			break
		}
		return Place{seq, change.EventTime.Add(document.Boundary)}, err
	}
	return Place{}, fmt.Errorf("change %d is not in the catalog", seq)
}

// next returns the notification that follows p, and whether there is a gap before it.
// It returns nil if there is nothing to send yet.
func (s *Channels) next(ctx context.Context, c *Channel, p Place) (n *notification, gap bool, err error) {
	e, _ := c.look()
	if e.after.Until.IsZero() {
		return nil, false, nil
	}
	p, gap = e.locate(p)
	if n := c.known(p, e); n != nil || p.Seq == e.through.Seq {
		return n, gap, nil
	}
	c.building.Lock()
	defer c.building.Unlock()
	if n := c.known(p, e); n != nil {
		return n, gap, nil
	}
	n, err = s.buildNotification(ctx, c, p, e.through.Seq)
	if err != nil {
		return nil, gap, fmt.Errorf("notify of changes after %d: %w", p.Seq, err)
	}
	s.recent.add(c, n)
	return n, gap, nil
}

// A recentList is the recent notifications of all channels. The zero value is ready to use.
type recentList struct {
	mu    sync.Mutex // guards the following fields
	all   []recentOf // oldest first
	bytes int64
}

// A recentOf is a notification in the memory of a channel.
type recentOf struct {
	c *Channel
	n *notification
}

// add has c hold n in memory, and drops those beyond the limits.
func (l *recentList) add(c *Channel, n *notification) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all, l.bytes = append(l.all, recentOf{c, n}), l.bytes+n.weight()
	c.mu.Lock()
	c.recent = append(c.recent, n)
	over := len(c.recent) > recentNotifications
	c.mu.Unlock()
	if over {
		l.drop(slices.IndexFunc(l.all, func(r recentOf) bool { return r.c == c }))
	}
	for l.bytes > recentBytes && len(l.all) > 1 {
		l.drop(0)
	}
}

// drop drops the i-th notification. The caller holds mu.
func (l *recentList) drop(i int) {
	r := l.all[i]
	l.all, l.bytes = slices.Delete(l.all, i, i+1), l.bytes-r.n.weight()
	r.c.mu.Lock()
	defer r.c.mu.Unlock()
	r.c.recent = slices.DeleteFunc(r.c.recent, func(n *notification) bool { return n == r.n })
}

// known returns the notification after p if it has been built already.
func (c *Channel) known(p Place, e extent) *notification {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, n := range c.recent {
		if n.from == p && n.to.Seq <= e.through.Seq {
			return n
		}
	}
	return nil
}

// A Status describes the notifications of a set.
type Status struct {
	Set     string
	Topic   string      // its URI
	Last    catalog.Seq // the newest change published
	Streams int         // of events, open now
	Hubs    []HubStatus // those that are notified
}

// A HubStatus is the position of a hub in the changes of a set, and what was done since
// the process began.
type HubStatus struct {
	URL      string
	Notified catalog.Seq // 0 also before Notify has begun
	Behind   int64       // changes it lacks
	Accepted int64       // notifications
	Refused  int64       // for good
	Failures int64       // attempts to be repeated
	Err      error       // of the last attempt; nil: it was accepted
}

// Status describes the channel of each set.
func (s *Channels) Status() []Status {
	all := make([]Status, 0, len(s.channels))
	for _, c := range s.channels {
		e, _ := c.look()
		st := Status{Set: c.set.Name, Topic: s.opts.Docs.Base.URI(c.Name), Last: e.through.Seq, Streams: int(c.streams.Load())}
		for _, q := range c.hubs() {
			q.mu.Lock()
			h := HubStatus{URL: q.hub.URL, Notified: q.notified.Seq, Accepted: q.accepted, Refused: q.refused, Failures: q.failures, Err: q.err}
			if !q.notified.Until.IsZero() {
				h.Behind = max(0, int64(e.through.Seq-q.notified.Seq))
			}
			q.mu.Unlock()
			st.Hubs = append(st.Hubs, h)
		}
		all = append(all, st)
	}
	return all
}
