// Package journaltest is what every [journal.Journal] passes.
package journaltest

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"lockstep/destination/journal"
	"lockstep/resourcesync"
)

// A test is one of a Journal that is empty.
type test struct {
	name string
	test func(*testing.T, journal.Journal)
}

// Run tests the Journals that open returns, each of them empty.
func Run(t *testing.T, open func(t *testing.T) journal.Journal) {
	RunPresent(t, open)
	run(t, open, []test{
		{"past", testPast},
		{"past in order", testPastOrder},
		{"instants", testInstants},
	})
}

// RunPresent tests Journals of mirrors that keep no versions.
func RunPresent(t *testing.T, open func(t *testing.T) journal.Journal) {
	run(t, open, []test{
		{"documents", testDocuments},
		{"held", testHeld},
		{"held in order", testHeldOrder},
		{"held changes while it is read", testHeldMoving},
		{"files", testFiles},
		{"owed", testOwed},
		{"all or nothing", testAtomic},
		{"canceled", testCanceled},
		{"concurrent", testConcurrent},
		{"ownership", testOwnership},
	})
}

func run(t *testing.T, open func(t *testing.T) journal.Journal, tests []test) {
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			tt.test(t, open(t))
		})
	}
}

// Reopen tests that a Journal remembers across Close: open opens the same one
// each time, after the one before was closed by close.
func Reopen(t *testing.T, open func() journal.Journal, close func()) {
	b := journal.Batch{
		Put:  []journal.Held{held("http://a/1", 1), {URI: "http://a/2", Path: "2"}},
		Owe:  []journal.Owed{{Set: 1, URI: "http://a/3", Entry: []byte("e"), Cause: "status 500"}},
		Save: map[string][]byte{"set/1": []byte("state")},
		Past: []journal.Past{past("http://a/1", 3, 1)}, Instant: journal.Instant{At: time.UnixMicro(5).UTC(), Seq: 3, Note: []byte("n")},
	}
	record(t, open(), b)
	close()
	j := open()
	defer close()
	same(t, "Held", collect(t, j.Held(t.Context(), "", "")), b.Put)
	same(t, "Owed", collect(t, j.Owed(t.Context(), 1)), b.Owe)
	same(t, "Load", load(t, j, "set/1"), []byte("state"))
	same(t, "Past", collect(t, j.Past(t.Context(), "", "", 0)), b.Past)
	same(t, "Instant", instant(t, j, time.Now()), b.Instant)
}

// held returns a Held with every field set.
func held(uri string, sets ...int) journal.Held {
	return journal.Held{
		URI:     uri,
		Path:    "a/ü\xff/" + uri[len(uri)-1:],
		Length:  1 << 40,
		Lastmod: time.Date(2024, 5, 1, 2, 3, 4, 567891000, time.UTC),
		Hashes: resourcesync.Hashes{
			{Algorithm: resourcesync.MD5, Digest: "0123456789abcde\x00"},
			{Algorithm: resourcesync.SHA256, Digest: "\xff123456789abcdef0123456789abcdef"},
		},
		ETag:     `W/"x"`,
		Modified: "Wed, 01 May 2024 02:03:04 GMT",
		Sets:     sets,
		Written:  time.Date(2024, 5, 1, 2, 3, 5, 678912000, time.UTC),
		Tag:      "0123456789abcdef-7",
		Type:     "text/plain; charset=utf-8",
		Links: []resourcesync.Link{
			{Rel: resourcesync.RelDescribedBy, Href: uri + ".xml", Type: "application/xml", Modified: datetime("2024-05-01"), Length: 7, HasLength: true, Pri: 3},
			{Rel: "via", Href: "https://origin.example/\xff", Encoding: "gzip", Path: "/a", Modified: datetime("2024-05-01T02:03:04.567891Z"), Length: 1 << 40, HasLength: true,
				Hashes: resourcesync.Hashes{{Algorithm: resourcesync.MD5, Digest: "0123456789abcde\x00"}, {Algorithm: resourcesync.SHA256, Digest: "another"}}},
			{Rel: "collection", Href: "urn:c", Foreign: foreign(`<foreign xmlns:x="urn:x" x:a="1"/>`)}, {Rel: "urn:x", Href: "http"}, {Rel: "describes", Href: uri, Length: 0, HasLength: true},
		},
		Stated: &journal.Stated{Lastmod: datetime("2024-05-01T02:03:04.567891234Z"), Length: 5, Encoding: "gzip",
			Hashes:  resourcesync.Hashes{{Algorithm: resourcesync.SHA256, Digest: "\xff123456789abcdef0123456789abcdef"}},
			Foreign: foreign(`<foreign xmlns:x="urn:x" x:a="1"><x:b xmlns:x="urn:x">c</x:b></foreign>`)},
	}
}

