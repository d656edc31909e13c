package follow

import (
	"context"
	"slices"
	"time"

	"lockstep/destination/internal/inbox"
	"lockstep/destination/internal/push"
	"lockstep/discover"
	"lockstep/resourcesync"
)

// relEvents is the relation by which a Capability List names the stream of
// events of its set: its Change Notifications as server-sent events, for
// Destinations that a hub cannot call.
const relEvents = "urn:x-lockstep:events"

// A channel is where notifications of changes of a set come from.
type channel struct {
	topic  string   // of its hubs; "": it has none
	hubs   []string // named in the Capability List; RN-CH-09: there may be none
	events string   // address of its stream; "": it has none
}

// channelOf returns what the set offers.
func channelOf(f *discover.Set) channel {
	return channel{topic: f.URI(resourcesync.ChangeNotification), hubs: f.Hubs, events: f.Link(relEvents)}
}

func (c *channel) equal(o *channel) bool {
	return c.topic == o.topic && c.events == o.events && slices.Equal(c.hubs, o.hubs)
}

// A set is one that is followed. It is guarded by the mutex of its registry.
type set struct {
	uri     string
	name    string
	offered *discover.Set // as it was last found; never changed

	channel  channel
	since    time.Time          // when the channel was found
	wired    context.CancelFunc // ends the use of the channel
	hub      bool               // a hub is subscribed to, and has verified it; see setHub
	turns    chan struct{}      // closed when hub changes; nil: nothing is waiting
	stream   bool               // the stream is open
	listener *byte              // identifies the goroutine that reads it
	trouble  string             // with the channel
	spurned  string             // why no hub is subscribed to; "": there is no reason
	retry    time.Time          // when hubs may be asked again, should the Source come back
	reminded time.Time          // when the subscription was last renewed because of changes found by pulling

	resume struct{ stream, event string } // where the stream was left: the last event that was processed

	queue    []*inbox.Message
	queued   int64     // their weight
	busy     int       // how many of them, the first, are being applied
	overload *Overload // nil: there is none

	pulled  bool           // since Run began: messages may be processed
	due     time.Time      // when to look at it
	asked   bool           // because of a notification, or a failure
	last    time.Time      // when the last look ended
	took    time.Duration  // and how long it took
	vain    int            // how many looks in a row found nothing
	pause   time.Duration  // before what failed is tried again
	again   time.Time      // when messages may be processed, after a failure
	changed push.Overtaken // resources whose content is waited for
	waiting bool           // a look is waited for until the channel works
	refused bool           // for safety, when it was last pulled

	pausedUntil   time.Time // until then notifications are not used
	pausedBecause string
	turn          time.Duration // how long it may be worked at while others wait

	status SetStatus
}

// isLive reports whether notifications come, and all of them are used.
func (s *set) isLive() bool {
	return (s.hub || s.stream) && s.overload == nil && s.usesPush(time.Now())
}

// usesPush reports whether notifications are used: not while a document of the
// Source has contradicted one, nor while the set is refused. What they say is
// found by pulling.
func (s *set) usesPush(now time.Time) bool { return !s.refused && !now.Before(s.pausedUntil) }

// hasMessages reports whether messages can be processed now.
func (s *set) hasMessages(now time.Time) bool {
	return s.pulled && s.usesPush(now) && len(s.queue) > 0
}

// isOverloaded reports whether the Source's documents have to be read in place of
// notifications, and were not yet.
func (s *set) isOverloaded() bool { return s.overload != nil && !s.overload.Over }

// lastEvent returns the ID of the event after which the stream is to be resumed.
func (s *set) lastEvent(stream string) string {
	if s.resume.stream == stream {
		return s.resume.event
	}
	return ""
}

// processedEvent notes how far the stream has been processed.
func (s *set) processedEvent(m *inbox.Message) {
	if m.EventID != "" {
		s.resume.stream, s.resume.event = m.Stream, m.EventID
	}
}

// setHub notes whether a hub is subscribed to, and why not. After again, hubs may
// be asked once more.
func (s *set) setHub(is bool, why string, again time.Duration) {
	if s.turns != nil && (s.hub != is || (s.spurned == "") != (why == "")) {
		close(s.turns)
		s.turns = nil
	}
	if s.hub, s.spurned = is, why; why != "" {
		s.retry = time.Now().Add(again)
	}
}

// take returns the messages at the head of the queue that are processed together,
// and marks them as being applied.
func (s *set) take() []*inbox.Message {
	n, size := 0, int64(0)
	for n < len(s.queue) && n < passMessages && (n == 0 || size+s.queue[n].Size <= passBytes) {
		size += s.queue[n].Size
		n++
	}
	s.busy = n
	return slices.Clone(s.queue[:n])
}
