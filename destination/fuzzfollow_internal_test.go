package destination

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"lockstep/destination/internal/desired"
	"lockstep/destination/internal/dispatch"
	"lockstep/destination/internal/saved"
	"lockstep/destination/internal/stage"
	"lockstep/destination/journal"
	"lockstep/resourcesync"
)

// FuzzNotification reads messages as they come: an error or wants, each with a
// place in its document, none of them foreign.
func FuzzNotification(f *testing.F) {
	const md = `<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9" xmlns:rs="http://www.openarchives.org/rs/terms/">`
	for _, s := range []string{
		"", "\n<?xml version=\"1.0\"?>" + md + `<rs:md capability="change-notification" from="2024-01-01T00:00:00Z" until="2024-01-02T00:00:00Z"/><url><loc>http://a.example/x</loc><rs:md change="deleted" datetime="2024-01-01T12:00:00Z"/></url></urlset>`,
		md + `<url><loc>http://b.example/x</loc><rs:md change="created"/></url></urlset>`, "<html>", "\x1f\x8b",
	} {
		f.Add([]byte(s))
	}
	client, err := NewClient("http://a.example/", ClientOptions{})
	if err != nil {
		f.Fatal(err)
	}
	d, err := New(nil, &journal.Mem{}, client, Options{})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		r := &setReader{d: d, set: &setState{Set: saved.Set{URI: "http://a.example/capabilitylist.xml"}}, stage: stage.New(&journal.Mem{})}
		defer func() { _ = r.stage.Close(context.Background()) }()
		n, err := r.readNotification("http://a.example/changes", body)
		if err != nil {
			return
		}
		for i := range n.wants {
			if w := &n.wants[i]; w.Doc != n.doc || w.Refused != "" || dispatch.HostOf(w.URI) == "b.example" {
				t.Fatalf("%+v", w)
			}
		}
	})
}

// FuzzPushed reads what is remembered of notifications from the Journal.
func FuzzPushed(f *testing.F) {
	p := newPushState()
	docs := map[string][]byte{}
	p.expect(1, []pushNews{{keyOfResource("http://a.example/"), pushedEvent{at: resourcesync.NewDatetime(time.Unix(1, 2)), came: time.Unix(3, 0), gone: true}}}, docs)
	f.Add(docs[pushedName(1, 0)])
	f.Fuzz(func(t *testing.T, b []byte) {
		p := newPushState()
		if err := p.decodeEvents(b); err != nil {
			if !errors.Is(err, desired.ErrDamaged) {
				t.Fatal(err)
			}
			return
		}
		q := newPushState()
		docs := p.save(1)
		for name, doc := range docs {
			if strings.HasPrefix(name, docPushed) && doc != nil {
				if err := q.decodeEvents(doc); err != nil {
					t.Fatal(err)
				}
			}
		}
		for k, e := range p.events {
			if got := q.events[k]; got.at.Compare(e.at) != 0 || got.gone != e.gone || got.print != e.print {
				t.Fatalf("%+v became %+v", e, got)
			}
		}
	})
}

// TestDoubt holds what was notified against what the Source's documents say.
func TestDoubt(t *testing.T) {
	t.Parallel()
	at := func(s int) resourcesync.Datetime { return resourcesync.NewDatetime(time.Unix(int64(1000+s), 1)) }
	now := time.Unix(50_000, 0)
	for _, tt := range []struct {
		name     string
		event    pushedEvent
		seen     int // of a document that tells of the resource; zero: none does
		gone     bool
		changes  bool // there is a Change List
		compared bool
		doubtful int
		kept     bool
	}{
		{"told of", pushedEvent{at: at(3), came: now}, 3, false, true, false, 0, false},
		{"a later one is told of", pushedEvent{at: at(3), gone: true, came: now}, 4, false, true, false, 0, false},
		{"another is told of at that time", pushedEvent{at: at(3), gone: true, came: now}, 3, false, true, false, 1, true},
		{"an earlier one is told of", pushedEvent{at: at(3), came: now}, 2, false, true, false, 1, true},
		{"not told of", pushedEvent{at: at(3), came: now}, 0, false, true, false, 1, true},
		{"not told of, but compared", pushedEvent{at: at(3), came: now}, 0, false, true, true, 0, false},
		{"the documents lag", pushedEvent{at: at(8), came: now}, 0, false, true, false, 0, true},
		{"the documents lag for long", pushedEvent{at: at(8), came: now.Add(-2 * time.Hour)}, 0, false, true, false, 1, false},
		{"the Resource List is old", pushedEvent{at: at(8), came: now.Add(-2 * time.Hour)}, 0, false, false, false, 0, true},
	} {
		const uri = "http://a.example/x"
		st := &setState{Set: saved.Set{Watermark: at(5).Time()}}
		if tt.changes {
			st.Changes = "http://a.example/changelist.xml"
		}
		p := newPushState()
		tt.event.guard = tt.event.at
		p.events[keyOfResource(uri)], p.Deleted = tt.event, 3
		if tt.seen > 0 {
			p.saw(uri, at(tt.seen), tt.gone)
		}
		if newer := p.isNewer(uri, at(5)); newer != (tt.event.at.Compare(at(5)) > 0) {
			t.Errorf("%s: newer than the documents: %v", tt.name, newer)
		}
		if got, lies := p.pulled(st, now, tt.compared); got != tt.doubtful || lies != 0 || (len(p.events) > 0) != tt.kept || p.Deleted != 0 {
			t.Errorf("%s: %d doubtful, kept: %v, want %d, %v", tt.name, got, len(p.events) > 0, tt.doubtful, tt.kept)
		}
	}
}