func foreign(s string) resourcesync.Foreign {
	f, err := resourcesync.ParseForeign(s)
	if err != nil {
		panic(err)
	}
	return f
}

func datetime(s string) resourcesync.Datetime {
	d, err := resourcesync.ParseDatetime(s)
	if err != nil {
		panic(err)
	}
	return d
}

func testDocuments(t *testing.T, j journal.Journal) {
	same(t, "Load of an unknown name", load(t, j, "a"), nil)
	record(t, j, journal.Batch{Save: map[string][]byte{"a": []byte("1"), "b": []byte("\x00\xff"), "": []byte("root")}})
	same(t, "Load", load(t, j, "a"), []byte("1"))
	same(t, "Load", load(t, j, "b"), []byte("\x00\xff"))
	same(t, "Load", load(t, j, ""), []byte("root"))
	record(t, j, journal.Batch{Save: map[string][]byte{"a": nil, "b": []byte("2"), "never": nil}})
	same(t, "Load of a removed name", load(t, j, "a"), nil)
	same(t, "Load of a replaced name", load(t, j, "b"), []byte("2"))
}

func testHeld(t *testing.T, j journal.Journal) {
	a, b := held("http://a/1", 1), journal.Held{URI: "http://a/2", Path: "2"}
	record(t, j, journal.Batch{Put: []journal.Held{a, b}})
	same(t, "Lookup", lookup(t, j, "http://a/2", "http://a/none", "http://a/1", "http://a/2"),
		[]journal.Held{b, {}, a, b})
	a.Sets, a.Hashes, a.Lastmod, a.Length = []int{1, 300}, nil, time.Time{}, 0
	disputed := *a.Stated
	disputed.Others = []journal.Description{{Set: 2}, {Set: 300, Type: "text/x", Links: a.Links, Foreign: foreign(`<foreign xmlns:x="urn:x" x:a="2"/>`)}}
	c := a
	c.Stated = &disputed
	record(t, j, journal.Batch{Put: []journal.Held{c}})
	same(t, "Lookup of a resource of which sets say different things", lookup(t, j, "http://a/1"), []journal.Held{c})
	a.Type, a.Links, a.Stated = "", nil, &journal.Stated{Length: -1}
	record(t, j, journal.Batch{Put: []journal.Held{a}, Drop: []string{"http://a/2", "http://a/none"}})
	same(t, "Lookup", lookup(t, j, "http://a/1", "http://a/2"), []journal.Held{a, {}})
	a.Stated = nil // unknown, as in rows that an earlier version recorded
	record(t, j, journal.Batch{Put: []journal.Held{a}})
	same(t, "Lookup", lookup(t, j, "http://a/1"), []journal.Held{a})
	same(t, "Lookup of nothing", lookup(t, j), []journal.Held{})
}

