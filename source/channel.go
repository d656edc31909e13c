package source

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"lockstep/catalog"
	"lockstep/source/internal/document"
	"lockstep/source/internal/names"
)

// A place is a point in the history of a set: all changes through Seq are told,
// the interval told ends at Until.
type place struct {
	Seq   catalog.Seq `json:"seq"`
	Until time.Time   `json:"until"`
}

// An extent is what the published Change List of a set holds: the changes after
// one place, through another. Nothing else is ever notified, for both must
// agree (RN-PL-08).
type extent struct{ after, through place }

// A channel is the notifications of one set (RN-CH-03).
type channel struct {
	set  Set
	name string // of the topic

	// building is held by who takes a notification off the catalog, across IO:
	// others want the same one.
	building sync.Mutex

	saving  sync.Mutex    // one writer of the state at a time; held across IO, for that is its purpose
	moved   chan struct{} // has an element when there is something to save; capacity 1
	streams atomic.Int64  // event streams there are

	mu     sync.Mutex      // guards what follows
	extent extent          // zero: nothing is published yet
	grown  chan struct{}   // closed when the extent is another one
	recent []*notification // the last few made, for all who come to that place
	topic  *topic          // what stands at the topic; nil: nothing
	queues []*queue        // of the hubs that are told; nil: not open yet
	kept   []byte          // the state of the channel as it is in its blob
}

// recentNotifications is how many a channel holds: those who keep up share
// them. Each is up to notifiedBytes.
const recentNotifications = 4

func newChannel(set Set) *channel {
	return &channel{set: set, name: names.Topic(set.Name), grown: make(chan struct{}), moved: make(chan struct{}, 1)}
}

// Streams returns how many event streams are being read, of all sets.
func (s *Source) Streams() int64 {
	var n int64
	for _, c := range s.channels {
		n += c.streams.Load()
	}
	return n
}

// look returns what is published, and what is closed when that changes.
func (c *channel) look() (extent, <-chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.extent, c.grown
}

// grow notes what is published now.
func (c *channel) grow(e extent) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e == c.extent {
		return
	}
	c.extent = e
	close(c.grown)
	c.grown = make(chan struct{})
}

// tell tells the channel of a set what of it is published: st is the state.
func (s *Source) tell(set string, st *state) {
	c := st.Changes
	e := extent{after: place{c.After, c.From}, through: place{c.After, c.From}}
	if c.Through > c.After && !c.ThroughTime.IsZero() {
		e.through = place{c.Through, c.ThroughTime.Add(document.Boundary)}
	}
	s.channels[set].grow(e)
}

// locate returns where notifications go on for one who was told as far as p,
// and whether changes are missing in between: those that have left the Change
// List (RN-PB-06), or that a catalog which was restored knows nothing of.
func (e *extent) locate(p place) (from place, gap bool) {
	if p.Seq < e.after.Seq || p.Seq > e.through.Seq || p.Until.Before(e.after.Until) {
		return e.after, true
	}
	return p, false
}

// at returns the place behind the change numbered seq, which must be in e.
func (s *Source) at(ctx context.Context, c *channel, e extent, seq catalog.Seq) (place, error) {
	switch {
	case seq == e.after.Seq:
		return e.after, nil
	case seq == e.through.Seq:
		return e.through, nil
	}
	for change, err := range s.catalog.Changes(ctx, s.docs.CapabilityList(c.set.Name), seq-1) {
		if err == nil && change.Seq != seq {
			break
		}
		return place{seq, change.EventTime.Add(document.Boundary)}, err
	}
	return place{}, fmt.Errorf("change %d is not in the catalog", seq)
}

// next returns the notification that follows p, and the place where it begins
// if that is another one because of a gap. It returns nil if there is nothing
// to tell yet.
func (s *Source) next(ctx context.Context, c *channel, p place) (n *notification, gap bool, err error) {
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
	c.mu.Lock()
	defer c.mu.Unlock()
	c.recent = append(c.recent, n)
	if over := len(c.recent) - recentNotifications; over > 0 {
		c.recent = slices.Delete(c.recent, 0, over)
	}
	return n, gap, nil
}

// known returns the notification that was made already of what follows p.
func (c *channel) known(p place, e extent) *notification {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, n := range c.recent {
		if n.from == p && n.to.Seq <= e.through.Seq {
			return n
		}
	}
	return nil
}

// A ChannelStatus says how things stand with the notifications of a set.
type ChannelStatus struct {
	Set     string
	Topic   string      // its URI
	Last    catalog.Seq // the newest change published
	Streams int         // of events, open now
	Hubs    []HubStatus // those that are told
}

// A HubStatus is how far a hub has been told of a set, and what was done since
// the process began.
type HubStatus struct {
	URL      string
	Told     catalog.Seq // 0 also before Notify has begun
	Behind   int64       // changes it lacks
	Accepted int64       // notifications
	Refused  int64       // for good
	Failures int64       // attempts to be repeated
	Err      error       // of the last attempt; nil: it was accepted
}

// Channels describes the channel of each set, in the order of Options.Sets.
func (s *Source) Channels() []ChannelStatus {
	all := make([]ChannelStatus, 0, len(s.opts.Sets))
	for i := range s.opts.Sets {
		c := s.channels[s.opts.Sets[i].Name]
		e, _ := c.look()
		st := ChannelStatus{Set: c.set.Name, Topic: s.docs.Base.URI(c.name), Last: e.through.Seq, Streams: int(c.streams.Load())}
		for _, q := range c.hubs() {
			q.mu.Lock()
			h := HubStatus{URL: q.hub.URL, Told: q.told.Seq, Accepted: q.accepted, Refused: q.refused, Failures: q.failures, Err: q.err}
			if !q.told.Until.IsZero() {
				h.Behind = max(0, int64(e.through.Seq-q.told.Seq))
			}
			q.mu.Unlock()
			st.Hubs = append(st.Hubs, h)
		}
		all = append(all, st)
	}
	return all
}
