package site

import (
	"time"

	"lockstep/source"
)

// maxStreams is how many streams of events serve gives at a time: memory filled
// by Destinations that no hub can call.
const maxStreams = 1000

// notifyWarnEvery is how often people are told that a hub does not take
// notifications, while that goes on.
const notifyWarnEvery = time.Minute

// A hubNews is what people have been told of a hub.
type hubNews struct {
	warned time.Time // zero: that all is well
	lost   int64     // refused since
}

// Notified says what became of a notification, where that is news.
func (n *Reporter) Notified(t source.Notification) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.hubs == nil {
		n.hubs = make(map[string]*hubNews)
	}
	key := t.Set + " " + t.Hub
	h := n.hubs[key]
	if h == nil {
		h = &hubNews{}
		n.hubs[key] = h
	}
	if t.Refused {
		h.lost++
	}
	switch {
	case t.Err == nil && !h.warned.IsZero():
		n.IO.Errorf("note: the hub %s takes notifications of set %s again\n", t.Hub, t.Set)
		*h = hubNews{}
	case t.Err == nil:
	case time.Since(h.warned) < notifyWarnEvery:
	case t.Refused:
		h.warned = time.Now()
		n.IO.Errorf("warning: the hub refuses notifications of set %s, %d so far; their changes are in the Change List: %v\nhint: see that the hub knows the topic and the token (--hub-token)\n", t.Set, h.lost, t.Err)
	default:
		h.warned = time.Now()
		n.IO.Errorf("warning: the hub did not take a notification of set %s, and gets it later: %v\n", t.Set, t.Err)
	}
}
