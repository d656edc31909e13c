package destination

import (
	"context"
	"fmt"
	"log/slog"
	"net/url"
	"time"

	"lockstep/destination/internal/inbox"
	"lockstep/internal/eventstream"
	"lockstep/internal/fetch"
)

// relEvents is the relation by which a Capability List names the stream of
// events of its set: its Change Notifications as server-sent events, for
// Destinations that a hub cannot call.
const relEvents = "urn:x-lockstep:events"

// standIn keeps a stream of events open for as long as no hub is subscribed to:
// at once when a hub will not call us, after a while when it says nothing.
func (f *Follower) standIn(ctx context.Context, s *followed, uri string) {
	for ctx.Err() == nil {
		is, spurned, turns := f.hubOf(s)
		if is {
			waitFor(ctx, turns, 0)
			continue
		}
		if !spurned {
			if waitFor(ctx, turns, fallbackAfter) {
				continue
			}
			f.unheard(s)
		}
		own, cancel := context.WithCancel(ctx)
		f.run(func() {
			defer cancel()
			for is, _, turns := f.hubOf(s); !is && own.Err() == nil; is, _, turns = f.hubOf(s) {
				waitFor(own, turns, 0)
			}
		})
		f.listen(own, s, uri)
		cancel()
	}
}

// hubOf reports whether a hub is subscribed to, or does not want to be, and what
// is closed when that changes.
func (f *Follower) hubOf(s *followed) (is, spurned bool, turns <-chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if s.turns == nil {
		s.turns = make(chan struct{})
	}
	return s.hub, s.spurned != "", s.turns
}

// setHub notes whether a hub is subscribed to, and what speaks against it. The
// caller holds mu.
func (f *Follower) setHub(s *followed, is bool, why string) {
	if s.turns != nil && (s.hub != is || (s.spurned == "") != (why == "")) {
		close(s.turns)
		s.turns = nil
	}
	if s.hub, s.spurned = is, why; why != "" {
		s.retry = time.Now().Add(againAfter * f.opts.Pause)
	}
}

// unheard notes that a hub was asked and does not call.
func (f *Follower) unheard(s *followed) {
	why := fmt.Sprintf("no hub has called %s within %s of being asked to: can it, and does that URL lead here?", fetch.Printable(f.opts.Callback), fallbackAfter)
	for _, sub := range f.sub.Subscriptions() {
		if sub.ID == s.uri && sub.LastError != "" { // of an earlier life, maybe
			why = fetch.Printable(sub.LastError)
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if !s.hub && s.spurned == "" {
		s.spurned = why
	}
}

// askAgain asks hubs that would not call us once more: the Source came back, and
// with it, maybe, its hub. The caller holds mu.
func (f *Follower) askAgain(ctx context.Context, s *followed) {
	if f.sub == nil || s.hub || s.spurned == "" || s.retry.IsZero() || time.Now().Before(s.retry) {
		return
	}
	s.retry = time.Time{}
	f.run(func() {
		if err := f.sub.Retry(ctx, s.uri); err != nil && ctx.Err() == nil {
			f.d.log.WarnContext(ctx, "subscribe again", slog.String("set", s.uri), slog.Any("err", err))
		}
	})
}

// waitFor waits until c is closed, at most so long; zero is for ever. It reports
// whether c was.
func waitFor(ctx context.Context, c <-chan struct{}, most time.Duration) bool {
	var late <-chan time.Time
	if most > 0 {
		t := time.NewTimer(most)
		defer t.Stop()
		late = t.C
	}
	select {
	case <-c:
		return true
	case <-late:
	case <-ctx.Done():
	}
	return false
}

// listen keeps the stream of events of a set open until ctx ends.
func (f *Follower) listen(ctx context.Context, s *followed, uri string) {
	allow := func(uri string) error {
		doc, err := url.Parse(s.uri)
		if err == nil {
			if reason := f.d.selects.refuse(uri, doc); reason != "" { // what comes speaks for the Source
				err = fmt.Errorf("refuse %s: %s", fetch.Printable(uri), reason)
			}
		}
		return err
	}
	me := new(byte) // there may be another in a moment
	f.mu.Lock()
	f.streams++
	s.listener = me
	many, last := f.streams > maxEventStreams, f.lastEvent(s, uri)
	f.mu.Unlock()
	defer func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		if f.streams--; s.listener == me {
			s.stream, s.listener = false, nil
		}
	}()
	lost := func(err error) {
		if err == nil {
			return
		}
		f.mu.Lock()
		defer f.mu.Unlock()
		if s.listener != me {
			return
		}
		s.trouble = fmt.Sprintf("read %s: %s", fetch.Printable(uri), fetch.Printable(err.Error()))
		if s.stream = false; s.waiting {
			f.ask(s, time.Now())
		}
		f.replan(s)
	}
	if many {
		lost(fmt.Errorf("more than %d streams of events would be open", maxEventStreams))
		return
	}
	if err := allow(uri); err != nil {
		lost(err)
		return
	}
	stream := &eventstream.Stream{Client: f.d.client, URI: uri, LastID: last, First: min(eventstream.FirstWait, f.opts.Pause), Idle: eventstream.Idle, Allow: allow, Lost: lost}
	stream.Opened = func(resumed bool) {
		f.mu.Lock()
		defer f.mu.Unlock()
		if s.listener != me {
			return
		}
		s.stream, s.trouble = true, ""
		f.askAgain(ctx, s)
		if !resumed || s.waiting {
			f.ask(s, time.Now()) // RN-RX-04
		}
		f.replan(s)
	}
	stream.Event = func(e eventstream.Event) { f.takeEvent(s, uri, e) }
	stream.Run(ctx)
}

// lastEvent returns the ID to go on from. The caller holds mu.
func (f *Follower) lastEvent(s *followed, uri string) string {
	if s.resume.stream == uri {
		return s.resume.event
	}
	return ""
}

// takeEvent queues an event.
func (f *Follower) takeEvent(s *followed, uri string, e eventstream.Event) {
	m := &inbox.Message{Topic: uri, At: time.Now(), EventID: e.ID, Stream: uri}
	switch e.Type {
	case "notification":
		m.Body, m.Size = e.Data, int64(len(e.Data))
	case "gap":
		m.Gap = true
	case "hello":
		m.Hello = true
	default:
		return // of a later version
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.enqueue(s, m)
}
