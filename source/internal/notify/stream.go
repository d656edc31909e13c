package notify

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"lockstep/catalog"
)

// EventsType is the media type of event streams.
const EventsType = "text/event-stream"

// heartbeat is how often a stream sends a comment, for proxies that close idle
// connections, and to notice that a client has disconnected.
const heartbeat = 15 * time.Second

// maxSending limits the bytes of the notifications that streams are sending, each
// counted once: streams that keep up share them, but each stream that lags behind needs
// its own. Lagging streams may use no more than half.
const maxSending = 64 << 20

// A sending counts the notifications that streams are sending. The zero value is
// ready to use.
type sending struct {
	mu    sync.Mutex // guards the following fields
	bytes int64
	by    map[*notification]int // how many streams are sending it
}

// take reports whether there is room for a stream to send n; late says that the stream
// lags behind. The caller calls give when n has been sent.
func (s *sending) take(n *notification, late bool) bool {
	most := int64(maxSending)
	if late {
		most /= 2
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.by[n] == 0 {
		if s.bytes > 0 && s.bytes+n.weight() > most {
			return false
		}
		s.bytes += n.weight()
	}
	if s.by == nil {
		s.by = make(map[*notification]int)
	}
	s.by[n]++
	return true
}

func (s *sending) give(n *notification) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.by[n]--; s.by[n] == 0 {
		delete(s.by, n)
		s.bytes -= n.weight()
	}
}

// Names of events.
const (
	eventHello        = "hello"        // where the stream begins
	eventGap          = "gap"          // changes since the last event id cannot be sent: look at the Change List
	eventNotification = "notification" // data is the payload
)

// A beginning is the data of the events hello and gap.
type beginning struct {
	Topic string    `json:"topic"`
	Until time.Time `json:"until"` // what follows are the changes after this
}

// WantsEvents reports whether a request accepts a stream of events.
func WantsEvents(accept []string) bool {
	for _, field := range accept {
		for one := range strings.SplitSeq(field, ",") {
			typ, _, _ := strings.Cut(one, ";")
			if strings.EqualFold(strings.TrimSpace(typ), EventsType) {
				return true
			}
		}
	}
	return false
}

// Streams are the event streams of all sets.
type Streams struct {
	channels *Channels
	opts     StreamOptions
	open     atomic.Int64 // streams there are
	sending  sending      // by them
}

// StreamOptions are the limits of event streams.
type StreamOptions struct {
	Max          int           // streams at a time
	WriteTimeout time.Duration // for a client to take an event

	// Ending returns a channel that is closed when the server of a request
	// shuts down; it may be nil.
	Ending func(ctx context.Context) <-chan struct{}
}

// NewStreams returns the event streams of the channels.
func (s *Channels) NewStreams(o StreamOptions) *Streams { return &Streams{channels: s, opts: o} }

// ErrUnavailable reports that no stream can begin now: there are as many as
// there may be, or nothing has been published yet.
var ErrUnavailable = errors.New("no event stream can begin now")

// Serve answers with the stream of a channel's events, until the client goes or
// the server shuts down. Memory and time are bounded: the number of streams is
// limited, they share what they send, and one that is not read ends. If it
// returns an error, it has answered nothing.
func (h *Streams) Serve(w http.ResponseWriter, r *http.Request, c *Channel) error {
	if h.open.Add(1) > int64(h.opts.Max) {
		h.open.Add(-1)
		return ErrUnavailable
	}
	defer h.open.Add(-1)
	c.streams.Add(1)
	defer c.streams.Add(-1)
	e, _ := c.look()
	if e.after.Until.IsZero() { // nothing has been published yet
		return ErrUnavailable
	}
	p, gap, err := h.channels.resume(r.Context(), c, e, r.Header.Values("Last-Event-ID"))
	if err != nil {
		return err
	}
	header := w.Header()
	header.Set("Content-Type", EventsType)
	header.Set("Cache-Control", "no-store")
	header.Set("X-Accel-Buffering", "no") // a proxy that gathers bytes delays them
	out := &eventWriter{w: w, control: http.NewResponseController(w), timeout: h.opts.WriteTimeout}
	begin := beginning{h.channels.opts.Docs.Base.URI(c.Name), p.Until}
	if out.event(eventHello, p.Seq, begin) != nil || gap && out.event(eventGap, p.Seq, begin) != nil {
		return nil
	}
	h.send(r.Context(), c, out, p)
	return nil
}

