// Package catalogtest is the conformance suite of [catalog.Catalog].
//
//	func TestCatalog(t *testing.T) {
//		catalogtest.Run(t, func(t *testing.T) catalog.Catalog { return open(t) })
//	}
package catalogtest

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"lockstep/catalog"
	"lockstep/resourcesync"
)

// Run tests the catalogs that open returns. Each must be new and empty; open
// must arrange for it to be closed.
func Run(t *testing.T, open func(*testing.T) catalog.Catalog) {
	tests := []struct {
		name string
		test func(*testing.T, catalog.Catalog)
	}{
		{"Fields", testFields},
		{"Order", testOrder},
		{"Split", testSplit},
		{"Outcomes", testOutcomes},
		{"Refresh", testRefresh},
		{"Refreshed", testRefreshed},
		{"Mementos", testMementos},
		{"History", testHistory},
		{"Forget", testForget},
		{"Sets", testSets},
		{"Names", testNames},
		{"Batches", testBatches},
		{"Snapshot", testSnapshot},
		{"Break", testBreak},
		{"Cancel", testCancel},
		{"Concurrent", testConcurrent},
		{"Ownership", testOwnership},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			tt.test(t, open(t))
		})
	}
	t.Run("Model", func(t *testing.T) {
		t.Parallel()
		testModel(t, open(t))
	})
}

const set = "https://example.org/resourcesync/main/capabilitylist.xml"

