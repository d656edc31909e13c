package catalogtest

import (
	"context"
	"fmt"
	"sort"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"lockstep/catalog"
	"lockstep/resourcesync"
)

// A model is a simple implementation of a set, without regard to speed.
type model struct {
	now     map[string]catalog.Record
	changes []catalog.Change
	last    catalog.Seq
	marked  bool
	kept    catalog.Seq
}

func (m *model) apply(updates []catalog.Update) catalog.Applied {
	var a catalog.Applied
	for _, u := range updates {
		old, is := m.now[u.URI]
		switch {
		case u.Deleted && !is:
			a.Unchanged++
		case u.Deleted:
			a.Deleted++
			delete(m.now, u.URI)
			m.record(catalog.Record{URI: u.URI}, resourcesync.Deleted)
		case is && sameInWords(old) == sameInWords(u.Record):
			a.Unchanged++
			old.Token, old.Lastmod = u.Token, u.Lastmod
			m.now[u.URI] = old
		default:
			kind := resourcesync.Created
			if is {
				kind = resourcesync.Updated
				a.Updated++
			} else {
				a.Created++
			}
			m.now[u.URI] = m.record(u.Record, kind)
		}
	}
	return a
}

func (m *model) record(r catalog.Record, kind resourcesync.Change) catalog.Record {
	m.last++
	r.Seq = m.last
	if m.marked {
		m.changes = append(m.changes, catalog.Change{Record: r, Change: kind})
	}
	return r
}

func sameInWords(r catalog.Record) string {
	var hashes []string
	for _, h := range r.Hashes {
		hashes = append(hashes, fmt.Sprintf("%d:%x", h.Algorithm, h.Digest))
	}
	sort.Strings(hashes)
	s := fmt.Sprint(r.Length, "|", r.Type, "|", r.Encoding, "|", hashes)
	if len(hashes) == 0 {
		s += r.Lastmod.String()
	}
	return s
}

// testModel drives the catalog and the model with the same random history.
func testModel(t *testing.T, c catalog.Catalog) {
	round := 0
	uri := rapid.OneOf(rapid.SampledFrom(odd), rapid.StringMatching(`[a-c]{1,3}`))
	update := rapid.Custom(func(t *rapid.T) catalog.Update {
		if rapid.IntRange(0, 3).Draw(t, "deleted") == 0 {
			return catalog.Update{Record: catalog.Record{URI: uri.Draw(t, "uri")}, Deleted: true}
		}
		var hashes resourcesync.Hashes
		for i := range rapid.IntRange(0, 2).Draw(t, "hashes") {
			hashes = append(hashes, resourcesync.Hash{Algorithm: resourcesync.MD5 + resourcesync.Algorithm(i), Digest: rapid.SampledFrom([]string{"1", "2"}).Draw(t, "digest")})
		}
		return catalog.Update{Record: catalog.Record{
			URI:     uri.Draw(t, "uri"),
			Lastmod: time.Unix(rapid.Int64Range(0, 1).Draw(t, "lastmod"), 0).UTC(),
			Length:  rapid.Int64Range(-1, 0).Draw(t, "length"),
			Type:    rapid.SampledFrom([]string{"", "text/plain"}).Draw(t, "type"),
			Hashes:  hashes,
			Token:   rapid.SampledFrom([]string{"", "t"}).Draw(t, "token"),
		}}
	})
	rapid.Check(t, func(t *rapid.T) {
		round++
		d := &driven{c: c, set: fmt.Sprintf("set %d", round), model: model{now: make(map[string]catalog.Record)}}
		for range rapid.IntRange(1, 10).Draw(t, "steps") {
			switch step := rapid.IntRange(0, 5).Draw(t, "step"); {
			case step < 4:
				d.apply(t, rapid.SliceOfN(update, 0, 12).Draw(t, "updates"))
			case step < 5 || len(d.marks) == 0:
				d.mark(t)
			default:
				d.forget(t, rapid.SampledFrom(d.marks).Draw(t, "mark"))
			}
		}
		d.check(t)
	})
}

// A driven is a catalog's set beside its model.
type driven struct {
	c     catalog.Catalog
	set   string
	model model
	marks []catalog.Mark
}

func (d *driven) apply(t *rapid.T, updates []catalog.Update) {
	got, err := d.c.Apply(context.Background(), d.set, updates)
	if want := d.model.apply(updates); err != nil || got != want {
		t.Fatalf("Apply = %+v, %v, want %+v", got, err, want)
	}
}

func (d *driven) mark(t *rapid.T) {
	m, err := d.c.Mark(context.Background(), d.set)
	if err != nil || m.Seq != d.model.last {
		t.Fatalf("Mark = %v, %v, want change %d", m, err, d.model.last)
	}
	if !d.model.marked {
		d.model.marked, d.model.kept = true, m.Seq
	}
	d.marks = append(d.marks, m)
}

func (d *driven) forget(t *rapid.T, m catalog.Mark) {
	if err := d.c.Forget(context.Background(), d.set, m); err != nil {
		t.Fatal(err)
	}
	if m.Seq > d.model.kept {
		d.model.kept = m.Seq
		for len(d.model.changes) > 0 && d.model.changes[0].Seq <= m.Seq {
			d.model.changes = d.model.changes[1:]
		}
	}
}

func (d *driven) check(t *rapid.T) {
	ctx := context.Background()
	times := make(map[catalog.Seq]time.Time)
	var got []catalog.Change
	for ch, err := range d.c.Changes(ctx, d.set, 0) {
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range d.marks {
			if ch.Seq > m.Seq != ch.EventTime.After(m.At) {
				t.Fatalf("change %d at %v on the wrong side of %v", ch.Seq, ch.EventTime, m)
			}
		}
		times[ch.Seq] = ch.EventTime
		ch.EventTime = time.Time{}
		got = append(got, ch)
	}
	if len(got)+len(d.model.changes) > 0 {
		if diff := cmp.Diff(d.model.changes, got); diff != "" {
			t.Fatalf("Changes (-want +got):\n%s", diff)
		}
	}
	var want, now []catalog.Record
	for _, r := range d.model.now {
		want = append(want, r)
	}
	sort.Slice(want, func(i, j int) bool { return want[i].URI < want[j].URI })
	for r, err := range d.c.Resources(ctx, d.set, catalog.Range{}) {
		if err != nil {
			t.Fatal(err)
		}
		if at, ok := times[r.Seq]; ok && !at.Equal(r.EventTime) {
			t.Fatalf("change %d of %q at %v, in Changes at %v", r.Seq, r.URI, r.EventTime, at)
		}
		r.EventTime = time.Time{}
		now = append(now, r)
	}
	if diff := cmp.Diff(want, now); diff != "" {
		t.Fatalf("Resources (-want +got):\n%s", diff)
	}
	s, err := d.c.Status(ctx, d.set)
	if err != nil || s.Resources != int64(len(want)) || s.Last != d.model.last || s.Kept.Seq != d.model.kept || s.Kept.At.IsZero() == d.model.marked {
		t.Fatalf("Status = %+v, %v, want %d resources, change %d, kept from %d", s, err, len(want), d.model.last, d.model.kept)
	}
}