// send sends notifications from p on.
func (h *Streams) send(ctx context.Context, c *Channel, out *eventWriter, p Place) {
	beat := time.NewTicker(heartbeat)
	defer beat.Stop()
	e, _ := c.look()
	late, skipped := p != e.through, false
	for {
		_, grown := c.look()
		n, gap, err := h.channels.next(ctx, c, p)
		if err != nil {
			return // the client reconnects and gets the reason
		}
		if gap || n != nil && !n.empty() && !h.sending.take(n, late) { // no room to send it: the client reads the Change List
			if p = h.gap(c, out); p == (Place{}) {
				return
			}
			late, skipped = true, true // a stream does not catch up by skipping changes
			continue
		}
		if n != nil {
			late, skipped = true, false
			if p = n.to; !n.empty() {
				err = out.notification(n)
				h.sending.give(n)
			}
			if err != nil {
				return
			}
			continue
		}
		late = skipped
		select {
		case <-grown:
		case <-beat.C:
			err = out.beat()
		case <-ctx.Done():
			return
		case <-h.opts.Ending(ctx):
			return
		}
		if err != nil {
			return
		}
	}
}

// gap sends the event that changes are left out, and returns the place at which the
// stream continues: the present one, or the zero place if sending failed.
func (h *Streams) gap(c *Channel, out *eventWriter) Place {
	e, _ := c.look()
	if out.event(eventGap, e.through.Seq, beginning{h.channels.opts.Docs.Base.URI(c.Name), e.through.Until}) != nil {
		return Place{}
	}
	return e.through
}

// resume returns the place at which a stream begins: after the last event that the
// client received, if the changes since then can be sent, or else the present one.
func (s *Channels) resume(ctx context.Context, c *Channel, e extent, last []string) (p Place, gap bool, err error) {
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

// An eventWriter writes events, each of which is sent at once, within timeout.
type eventWriter struct {
	w       http.ResponseWriter
	control *http.ResponseController
	timeout time.Duration
}

// event sends an event whose data is JSON.
func (w *eventWriter) event(name string, id catalog.Seq, data any) error {
	text, err := json.Marshal(data)
	if err != nil {
		return err
	}
	return w.write(encodeEvent(name, id, text))
}

func (w *eventWriter) notification(n *notification) error {
	n.encode.Do(func() { n.event = encodeEvent(eventNotification, n.to.Seq, n.body) })
	return w.write(n.event)
}

// encodeEvent writes an event. Each line of the data is a field of its own; a
// line end at the very end of it gets lost.
func encodeEvent(name string, id catalog.Seq, data []byte) []byte {
	data = bytes.TrimSuffix(data, []byte("\n"))
	buf := make([]byte, 0, len(data)+len("data: \n")*(bytes.Count(data, []byte("\n"))+1)+64)
	buf = fmt.Appendf(buf, "event: %s\nid: %d\n", name, id)
	for line := range bytes.SplitSeq(data, []byte("\n")) {
		buf = append(buf, "data: "...)
		buf = append(buf, line...)
		buf = append(buf, '\n')
	}
	return append(buf, '\n')
}

func (w *eventWriter) beat() error { return w.write([]byte(":\n\n")) }

func (w *eventWriter) write(event []byte) error {
	_ = w.control.SetWriteDeadline(time.Now().Add(w.timeout)) // not every ResponseWriter can; net/http's does
	if _, err := w.w.Write(event); err != nil {
		return err
	}
	return w.control.Flush()
}