func testFields(t *testing.T, c catalog.Catalog) {
	records := []catalog.Record{
		{URI: "a", Length: -1},
		{URI: "b", Lastmod: time.Unix(0, 0).UTC(), Length: 0},
		{URI: "c", Lastmod: time.Date(1907, 3, 4, 5, 6, 7, 89_000, time.UTC), Length: math.MaxInt64},
		{URI: "d", Lastmod: time.Date(2024, 2, 29, 23, 59, 59, 999_999_999, time.FixedZone("", 7200)), Length: 1},
		{URI: "e", Length: 7, Type: "text/html; charset=utf-8", Encoding: "gzip", Token: "any \x00\xff bytes", Hashes: resourcesync.Hashes{
			{Algorithm: resourcesync.SHA256, Digest: strings.Repeat("\x00\xfe", 16)},
			{Algorithm: resourcesync.MD5, Digest: strings.Repeat("\n", 16)}}},
		{URI: "f", Length: 9, Hashes: resourcesync.Hashes{{Algorithm: resourcesync.MD5, Digest: "1"}}, Links: []resourcesync.Link{
			{Rel: "duplicate", Href: "https://mirror.example.org/f", Pri: 2},
			{Rel: "via", Href: "https://origin.example.org/f", Type: "text/plain", Encoding: "gzip", Length: 0, HasLength: true,
				Modified: resourcesync.NewDatetime(time.Date(2020, 1, 2, 3, 4, 5, 0, time.UTC)),
				Hashes:   resourcesync.Hashes{{Algorithm: resourcesync.SHA1, Digest: strings.Repeat("\x00", 20)}}}}},
		{URI: "g", Length: 1, Foreign: foreign(t, foreignText)},
		{URI: "h", Length: 1, Foreign: foreign(t, foreignText), Links: []resourcesync.Link{
			{Rel: "via", Href: "urn:a"}, {Rel: "via", Href: "urn:b", Foreign: foreign(t, `<foreign xmlns:x="urn:x" x:a="2"/>`)}}},
		{URI: strings.Repeat("long/", 4000), Length: 8, Token: strings.Repeat("t", 70_000)},
	}
	mark(t, c)
	var updates []catalog.Update
	for _, r := range records {
		updates = append(updates, catalog.Update{Record: r})
	}
	apply(t, c, catalog.Applied{Created: len(records)}, updates...)
	for i := range records {
		records[i].Lastmod = records[i].Lastmod.Truncate(time.Microsecond).UTC()
		records[i].Seq = catalog.Seq(i + 1)
	}
	var changed []catalog.Record
	for _, ch := range changes(t, c, 0) {
		if ch.Change != resourcesync.Created {
			t.Errorf("change %d is %v, want created", ch.Seq, ch.Change)
		}
		changed = append(changed, ch.Record)
	}
	for name, got := range map[string][]catalog.Record{"Resources": resources(t, c, catalog.Range{}), "Changes": changed} {
		for i := range got {
			if e := got[i].EventTime; e.IsZero() || e.Location() != time.UTC || !e.Equal(e.Truncate(time.Microsecond)) {
				t.Errorf("%s: event time %v, want microseconds in UTC", name, e)
			}
			got[i].EventTime = time.Time{}
		}
		if diff := cmp.Diff(records, got, sameInstant); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

const foreignText = `<foreign xmlns:x="urn:x" x:a="1"><x:b xmlns:x="urn:x">c</x:b></foreign>`

func foreign(t *testing.T, text string) resourcesync.Foreign {
	t.Helper()
	f, err := resourcesync.ParseForeign(text)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

var sameInstant = cmp.Comparer(func(a, b resourcesync.Datetime) bool { return a.Compare(b) == 0 })

// odd are URIs in the order of their bytes.
var odd = []string{
	"\x01", " ", "%2F", "A", "A/", "A/b", "B", "Z", "_", "a", "a/", "a/b", "a0", "aa", "b", "e\u0301", "~",
	"\x7f", "\x80", "\xc3(", "é", "日本", "\xed\xa0\x80", "\uffff", "\U0001f4da", "\xfe", "\xff", "\xff\xff",
}

func testOrder(t *testing.T, c catalog.Catalog) {
	for i := range odd { // one by one, in no order
		apply(t, c, catalog.Applied{Created: 1}, put(odd[i*11%len(odd)], "1"))
	}
	if got := uris(t, c, catalog.Range{}); !slices.Equal(got, odd) {
		t.Fatalf("Resources = %q, want %q", got, odd)
	}
	for i, uri := range odd {
		if r, ok, err := catalog.Find(t.Context(), c, set, uri); err != nil || !ok || r.URI != uri {
			t.Fatalf("Find(%q) = %q, %v, %v", uri, r.URI, ok, err)
		}
		for j := range odd {
			r := catalog.Range{From: odd[i], To: odd[j]}
			if got, want := uris(t, c, r), odd[i:max(i, j)]; !slices.Equal(got, want) {
				t.Fatalf("Resources(%q) = %q, want %q", r, got, want)
			}
		}
		if got := uris(t, c, catalog.Range{From: odd[i] + "\x01"}); len(got) != len(odd)-i-1 && odd[i] != " " {
			t.Fatalf("Resources from beyond %q are %d, want %d", odd[i], len(got), len(odd)-i-1)
		}
		if got := uris(t, c, catalog.Range{To: odd[i]}); !slices.Equal(got, odd[:i]) {
			t.Fatalf("Resources to %q = %q, want %q", odd[i], got, odd[:i])
		}
	}
	apply(t, c, catalog.Applied{Deleted: len(odd) / 2}, gone(odd[:len(odd)/2]...)...)
	if got, want := uris(t, c, catalog.Range{}), odd[len(odd)/2:]; !slices.Equal(got, want) {
		t.Fatalf("Resources after deletions = %q, want %q", got, want)
	}
	for _, uri := range []string{"", odd[0], odd[len(odd)-1] + "\x01"} {
		if r, ok, err := catalog.Find(t.Context(), c, set, uri); err != nil || ok {
			t.Fatalf("Find(%q), which is not there, = %q, %v, %v", uri, r.URI, ok, err)
		}
	}
}

func testSplit(t *testing.T, c catalog.Catalog) {
	split := func(n int) []string { return collect(t, c.Split(t.Context(), set, n)) }
	if got := split(1); len(got) > 0 {
		t.Errorf("Split of nothing = %q", got)
	}
	var all []string
	var updates []catalog.Update
	for i := range 100 {
		all = append(all, fmt.Sprintf("u%02d", i))
		updates = append(updates, put(all[i], "1"))
	}
	apply(t, c, catalog.Applied{Created: 100}, updates...)
	for _, n := range []int{1, 2, 7, 50, 99, 100, 101, math.MaxInt32} {
		bounds := split(n)
		var whole []string
		for i := range len(bounds) + 1 {
			var r catalog.Range
			if i > 0 {
				r.From = bounds[i-1]
			}
			if i < len(bounds) {
				r.To = bounds[i]
			}
			run := uris(t, c, r)
			if i < len(bounds) && len(run) != n || len(run) > n {
				t.Errorf("Split(%d): run %d has %d resources", n, i, len(run))
			}
			whole = append(whole, run...)
		}
		if !slices.Equal(whole, all) {
			t.Errorf("Split(%d): the runs do not make the whole", n)
		}
	}
	for range c.Split(t.Context(), set, 1) {
		break
	}
	for _, err := range c.Split(t.Context(), set, 0) {
		if err == nil {
			t.Error("Split(0) succeeds")
		}
	}
}

// Helpers.

func put(uri, hash string) catalog.Update {
	return catalog.Update{Record: catalog.Record{URI: uri, Length: 1, Hashes: resourcesync.Hashes{{Algorithm: resourcesync.MD5, Digest: hash}}}}
}

func gone(uris ...string) []catalog.Update {
	var updates []catalog.Update
	for _, uri := range uris {
		updates = append(updates, catalog.Update{Record: catalog.Record{URI: uri}, Deleted: true})
	}
	return updates
}

func apply(t testing.TB, c catalog.Catalog, want catalog.Applied, updates ...catalog.Update) {
	t.Helper()
	got, err := c.Apply(context.Background(), set, updates)
	if err != nil {
		t.Fatal(err)
	}
	if got != want {
		t.Fatalf("Apply = %+v, want %+v", got, want)
	}
}

func mark(t testing.TB, c catalog.Catalog) catalog.Mark {
	t.Helper()
	m, err := c.Mark(context.Background(), set)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func status(t testing.TB, c catalog.Catalog) catalog.Status {
	t.Helper()
	s, err := c.Status(context.Background(), set)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func collect[T any](t testing.TB, seq iter.Seq2[T, error]) []T {
	t.Helper()
	var all []T
	for v, err := range seq {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, v)
	}
	return all
}

func resources(t testing.TB, c catalog.Catalog, r catalog.Range) []catalog.Record {
	t.Helper()
	return collect(t, c.Resources(context.Background(), set, r))
}

func uris(t testing.TB, c catalog.Catalog, r catalog.Range) []string {
	t.Helper()
	var all []string
	for _, rec := range resources(t, c, r) {
		all = append(all, rec.URI)
	}
	return all
}

func changes(t testing.TB, c catalog.Catalog, after catalog.Seq) []catalog.Change {
	t.Helper()
	return collect(t, c.Changes(context.Background(), set, after))
}

func failed[T any](seq iter.Seq2[T, error], want error) error {
	n := 0
	for _, err := range seq {
		if n++; !errors.Is(err, want) {
			return fmt.Errorf("yields %v, want %w", err, want)
		}
	}
	if n != 1 {
		return fmt.Errorf("yields %d times, want once", n)
	}
	return nil
}
