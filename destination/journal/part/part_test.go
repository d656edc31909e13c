package part_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"lockstep/destination/journal"
	"lockstep/destination/journal/part"
	"lockstep/destination/journaltest"
)

func TestPart(t *testing.T) {
	t.Parallel()
	journaltest.RunPart(t, func(*testing.T) part.Whole { return new(journal.Mem) })
}

// fill records something of every kind.
func fill(t *testing.T, j journal.Journal) {
	t.Helper()
	b := journal.Batch{Save: map[string][]byte{"counts": []byte("other"), "set/1": []byte("other")}}
	for _, uri := range []string{"a", "http://a/1", "http://a/2", "http://b/", "zzz"} {
		b.Put = append(b.Put, journal.Held{URI: uri, Path: "other", Sets: []int{1}})
		b.Owe = append(b.Owe, journal.Owed{Set: 1, URI: uri, Entry: []byte("other"), Cause: "other"}, journal.Owed{Set: 2, URI: uri, Cause: "other"})
	}
	if err := j.Record(t.Context(), b); err != nil {
		t.Fatal(err)
	}
}

// TestPartsApart: what happens to a part does not change another one, nor the documents of the
// whole, and parts with names that begin alike are not mixed.
func TestPartsApart(t *testing.T) {
	t.Parallel()
	whole := new(journal.Mem)
	if err := whole.Record(t.Context(), journal.Batch{Save: map[string][]byte{"counts": []byte("whole")}}); err != nil {
		t.Fatal(err)
	}
	one, other := part.Of(whole, "a"), part.Of(whole, "a/b")
	fill(t, one)
	fill(t, other)
	before := contents(t, other)
	uris := []string{"a", "http://a/1", "http://a/2", "http://b/", "zzz"}
	b := journal.Batch{Drop: uris, Save: map[string][]byte{"counts": nil, "set/1": nil}}
	for _, uri := range uris {
		b.Settle = append(b.Settle, journal.Owed{Set: 1, URI: uri}, journal.Owed{Set: 2, URI: uri})
	}
	if err := one.Record(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	if left := contents(t, one); len(left) > 0 {
		t.Errorf("after all was removed, the part has %q", left)
	}
	if after := contents(t, other); !slices.Equal(after, before) || len(before) != 16 {
		t.Errorf("the other part has %q, and had %q", after, before)
	}
	if doc, err := whole.Load(t.Context(), "counts"); err != nil || string(doc) != "whole" {
		t.Errorf("the document of the whole is %q, %v", doc, err)
	}
}

// contents names all that is in a journal.
func contents(t *testing.T, j journal.Journal) (all []string) {
	t.Helper()
	for h, err := range j.Held(t.Context(), "", "") {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, "held "+h.URI)
	}
	for set := 1; set <= 2; set++ {
		for o, err := range j.Owed(t.Context(), set) {
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, "owed "+o.URI)
		}
	}
	if doc, err := j.Load(t.Context(), "counts"); err != nil {
		t.Fatal(err)
	} else if doc != nil {
		all = append(all, "counts")
	}
	return all
}

// TestNoVersions: what only mirrors write that keep versions is refused, not lost.
func TestNoVersions(t *testing.T) {
	t.Parallel()
	j := part.Of(new(journal.Mem), "a")
	for _, b := range []journal.Batch{
		{Past: []journal.Past{{Held: journal.Held{URI: "http://a/1"}, Seq: 1}}},
		{Forget: []journal.Past{{Held: journal.Held{URI: "http://a/1"}, Seq: 1}}},
		{Instant: journal.Instant{At: time.Now(), Seq: 1}},
		{Since: 2},
	} {
		if err := j.Record(context.Background(), b); err == nil {
			t.Errorf("%+v was recorded", b)
		}
	}
}
