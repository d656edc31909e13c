package hub

import (
	"context"
	"log/slog"
	"time"

	"lockstep/hub/hubstore"
)

const (
	savePace   = 50 * time.Millisecond // between two saves of the subscriptions' progress
	saveShare  = 4                     // and this many times the duration of the last save
	savePause  = time.Second           // after a failed save
	saveCursor = 1000                  // cursors saved in one transaction: other writers need their turn
)

// note schedules the progress of s to be saved. The caller holds h.mu.
func (h *Hub) note(s *subscription) {
	if s.dirty {
		return
	}
	s.dirty = true
	if h.dirty = append(h.dirty, s); len(h.dirty) == 1 {
		wake(h.changed)
	}
}

// hurry makes pending progress be saved at once.
func (h *Hub) hurry() { wake(h.hurried) }

// finish ends a subscription and saves that at once. The caller holds h.mu.
func (h *Hub) finish(s *subscription) {
	h.registry.drop(s)
	h.removing[s.Key] = true
	wake(h.changed)
	h.hurry()
}

// expire ends a subscription whose lease has expired (WS-L-01).
func (h *Hub) expire(s *subscription) {
	h.tally.expire()
	h.finish(s)
}

// keepCursors saves the subscriptions' progress until ctx ends.
func (h *Hub) keepCursors(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-h.changed:
		}
		pace := max(savePace, saveShare*h.saveTook)
		select {
		case <-ctx.Done():
			return
		case <-h.hurried:
		case <-time.After(pace):
		}
		start := time.Now()
		more, err := h.saveCursors()
		h.saveTook = min(time.Since(start), savePause)
		if err != nil {
			h.opts.Logger.Error("progress could not be saved: messages may be delivered twice after a crash", slog.Any("err", err))
			select {
			case <-ctx.Done():
				return
			case <-time.After(savePause):
			}
		}
		if more {
			wake(h.changed)
		}
	}
}

// saveCursors saves pending progress, and reports whether there is more.
func (h *Hub) saveCursors() (more bool, err error) {
	h.mu.Lock()
	n := min(len(h.dirty), saveCursor)
	batch, removing := h.dirty[:n:n], h.removing
	h.dirty, h.removing = h.dirty[n:], map[hubstore.Key]bool{}
	if len(h.dirty) == 0 {
		h.dirty = nil
	}
	c := hubstore.Changes{Progress: make(map[hubstore.Key]hubstore.Progress, n)}
	for _, s := range batch {
		s.dirty = false
		if s.stage != gone {
			c.Progress[s.Key] = s.Progress
		}
	}
	for k := range removing {
		c.Remove = append(c.Remove, k)
	}
	more = len(h.dirty) > 0
	if len(c.Progress) == 0 && len(c.Remove) == 0 {
		h.mu.Unlock()
		return more, nil
	}
	saving := h.enter(c) // here, so that whatever is entered later is written later
	h.mu.Unlock()
	if saving == nil {
		return false, ErrNotReady
	}
	<-saving.done
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, s := range batch {
		p, ok := c.Progress[s.Key]
		switch {
		case !ok:
		case saving.err != nil:
			h.note(s)
		default:
			s.saved = min(p.Cursor, s.Progress.Cursor) // it may have been replayed meanwhile
		}
	}
	for k := range removing {
		if saving.err != nil && h.registry.find(k) == nil {
			h.removing[k] = true
		}
	}
	return more || saving.err != nil, saving.err
}

// wake sends to c unless a value is already waiting there.
func wake(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default: // the receiver will wake anyway
	}
}
