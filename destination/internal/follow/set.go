package follow

import (
	"context"
	"slices"
	"time"

	"lockstep/destination/internal/inbox"
	"lockstep/destination/internal/push"
	"lockstep/destination/report"
	"lockstep/discover"
	"lockstep/resourcesync"
)

// relEvents is the link relation by which a Capability List names the stream of
// events of its set: its Change Notifications as server-sent events, for
// Destinations that a hub cannot reach.
const relEvents = "urn:x-lockstep:events"

// A channel is a source of notifications about changes of a set.
type channel struct {
	topic  string   // of its hubs; "": none
	hubs   []string // named in the Capability List, which may name none (RN-CH-09)
	events string   // address of its stream; "": none
}

// channelOf returns the channel that the set offers.
func channelOf(f *discover.Set) channel {
	return channel{topic: f.URI(resourcesync.ChangeNotification), hubs: f.Hubs, events: f.Link(relEvents)}
}

func (c *channel) equal(o *channel) bool {
	return c.topic == o.topic && c.events == o.events && slices.Equal(c.hubs, o.hubs)
}

// A set is a set that is followed. It is guarded by the mutex of its registry.
type set struct {
	uri     string
	name    string
	offered *discover.Set // as last found; must not be changed

	channel    channel
	since      time.Time          // when the channel was found
	wired      context.CancelFunc // ends the use of the channel
	hub        bool               // a hub is subscribed to and has verified the subscription; see setHub
	hubChanged chan struct{}      // closed when hub changes; nil: no goroutine is waiting
	stream     bool               // the stream is open
	listener   *byte              // identifies the goroutine that reads the stream
	trouble    string             // last failure of the channel
	hubError   string             // why no hub is subscribed to; "": no reason is known
	retry      time.Time          // when hubs may be asked again if the Source is reachable again
	reminded   time.Time          // when the subscription was last renewed because of changes found by pulling

	resume struct{ stream, event string } // the last event of the stream that was processed

	queue    []*inbox.Message
	queued   int64     // weight of the queue
	busy     int       // number of messages at the head of the queue that are being applied
	overload *Overload // nil: none

	pulled    bool           // pulled since Run began: messages may be processed
	read      bool           // a pull since Run began has read its documents: at most single resources failed
	due       time.Time      // time of the next pull
	asked     bool           // a notification or a failure requested the next pull
	last      time.Time      // when the last pull ended
	took      time.Duration  // duration of the last pull
	spacing   time.Duration  // between routine pulls without notifications; less than Poll: Poll
	idlePulls int            // pulls in a row that found nothing
	pause     time.Duration  // before a retry
	again     time.Time      // when messages may be processed after a failure
	changed   push.Overtaken // resources whose new content is waited for
	waiting   bool           // a pull is delayed until the channel works
	refused   bool           // the last pull was refused, for safety
	unread    bool           // the last pull could not read documents: they may have other addresses now

	pausedUntil   time.Time // notifications are ignored until then
	pausedBecause string
	turn          time.Duration // how long work for it may take while others wait

	status report.SetStatus
}

// isLive reports whether notifications arrive and all of them are used.
func (s *set) isLive() bool {
	return (s.hub || s.stream) && s.overload == nil && s.usesPush(time.Now())
}

// usesPush reports whether notifications are used: not for a while after a document
// of the Source has contradicted one, nor while the set is refused. Pulls then find
// the changes.
func (s *set) usesPush(now time.Time) bool { return !s.refused && !now.Before(s.pausedUntil) }

// hasMessages reports whether messages can be processed now.
func (s *set) hasMessages(now time.Time) bool {
	return s.pulled && s.usesPush(now) && len(s.queue) > 0
}

// isOverloaded reports whether the Source's documents still have to be read in
// place of discarded notifications.
func (s *set) isOverloaded() bool { return s.overload != nil && !s.overload.Over }

// lastEvent returns the ID of the event after which the stream is to be resumed.
func (s *set) lastEvent(stream string) string {
	if s.resume.stream == stream {
		return s.resume.event
	}
	return ""
}

// processedEvent records the position up to which the stream was processed.
func (s *set) processedEvent(m *inbox.Message) {
	if m.EventID != "" {
		s.resume.stream, s.resume.event = m.Stream, m.EventID
	}
}

// setHub records whether a hub is subscribed to, and if not, why. After again, hubs
// may be asked once more.
func (s *set) setHub(is bool, why string, again time.Duration) {
	if s.hubChanged != nil && (s.hub != is || (s.hubError == "") != (why == "")) {
		close(s.hubChanged)
		s.hubChanged = nil
	}
	if s.hub, s.hubError = is, why; why != "" {
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
