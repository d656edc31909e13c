package run

import (
	"time"

	"lockstep/destination/internal/entries"
	"lockstep/destination/internal/saved"
	"lockstep/resourcesync"
)

// advance moves the watermark to the end of what was read. It is never taken
// from the local clock (RS-DST-27).
func (r *Run) advance(c *entries.Chain, since resourcesync.Datetime) {
	st := r.Set
	st.Watermark = saved.Time(reached(c, since))
	st.Ahead = st.Watermark.After(time.Now().Add(entries.MaxTrustedSkew))
	if st.Found != nil {
		st.Doubts = *st.Found
	}
	if c.Other {
		if st.Polled == nil {
			st.Polled = map[string]saved.Validators{}
		}
		delete(st.Polled, st.ChangeDump)
		if v, ok := c.Polled[st.ChangeDump]; ok && len(c.Open) == 0 {
			st.Polled[st.ChangeDump] = v
		}
		return
	}
	if c.Unchanged {
		return
	}
	st.Polled, st.Open, st.Parts = c.Polled, c.Open, c.Parts
	if st.Appends = st.Appends || c.Grew; c.Grew {
		st.Rewrites = 0
	}
	if t := saved.Time(c.History); !t.IsZero() {
		st.History = t
	}
	if c.Cursor.Prefix != "" {
		st.Cursor = c.Cursor
	}
	switch newest := saved.Time(c.Newest); {
	case newest.IsZero() && !c.Lost, newest.Before(st.SeenTime) && !c.Lost:
	case newest.Equal(st.SeenTime) && !c.Lost:
		st.Seen = entries.Union(st.Seen, c.Seen) // not all lists were read again
	default:
		st.SeenTime, st.Seen = newest, c.Seen
	}
	if st.Lists == "" {
		st.Complete, st.Selection, st.Restored = true, r.Selection, false
	}
}

// reached returns the instant up to which c contains all changes, if everything
// before since was applied.
func reached(c *entries.Chain, since resourcesync.Datetime) resourcesync.Datetime {
	w := later(since, c.Newest)
	if c.Until.Time().Before(time.Now()) { // RS-AMB-25: an end in the future is read again
		w = later(w, c.Until) // RS-DST-24
	}
	if w.IsZero() {
		w = later(w, c.From)
	}
	return w
}

// later returns the later of two times.
func later(a, b resourcesync.Datetime) resourcesync.Datetime {
	if b.Compare(a) > 0 {
		return b
	}
	return a
}