func testHeldOrder(t *testing.T, j journal.Journal) {
	var want []journal.Held
	for i := range 2500 {
		want = append(want, held(fmt.Sprintf("http://a/%05d", i), 1))
	}
	for _, odd := range []string{"http://a/", "http://a/A", "http://a/a", "http://a/a b", "http://a/a/b", "http://a/é", "http://a/\U00010000", "http://a/\uffff"} {
		want = append(want, held(odd))
	}
	shuffled := slices.Clone(want)
	for i := range shuffled { // a fixed disorder
		k := i * 7919 % len(shuffled)
		shuffled[i], shuffled[k] = shuffled[k], shuffled[i]
	}
	for chunk := range slices.Chunk(shuffled, 333) {
		record(t, j, journal.Batch{Put: chunk})
	}
	slices.SortFunc(want, func(a, b journal.Held) int { return strings.Compare(a.URI, b.URI) })
	all := j.Held(t.Context(), "", "")
	same(t, "Held", collect(t, all), want)
	same(t, "Held, read again", collect(t, all), want)
	same(t, "Held from", collect(t, j.Held(t.Context(), want[1200].URI, "")), want[1200:])
	same(t, "Held from between", collect(t, j.Held(t.Context(), want[1200].URI+"\x00", "")), want[1201:])
	same(t, "Held from above", collect(t, j.Held(t.Context(), "i", "")), nil)
	for _, r := range [][2]int{{0, 0}, {0, 1}, {7, 1007}, {3, 1004}, {900, 2400}, {1, len(want) - 1}} {
		from, to := want[r[0]].URI, want[r[1]].URI
		same(t, fmt.Sprint("Held in ", r), collect(t, j.Held(t.Context(), from, to)), want[r[0]:r[1]])
		same(t, fmt.Sprint("Held below ", r[1]), collect(t, j.Held(t.Context(), "", to)), want[:r[1]])
	}
	same(t, "Held in a range upside down", collect(t, j.Held(t.Context(), want[9].URI, want[3].URI)), nil)
	uris := make([]string, len(want))
	for i := range want {
		uris[i] = want[i].URI
	}
	same(t, "Lookup of all", lookup(t, j, uris...), want)
	record(t, j, journal.Batch{Drop: uris[1:]})
	same(t, "Held after Drop", collect(t, j.Held(t.Context(), "", "")), want[:1])
}

func testHeldMoving(t *testing.T, j journal.Journal) {
	var b journal.Batch
	for i := range 3000 {
		b.Put = append(b.Put, journal.Held{URI: fmt.Sprintf("http://a/%05d", i), Path: "p"})
	}
	record(t, j, b)
	n, last := 0, ""
	for h, err := range j.Held(t.Context(), "", "") {
		if err != nil {
			t.Fatal(err)
		}
		if h.URI <= last {
			t.Fatalf("Held yields %q after %q", h.URI, last)
		}
		last = h.URI
		n++
		if n%500 == 0 { // behind the position
			record(t, j, journal.Batch{Drop: []string{h.URI}, Put: []journal.Held{{URI: "http://a/" + fmt.Sprint(n), Path: "q"}}})
		}
	}
	if n < 3000 {
		t.Errorf("Held yielded %d, want at least 3000", n)
	}
}

func testOwed(t *testing.T, j journal.Journal) {
	var all []journal.Owed
	for i := range 1500 {
		all = append(all, journal.Owed{Set: 1, URI: fmt.Sprintf("http://a/%04d", i), Entry: []byte{byte(i), 0}, Cause: "status 500"})
	}
	other := journal.Owed{Set: 2, URI: "http://a/0001", Entry: []byte("2"), Cause: "hash differs"}
	record(t, j, journal.Batch{Owe: append(slices.Clone(all), other)})
	same(t, "Owed", collect(t, j.Owed(t.Context(), 1)), all)
	all[7].Cause, all[7].Entry = "status 404", []byte("new")
	record(t, j, journal.Batch{Owe: all[7:8], Settle: []journal.Owed{{Set: 1, URI: "http://a/0001"}, {Set: 9, URI: "none"}}})
	same(t, "Owed", collect(t, j.Owed(t.Context(), 1)), append(all[:1:1], all[2:]...))
	same(t, "Owed to another set", collect(t, j.Owed(t.Context(), 2)), []journal.Owed{other})
	same(t, "Owed to no set", collect(t, j.Owed(t.Context(), 3)), nil)
}

func testAtomic(t *testing.T, j journal.Journal) {
	a := held("http://a/1", 1)
	record(t, j, journal.Batch{
		Put:  []journal.Held{a},
		Owe:  []journal.Owed{{Set: 1, URI: "http://a/2", Cause: "x"}},
		Save: map[string][]byte{"d": []byte("1")},
	})
	record(t, j, journal.Batch{}) // nothing is no error
	record(t, j, journal.Batch{
		Drop:   []string{a.URI},
		Settle: []journal.Owed{{Set: 1, URI: "http://a/2"}},
		Save:   map[string][]byte{"d": []byte("2")},
	})
	same(t, "Held", collect(t, j.Held(t.Context(), "", "")), nil)
	same(t, "Owed", collect(t, j.Owed(t.Context(), 1)), nil)
	same(t, "Load", load(t, j, "d"), []byte("2"))
}

