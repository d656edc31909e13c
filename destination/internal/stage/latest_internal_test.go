package stage

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"lockstep/destination/internal/desired"
	"lockstep/destination/internal/scratch"
	"lockstep/resourcesync"
)

// TestLatest stages changes with and without those that it omits: the last entries
// are the same, whatever the order, links, lists without datetimes, and ends.
func TestLatest(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var full, some Stage
		for _, s := range []*Stage{&full, &some} {
			s.Sorter = new(scratch.Room).Sorter()
			s.Since = resourcesync.NewDatetime(time.Unix(3, 0))
			if rapid.Bool().Draw(t, "ends") && s == &full {
				s.Until = resourcesync.NewDatetime(time.Unix(7, 0))
			}
		}
		some.Until = full.Until
		l := NewLatest(full.Until)
		for doc := range rapid.IntRange(1, 4).Draw(t, "documents") {
			dated := rapid.Bool().Draw(t, "dated")
			for _, s := range []*Stage{&full, &some} {
				s.AddDocument()
				s.Documents[doc].Dated = dated
			}
			for pos := range rapid.IntRange(0, 8).Draw(t, "changes") {
				at := resourcesync.NewDatetime(time.Unix(rapid.Int64Range(1, 9).Draw(t, "at"), 0))
				w := desired.Resource{URI: fmt.Sprint("u", rapid.IntRange(0, 3).Draw(t, "uri")), Change: resourcesync.Updated, Length: int64(doc*100 + pos),
					Rank: desired.Rank{Class: desired.Changed, Doc: doc, Pos: int64(pos), Modified: at}}
				var e resourcesync.Entry
				if dated {
					w.Event, e.Datetime = at, at
				}
				if rapid.IntRange(0, 3).Draw(t, "link") == 0 {
					w.Links = []resourcesync.Link{{Rel: resourcesync.RelPatch, Href: "http://h/p"}}
				}
				check(t, full.Add(t.Context(), w))
				if !l.Has(&w, &e) {
					check(t, some.Add(t.Context(), w))
				}
			}
		}
		if got, want := words(t, &some), words(t, &full); got != want {
			t.Fatalf("last words %s, want %s", got, want)
		}
	})
}

func check(t *rapid.T, err error) {
	if err != nil {
		t.Fatal(err)
	}
}

// words returns the last entries of a stage.
func words(t *rapid.T, s *Stage) (text string) {
	for w, err := range s.Resources(t.Context()) {
		check(t, err)
		text += fmt.Sprintf("%s=%d,%d ", w.URI, w.Length, len(w.Patches))
	}
	return text
}

// TestLatestFull has more resources than are remembered: the others are staged,
// each time.
func TestLatestFull(t *testing.T) {
	t.Parallel()
	l := NewLatest(resourcesync.Datetime{})
	say := func(i, at int) bool {
		e := resourcesync.Entry{Metadata: resourcesync.Metadata{Datetime: resourcesync.NewDatetime(time.Unix(int64(at), 0))}}
		return l.Has(&desired.Resource{URI: fmt.Sprint(i)}, &e)
	}
	const many = maxLatest * 5 / 4
	left := 0
	for i := range many {
		if say(i, 2) {
			t.Fatalf("resource %d is left out, though nothing is known of it", i)
		}
	}
	for i := range many {
		if say(i, 1) {
			left++
		}
	}
	if left == 0 || left > maxLatest {
		t.Errorf("%d of %d are left out, want some, %d at most", left, many, maxLatest)
	}
}
