package push

import (
	"errors"
	"strings"
	"testing"
	"time"

	"lockstep/destination/internal/desired"
	"lockstep/destination/internal/saved"
	"lockstep/resourcesync"
)

// FuzzPushed reads the notifications recorded in the Journal.
func FuzzPushed(f *testing.F) {
	p := newState()
	docs := map[string][]byte{}
	p.Expect(1, []Announced{{KeyOf("http://a.example/"), Event{At: resourcesync.NewDatetime(time.Unix(1, 2)), Came: time.Unix(3, 0), Gone: true}}}, docs)
	f.Add(docs[pushedName(1, 0)])
	f.Fuzz(func(t *testing.T, b []byte) {
		p := newState()
		if err := p.decodeEvents(b); err != nil {
			if !errors.Is(err, desired.ErrDamaged) {
				t.Fatal(err)
			}
			return
		}
		q := newState()
		docs := p.Save(1)
		for name, doc := range docs {
			if strings.HasPrefix(name, docPushed) && doc != nil {
				if err := q.decodeEvents(doc); err != nil {
					t.Fatal(err)
				}
			}
		}
		for k, e := range p.events {
			if got := q.events[k]; got.At.Compare(e.At) != 0 || got.Gone != e.Gone || got.Fingerprint != e.Fingerprint {
				t.Fatalf("%+v became %+v", e, got)
			}
		}
	})
}

// TestDoubt compares notifications with the Source's documents.
func TestDoubt(t *testing.T) {
	t.Parallel()
	at := func(s int) resourcesync.Datetime { return resourcesync.NewDatetime(time.Unix(int64(1000+s), 1)) }
	now := time.Unix(50_000, 0)
	for _, tt := range []struct {
		name     string
		event    Event
		seen     int // of a document that lists the resource; zero: none does
		gone     bool
		changes  bool // there is a Change List
		compared bool
		doubtful int
		kept     bool
	}{
		{"listed", Event{At: at(3), Came: now}, 3, false, true, false, 0, false},
		{"a later one is listed", Event{At: at(3), Gone: true, Came: now}, 4, false, true, false, 0, false},
		{"another is listed at that time", Event{At: at(3), Gone: true, Came: now}, 3, false, true, false, 1, true},
		{"an earlier one is listed", Event{At: at(3), Came: now}, 2, false, true, false, 1, true},
		{"not listed", Event{At: at(3), Came: now}, 0, false, true, false, 1, true},
		{"not listed, but compared", Event{At: at(3), Came: now}, 0, false, true, true, 0, false},
		{"the documents lag", Event{At: at(8), Came: now}, 0, false, true, false, 0, true},
		{"the documents lag for long", Event{At: at(8), Came: now.Add(-2 * time.Hour)}, 0, false, true, false, 1, false},
		{"the Resource List is old", Event{At: at(8), Came: now.Add(-2 * time.Hour)}, 0, false, false, false, 0, true},
	} {
		const uri = "http://a.example/x"
		st := &saved.Set{Watermark: at(5).Time()}
		if tt.changes {
			st.Changes = "http://a.example/changelist.xml"
		}
		p := newState()
		tt.event.guard = tt.event.At
		p.events[KeyOf(uri)], p.Deleted = tt.event, 3
		if tt.seen > 0 {
			p.Listed(uri, at(tt.seen), tt.gone)
		}
		if newer := p.IsNewer(uri, at(5)); newer != (tt.event.At.Compare(at(5)) > 0) {
			t.Errorf("%s: newer than the documents: %v", tt.name, newer)
		}
		if got, contradicted := p.Pulled(st, now, tt.compared); got != tt.doubtful || contradicted != 0 || (len(p.events) > 0) != tt.kept || p.Deleted != 0 {
			t.Errorf("%s: %d doubtful, kept: %v, want %d, %v", tt.name, got, len(p.events) > 0, tt.doubtful, tt.kept)
		}
	}
}