func testCanceled(t *testing.T, j journal.Journal) {
	record(t, j, journal.Batch{Put: []journal.Held{held("http://a/1")}})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := j.Record(ctx, journal.Batch{Drop: []string{"http://a/1"}}); !errors.Is(err, context.Canceled) {
		t.Errorf("Record with a canceled context = %v, want %v", err, context.Canceled)
	}
	for _, err := range j.Held(ctx, "", "") {
		if !errors.Is(err, context.Canceled) {
			t.Errorf("Held with a canceled context yields %v, want %v", err, context.Canceled)
		}
	}
	same(t, "Held after that", collect(t, j.Held(t.Context(), "", "")), []journal.Held{held("http://a/1")})
}

func testConcurrent(t *testing.T, j journal.Journal) {
	var wg sync.WaitGroup
	for w := range 4 {
		wg.Go(func() {
			for i := range 20 {
				uri := fmt.Sprintf("http://a/%d/%02d", w, i)
				if err := j.Record(t.Context(), journal.Batch{Put: []journal.Held{held(uri, 1)}}); err != nil {
					t.Error(err)
				}
				hs, err := j.Lookup(t.Context(), []string{uri})
				if err != nil || hs[0].URI != uri {
					t.Errorf("Lookup(%s) = %v, %v", uri, hs, err)
				}
			}
		})
	}
	wg.Wait()
	if n := len(collect(t, j.Held(t.Context(), "", ""))); n != 80 {
		t.Errorf("%d held, want 80", n)
	}
}

func testOwnership(t *testing.T, j journal.Journal) {
	h, entry, doc := held("http://a/1", 1), []byte("entry"), []byte("doc")
	record(t, j, journal.Batch{
		Put:  []journal.Held{h},
		Owe:  []journal.Owed{{Set: 1, URI: "u", Entry: entry}},
		Save: map[string][]byte{"d": doc},
	})
	h.Sets[0], h.Hashes[0].Digest, h.Links[0].Href, entry[0], doc[0] = 9, "x", "y", 'X', 'X'
	for range 2 { // the second time: what the first got was its own, too
		hs := lookup(t, j, "http://a/1")
		same(t, "Lookup", hs[0], held("http://a/1", 1))
		d := load(t, j, "d")
		same(t, "Load", d, []byte("doc"))
		o := collect(t, j.Owed(t.Context(), 1))
		same(t, "Owed", o[0].Entry, []byte("entry"))
		hs[0].Sets[0], hs[0].Links[0].Href, d[0], o[0].Entry[0] = 9, "y", 'X', 'X'
	}
}

func record(t *testing.T, j journal.Journal, b journal.Batch) {
	t.Helper()
	if err := j.Record(t.Context(), b); err != nil {
		t.Fatalf("Record: %v", err)
	}
}

func load(t *testing.T, j journal.Journal, name string) []byte {
	t.Helper()
	doc, err := j.Load(t.Context(), name)
	if err != nil {
		t.Fatalf("Load(%q): %v", name, err)
	}
	return doc
}

func lookup(t *testing.T, j journal.Journal, uris ...string) []journal.Held {
	t.Helper()
	hs, err := j.Lookup(t.Context(), uris)
	if err != nil {
		t.Fatalf("Lookup: %v", err)
	}
	return hs
}

func collect[T any](t *testing.T, seq iter.Seq2[T, error]) []T {
	t.Helper()
	var ts []T
	for v, err := range seq {
		if err != nil {
			t.Fatal(err)
		}
		ts = append(ts, v)
	}
	return ts
}

func same[T any](t *testing.T, what string, got, want T) {
	t.Helper()
	if reflect.DeepEqual(want, got) {
		return // cmp.Diff is slow with long lists
	}
	datetimes := cmp.Comparer(func(a, b resourcesync.Datetime) bool { return a.Compare(b) == 0 && a.Granularity() == b.Granularity() })
	if d := cmp.Diff(want, got, cmpopts.EquateEmpty(), datetimes); d != "" {
		t.Fatalf("%s: (-want +got)\n%.2000s", what, d)
	}
}
