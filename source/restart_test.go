package source_test

import (
	"testing"
	"time"

	"lockstep/source"
)

// Documents of another state of the catalog, whose clock was ahead: by its numbers
// the catalog continues what is published, by its times it does not.
func TestAnEventBeforeFromRestartsTheHistory(t *testing.T) {
	t.Parallel()
	for name, rotate := range map[string]time.Duration{"one document": 0, "parts": time.Minute} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := source.Options{Sets: []source.Set{{ChangeList: source.ChangeList{Rotate: rotate}}}}
			ahead := newWorld(t, o)
			ahead.pass(5 * time.Hour)
			for _, word := range []string{"a=1", "b=1", "c=1"} {
				ahead.put(word)
			}
			ahead.publish(ahead.source())

			w := newWorld(t, o)
			w.docs = ahead.docs
			for _, word := range []string{"a=1", "b=1", "c=1"} {
				w.put(word)
			}
			w.publish(w.source())
			s := w.source()
			for _, word := range []string{"a=2", "d=1", "b"} {
				w.pass(time.Hour)
				w.put(word)
				w.publish(s)
				w.upToDate()
			}
			w.publish(w.source())
			w.upToDate()
		})
	}
}

func TestRestartOptionRestartsTheHistoryOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t, source.Options{})
	w.put("a=1")
	w.publish(w.source())
	w.put("b=1")
	w.publish(w.source())
	w.pass(time.Hour)
	w.opts.Restart = true
	s := w.source()
	w.publish(s)
	if c := w.upToDate(); len(c.events) != 0 || c.from.Before(w.now()) {
		t.Errorf("after the restart: Change List from %s with %d events, want an empty one from %s", c.from, len(c.events), w.now())
	}
	w.put("c=1")
	w.publish(s)
	if c := w.upToDate(); len(c.events) != 1 {
		t.Errorf("after a change: %d events, want 1: the history restarts once", len(c.events))
	}
}
