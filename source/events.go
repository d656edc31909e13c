package source

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"lockstep/catalog"
)

// RelEvents is the relation by which a Capability List names the address where
// the notifications of its set come as a stream of server-sent events: for
// Destinations that no hub can call back (an extension of ours; others ignore
// it, RS-LN-04).
const RelEvents = "urn:x-lockstep:events"

const eventsType = "text/event-stream"

const (
	// heartbeat is how often a stream shows a sign of life, for proxies that
	// close what is silent, and to notice that nobody listens.
	heartbeat = 15 * time.Second

	// streamRetry is how many seconds who finds no place, or loses it, should
	// wait.
	streamRetry = "5"
)

// The events of a stream.
const (
	eventHello        = "hello"        // where the stream begins
	eventGap          = "gap"          // changes since the last event id cannot be told: look at the Change List
	eventNotification = "notification" // data is the payload
)

// A beginning is the data of the events hello and gap.
type beginning struct {
	Topic string    `json:"topic"`
	Until time.Time `json:"until"` // what follows are the changes after this
}

// wantsEvents reports whether a request accepts a stream of events.
func wantsEvents(accept []string) bool {
	for _, field := range accept {
		for one := range strings.SplitSeq(field, ",") {
			typ, _, _ := strings.Cut(one, ";")
			if strings.EqualFold(strings.TrimSpace(typ), eventsType) {
				return true
			}
		}
	}
	return false
}

// events answers with the stream of a channel's events, until the client goes
// or the server shuts down. Memory and time are bounded: there are so many
// streams at most, they share what they send, and one that is not read ends.
func (h *handler) events(w http.ResponseWriter, r *http.Request, c *channel) {
	if h.streaming.Add(1) > int64(h.opts.Streams) {
		h.streaming.Add(-1)
		w.Header().Set("Retry-After", streamRetry)
		h.fail(w, r, http.StatusServiceUnavailable)
		return
	}
	defer h.streaming.Add(-1)
	c.streams.Add(1)
	defer c.streams.Add(-1)
	e, _ := c.look()
	if e.after.Until.IsZero() { // nothing has been published yet
		w.Header().Set("Retry-After", streamRetry)
		h.fail(w, r, http.StatusServiceUnavailable)
		return
	}
	p, gap, err := h.resume(r.Context(), c, e, r.Header.Values("Last-Event-ID"))
	if err != nil {
		h.refuse(w, r, c.name, err)
		return
	}
	header := w.Header()
	header.Set("Content-Type", eventsType)
	header.Set("Cache-Control", cacheNever)
	header.Set("X-Accel-Buffering", "no") // a proxy that gathers bytes delays them
	out := &eventWriter{w: w, control: http.NewResponseController(w)}
	begin := beginning{h.base.uri(c.name), p.Until}
	if out.event(eventHello, p.Seq, begin) != nil || gap && out.event(eventGap, p.Seq, begin) != nil {
		return
	}
	h.sendEvents(r.Context(), c, out, p)
}

// sendEvents sends notifications from p on.
func (h *handler) sendEvents(ctx context.Context, c *channel, out *eventWriter, p place) {
	beat := time.NewTicker(heartbeat)
	defer beat.Stop()
	for {
		_, grown := c.look()
		n, gap, err := h.next(ctx, c, p)
		if err != nil {
			return // the client comes back, and is told why
		}
		if gap { // it could not be told in time
			e, _ := c.look()
			p = e.through
			if out.event(eventGap, p.Seq, beginning{h.base.uri(c.name), p.Until}) != nil {
				return
			}
			continue
		}
		if n != nil {
			if p = n.to; !n.empty() && out.notification(n) != nil {
				return
			}
			continue
		}
		select {
		case <-grown:
		case <-beat.C:
			err = out.beat()
		case <-ctx.Done():
			return
		case <-ending(ctx):
			return
		}
		if err != nil {
			return
		}
	}
}

// resume returns where a stream begins: behind the event the client had last,
// if changes since then can be told, else now.
func (s *Source) resume(ctx context.Context, c *channel, e extent, last []string) (p place, gap bool, err error) {
	if len(last) == 0 || last[0] == "" {
		return e.through, false, nil
	}
	seq, err := strconv.ParseInt(last[0], 10, 64)
	if err != nil || catalog.Seq(seq) < e.after.Seq || catalog.Seq(seq) > e.through.Seq {
		return e.through, true, nil
	}
	p, err = s.at(ctx, c, e, catalog.Seq(seq))
	return p, false, err
}

// An eventWriter writes events, each of which is sent at once. A client has
// writeTimeout to take one.
type eventWriter struct {
	w       http.ResponseWriter
	control *http.ResponseController
	buf     bytes.Buffer
}

// event sends an event whose data is JSON.
func (w *eventWriter) event(name string, id catalog.Seq, data any) error {
	text, err := json.Marshal(data)
	if err != nil {
		return err
	}
	return w.send(name, id, text)
}

func (w *eventWriter) notification(n *notification) error {
	return w.send(eventNotification, n.to.Seq, n.body)
}

// send sends an event. Each line of the data is a field of its own; a line end
// at the very end of it gets lost.
func (w *eventWriter) send(name string, id catalog.Seq, data []byte) error {
	w.buf.Reset()
	fmt.Fprintf(&w.buf, "event: %s\nid: %d\n", name, id)
	for line := range bytes.SplitSeq(bytes.TrimSuffix(data, []byte("\n")), []byte("\n")) {
		w.buf.WriteString("data: ")
		w.buf.Write(line)
		w.buf.WriteByte('\n')
	}
	w.buf.WriteByte('\n')
	return w.flush()
}

func (w *eventWriter) beat() error {
	w.buf.Reset()
	w.buf.WriteString(":\n\n")
	return w.flush()
}

func (w *eventWriter) flush() error {
	_ = w.control.SetWriteDeadline(time.Now().Add(writeTimeout)) // not every ResponseWriter can; net/http's does
	if _, err := w.w.Write(w.buf.Bytes()); err != nil {
		return err
	}
	return w.control.Flush()
}
