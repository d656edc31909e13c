package pages

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"lockstep/cmd/lockstep/internal/explorer/place"
	"lockstep/cmd/lockstep/internal/explorer/reading"
)

const (
	// eventInterval is how often a page learns that more was read, at most.
	eventInterval = 500 * time.Millisecond
	// maxEventTime is how long one stream lasts: the browser opens another one.
	maxEventTime = 10 * time.Minute
)

// events sends an event at the beginning, as more may have been read since the page was
// made, and whenever more of the lists of the page was read.
func (s *Server) events(w http.ResponseWriter, r *http.Request, p *place.Place) error {
	var lists []*reading.List
	if r.FormValue("list") != "" {
		l, err := listOf(r, p)
		if err != nil {
			return err
		}
		lists = []*reading.List{l}
	} else if n := number(r, "set", 0); n >= 0 && n < len(p.Sets) {
		lists = p.Sets[n].Lists
	}
	header := w.Header()
	header.Set("Content-Type", "text/event-stream")
	header.Set("Cache-Control", "no-store")
	header.Set("X-Content-Type-Options", "nosniff")
	rc := http.NewResponseController(w)
	_ = rc.SetWriteDeadline(time.Time{}) // a server without deadlines has none to lift
	ctx, cancel := context.WithTimeout(r.Context(), maxEventTime)
	defer cancel()
	_, _ = fmt.Fprint(w, "retry: 2000\n\n")
	tick := time.NewTicker(eventInterval)
	defer tick.Stop()
	for last := int64(-1); ; {
		if now := fingerprint(lists); now != last {
			last = now
			_, _ = fmt.Fprintf(w, "data: %d\n\n", now) // Flush reports a client that has gone
		}
		if rc.Flush() != nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// fingerprint returns a number that changes when more of the lists was read.
func fingerprint(lists []*reading.List) int64 {
	var n int64
	for _, l := range lists {
		changed, pending := l.Changed()
		n += int64(changed)<<32 + pending
	}
	return n
}
