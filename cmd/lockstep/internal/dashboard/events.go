package dashboard

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net/http"
	"time"
)

const (
	maxStreams = 16               // open pages: connections that administration needs for other things
	eventsRest = 2 * time.Second  // between two events
	eventsMost = 15 * time.Second // after which pages are renewed in any case: they say how long ago things were
)

// events sends an event when something has changed. Its data is the state and the sentence:
// pages are renewed by requesting them again.
func (d *Dashboard) events(w http.ResponseWriter, r *http.Request) {
	select {
	case d.streams <- struct{}{}:
		defer func() { <-d.streams }()
	default:
		refuse(w, r, d.site, true, &problem{http.StatusServiceUnavailable, "too many pages are open"})
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("X-Accel-Buffering", "no") // nginx would hold events back
	out := http.NewResponseController(w)
	tick := time.NewTicker(eventsRest)
	defer tick.Stop()
	var last [sha256.Size]byte
	var sent time.Time
	for {
		now := time.Now()
		o := d.look(now)
		if mark := markOf(o); mark != last || now.Sub(sent) >= eventsMost {
			last, sent = mark, now
			if !sendEvent(w, o) || out.Flush() != nil {
				return
			}
		}
		select {
		case <-r.Context().Done():
			return
		case <-d.ended:
			return
		case <-tick.C:
		}
	}
}

// sendEvent sends one event, and reports whether the client takes it.
func sendEvent(w http.ResponseWriter, o *Overview) bool {
	data, err := json.Marshal(map[string]any{"at": o.At, "state": o.State, "summary": o.Summary})
	if err != nil {
		return false // unreachable
	}
	_, err = fmt.Fprintf(w, "data: %s\n\n", data) // JSON has no line breaks
	return err == nil
}

// markOf distinguishes a state from others, however old it is.
func markOf(o *Overview) [sha256.Size]byte {
	c := *o
	c.At, c.Summary = time.Time{}, ""
	rows := make([]any, 0, len(o.rows))
	for i := range o.rows {
		r := o.rows[i]
		r.Age = nil
		rows = append(rows, r)
	}
	data, _ := json.Marshal([]any{c, rows}) // plain values
	return sha256.Sum256(data)
}
