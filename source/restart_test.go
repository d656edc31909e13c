package source_test

import (
	"strings"
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

// A Change List began where the catalog, which was restored from an older copy, had no
// mark yet, or other changes.
func TestOlderCatalogThanTheHistory(t *testing.T) {
	t.Parallel()
	for name, words := range map[string][]string{"same changes": {"a=1", "b=1", "c=1"}, "other changes": {"a=1", "b=2", "d=1"}, "other changes, one more": {"a=1", "b=2", "d=1", "e=1"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			newer, w := newWorld(t, source.Options{}), newWorld(t, source.Options{})
			for _, w := range []*world{newer, w} {
				w.publish(w.source())
				w.pass(time.Minute)
			}
			for _, word := range []string{"a=1", "b=1", "c=1"} {
				newer.put(word)
				newer.pass(time.Minute)
			}
			newer.pass(time.Hour)
			newer.opts.Restart = true
			newer.publish(newer.source())

			w.docs = newer.docs
			if !strings.HasPrefix(name, "same") {
				w.pass(time.Second)
			}
			for _, word := range words {
				w.put(word)
				w.pass(time.Minute)
			}
			w.pass(2 * time.Hour)
			s := w.source()
			w.publish(s)
			w.upToDate()
			w.put("f=1")
			w.publish(s)
			w.upToDate()
		})
	}
}
