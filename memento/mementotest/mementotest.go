// Package mementotest is the conformance suite of [memento.Store].
//
//	func TestVersions(t *testing.T) {
//		mementotest.Run(t, func(t *testing.T) memento.Store { return open(t) })
//	}
package mementotest

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"iter"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"lockstep/memento"
)

// Run tests the stores that open returns. Each must be new and empty; open must
// arrange for it to be closed.
func Run(t *testing.T, open func(*testing.T) memento.Store) {
	tests := []struct {
		name string
		test func(*testing.T, memento.Store)
	}{
		{"Fields", testFields},
		{"Append", testAppend},
		{"First", testFirst},
		{"Cursor", testCursor},
		{"Last", testLast},
		{"Around", testAround},
		{"Second", testSecond},
		{"Sets", testSets},
		{"Drop", testDrop},
		{"Names", testNames},
		{"Refusals", testRefusals},
		{"Pages", testPages},
		{"WalkAndDrop", testWalkAndDrop},
		{"Break", testBreak},
		{"Cancel", testCancel},
		{"Ownership", testOwnership},
		{"Concurrent", testConcurrent},
		{"Model", testModel},
		{"Retain", testRetain},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			tt.test(t, open(t))
		})
	}
}

const (
	setA = "https://example.org/resourcesync/a/capabilitylist.xml"
	setB = "https://example.org/resourcesync/b/capabilitylist.xml"
	uri  = "https://example.org/maps/0007.tif"
)

// at returns a time for tests: some microseconds after a full second.
func at(micros int64) time.Time { return time.UnixMicro(1_700_000_000_000_000 + micros).UTC() }

// seconds is one second in the parameter of at.
const seconds = 1_000_000

// version returns a version of uri with every field set.
func version(uri string, micros int64) memento.Version {
	return memento.Version{
		URI: uri, At: at(micros), Digest: sha256.Sum256(fmt.Append(nil, uri, micros)), Length: micros, Type: "image/tiff",
		Lastmod: at(micros), Event: at(micros + 5), Seq: micros + 1,
	}
}

func gone(uri string, micros int64) memento.Version {
	return memento.Version{URI: uri, At: at(micros), Gone: true, Event: at(micros), Seq: micros + 1}
}

func appendTo(t *testing.T, s memento.Store, set string, vs ...memento.Version) {
	t.Helper()
	if err := s.Append(t.Context(), set, 0, vs); err != nil {
		t.Fatalf("Append: %v", err)
	}
}

func drop(t *testing.T, s memento.Store, set string, vs ...memento.Version) {
	t.Helper()
	if err := s.Drop(t.Context(), set, vs); err != nil {
		t.Fatalf("Drop: %v", err)
	}
}

func last(t *testing.T, s memento.Store, set string, uris ...string) []memento.Version {
	t.Helper()
	vs, err := s.Last(t.Context(), set, uris)
	if err != nil {
		t.Fatalf("Last: %v", err)
	}
	return vs
}

func around(t *testing.T, s memento.Store, uri string, at time.Time) memento.Around {
	t.Helper()
	a, err := s.Around(t.Context(), uri, at)
	if err != nil {
		t.Fatalf("Around(%s, %v): %v", uri, at, err)
	}
	return a
}

func collect(t *testing.T, vs iter.Seq2[memento.Version, error]) []memento.Version {
	t.Helper()
	var all []memento.Version
	for v, err := range vs {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, v)
	}
	return all
}

func list(t *testing.T, s memento.Store, uri string) []memento.Version {
	t.Helper()
	return collect(t, s.List(t.Context(), uri, time.Time{}))
}

func walk(t *testing.T, s memento.Store, set, from string) []memento.Version {
	t.Helper()
	return collect(t, s.Walk(t.Context(), set, from))
}

// same compares; empty and nil are equal.
func same[T comparable](t *testing.T, what string, got, want []T) {
	t.Helper()
	if !slices.Equal(got, want) {
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", what, diff)
		}
	}
}

func testFields(t *testing.T, s memento.Store) {
	digest := sha256.Sum256([]byte("x"))
	zone := time.FixedZone("", 7200)
	vs := []memento.Version{
		{URI: "a", At: at(0)},
		{URI: "a", At: at(1), Gone: true, Seq: 3},
		{URI: "a", At: at(2), Gone: true, Length: -1, Event: at(70), Seq: 4},
		{URI: "b", At: time.Date(1907, 3, 4, 5, 6, 7, 89_000, zone), Digest: digest, Length: math.MaxInt64, Type: "text/html; charset=utf-8",
			Encoding: "gzip", Lastmod: time.Unix(0, 0), Event: at(0), Seq: math.MaxInt64},
		{URI: "c", At: time.Date(2024, 2, 29, 23, 59, 59, 999_999_999, zone), Digest: digest, Lastmod: time.Date(2024, 2, 29, 23, 59, 59, 999_999_999, zone)},
		{URI: "d", At: time.Unix(0, 0), Lastmod: time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC), Type: "any \x00\xff bytes", Event: time.Unix(0, 0)},
		{URI: strings.Repeat("long/", 4000), At: at(3), Type: strings.Repeat("t", 70_000)},
	}
	appendTo(t, s, setA, vs...)
	want := slices.Clone(vs)
	for i := range want {
		v := &want[i]
		if v.Event.IsZero() {
			v.Event = v.At
		}
		for _, x := range []*time.Time{&v.At, &v.Lastmod, &v.Event} {
			*x = x.Truncate(time.Microsecond).UTC()
		}
	}
	same(t, "Walk", walk(t, s, setA, ""), want)
	same(t, "List", list(t, s, "a"), want[:3])
	same(t, "Last", last(t, s, setA, "b", "a"), []memento.Version{want[3], want[2]})
	a := around(t, s, "b", time.Time{})
	if diff := cmp.Diff(memento.Around{First: want[3], Selected: want[3], Last: want[3], Known: true}, a); diff != "" {
		t.Errorf("Around (-want +got):\n%s", diff)
	}
}

func testAppend(t *testing.T, s memento.Store) {
	one, two, three := version(uri, 1), version(uri, 2), version(uri, 3)
	other := two
	other.Digest = sha256.Sum256([]byte("another"))
	appendTo(t, s, setA)
	vs := []memento.Version{three, two} // the first of those that differ wins
	for range 50 {
		vs = append(vs, other, two)
	}
	appendTo(t, s, setA, vs...)
	appendTo(t, s, setA, other, one, gone(uri, 3)) // already stored, and earlier than all
	same(t, "List", list(t, s, uri), []memento.Version{one, two, three})
	same(t, "Last", last(t, s, setA, uri), []memento.Version{three})
}

// testFirst: of versions in one Append with the same URI and At, to the
// microsecond, the first wins, in any order.
func testFirst(t *testing.T, s memento.Store) {
	const resources, times = 97, 5
	var vs, want []memento.Version
	for n := range times {
		for i := range resources {
			v := version(fmt.Sprintf("u%02d", i*31%resources), 7)
			v.At = v.At.Add(time.Duration(times-n) * 100) // nanoseconds, which are not stored
			v.Digest = sha256.Sum256(fmt.Append(nil, v.URI, n))
			vs = append(vs, v)
		}
	}
	for i := range resources {
		v := version(fmt.Sprintf("u%02d", i), 7)
		v.Digest = sha256.Sum256(fmt.Append(nil, v.URI, 0))
		want = append(want, v)
	}
	appendTo(t, s, setA, vs...)
	same(t, "Walk", walk(t, s, setA, ""), want)
}

func testCursor(t *testing.T, s memento.Store) {
	for _, step := range []struct{ cursor, want int64 }{{0, 0}, {7, 7}, {3, 7}, {math.MaxInt64, math.MaxInt64}} {
		if err := s.Append(t.Context(), setA, step.cursor, nil); err != nil {
			t.Fatal(err)
		}
		if got, err := s.Cursor(t.Context(), setA); got != step.want || err != nil {
			t.Errorf("Cursor after %d = %d, %v, want %d", step.cursor, got, err, step.want)
		}
	}
	if got, err := s.Cursor(t.Context(), setB); got != 0 || err != nil {
		t.Errorf("Cursor of another set = %d, %v", got, err)
	}
}

func testLast(t *testing.T, s memento.Store) {
	if got := last(t, s, setA); len(got) > 0 {
		t.Errorf("Last of nothing = %v", got)
	}
	same(t, "Last of a set that never was", last(t, s, setA, "a"), make([]memento.Version, 1))
	var vs []memento.Version
	var uris []string
	for i := range 700 {
		uris = append(uris, fmt.Sprintf("u%03d", i))
		vs = append(vs, version(uris[i], 1), version(uris[i], int64(i+2)))
	}
	appendTo(t, s, setA, vs...)
	appendTo(t, s, setA, gone("u003", 1000))
	appendTo(t, s, setB, version("u004", 5000))
	drop(t, s, setA, version("u005", 1), version("u006", 8), version("u007", 1), version("u007", 9))
	slices.Reverse(uris)
	uris = append(uris, "unknown", "u003", "u000")
	got := last(t, s, setA, uris...)
	for i, uri := range uris {
		want := memento.Version{}
		switch uri {
		case "unknown":
		case "u003":
			want = gone(uri, 1000)
		case "u006", "u007": // dropped: the next must be later
			n := int64(uri[3]-'0') + 2
			want = memento.Version{URI: uri, At: at(n), Gone: true, Event: at(n)}
		default:
			var n int64
			if _, err := fmt.Sscanf(uri, "u%03d", &n); err != nil {
				t.Fatal(err)
			}
			want = version(uri, n+2)
		}
		if diff := cmp.Diff(want, got[i]); diff != "" {
			t.Errorf("Last(%s) (-want +got):\n%s", uri, diff)
		}
	}
}

func testNames(t *testing.T, s memento.Store) {
	odd := []string{ // in byte order
		"\x01", " ", "%2F", "A", "A/", "A/b", "B", "Z", "_", "a", "a/", "a/b", "a0", "aa", "b", "e\u0301", "~",
		"\x7f", "\x80", "\xc3(", "é", "日本", "\xed\xa0\x80", "\uffff", "\U0001f4da", "\xfe", "\xff", "\xff\xff",
	}
	for i := range odd { // one by one, in no order
		appendTo(t, s, "\xff set", version(odd[i*11%len(odd)], 2), version(odd[i*11%len(odd)], 1))
	}
	for i := range odd {
		var want []memento.Version
		for _, uri := range odd[i:] {
			want = append(want, version(uri, 1), version(uri, 2))
		}
		same(t, "Walk from "+odd[i], walk(t, s, "\xff set", odd[i]), want)
		same(t, "List "+odd[i], list(t, s, odd[i]), want[:2])
	}
	if got := walk(t, s, "\xff set", "\xff\xff\x01"); len(got) > 0 {
		t.Errorf("Walk from beyond the end = %v", got)
	}
	if got := walk(t, s, "\xfe set", ""); len(got) > 0 {
		t.Errorf("Walk of a set that never was = %v", got)
	}
}

func testRefusals(t *testing.T, s memento.Store) {
	good := version(uri, 1)
	bad := map[string]memento.Version{"empty URI": good, "NUL": good, "no datetime": good, "length": good}
	for name, v := range bad {
		switch name {
		case "empty URI":
			v.URI = ""
		case "NUL":
			v.URI = "a\x00b"
		case "no datetime":
			v.At = time.Time{}
		case "length":
			v.Length = -1
		}
		if err := s.Append(t.Context(), setA, 5, []memento.Version{good, v}); err == nil {
			t.Errorf("%s: Append took it", name)
		}
	}
	for _, set := range []string{"", "a\x00b"} {
		if err := s.Append(t.Context(), set, 5, []memento.Version{good}); err == nil {
			t.Errorf("Append to set %q took it", set)
		}
		if err := s.Drop(t.Context(), set, []memento.Version{good}); err == nil {
			t.Errorf("Drop from set %q took it", set)
		}
	}
	if c, err := s.Cursor(t.Context(), setA); c != 0 || err != nil || len(walk(t, s, setA, "")) > 0 {
		t.Errorf("what was refused is there in part: cursor %d, %v", c, err)
	}
}

func testBreak(t *testing.T, s memento.Store) {
	appendTo(t, s, setA, version(uri, 1), version(uri, 2))
	appendTo(t, s, setB, version(uri, 3))
	for range 20 { // a canceled iteration releases its resources
		for range s.Walk(t.Context(), setA, "") {
			break
		}
		for range s.List(t.Context(), uri, time.Time{}) {
			break
		}
	}
	listing := s.List(t.Context(), uri, at(1))
	for range 2 { // and an iteration can be repeated
		same(t, "List", collect(t, listing), []memento.Version{version(uri, 2), version(uri, 3)})
	}
	walking := s.Walk(t.Context(), setA, uri)
	for range 2 {
		same(t, "Walk", collect(t, walking), []memento.Version{version(uri, 1), version(uri, 2)})
	}
}

func testCancel(t *testing.T, s memento.Store) {
	appendTo(t, s, setA, version(uri, 1))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	check := func(name string, err error) {
		if !errors.Is(err, context.Canceled) {
			t.Errorf("%s with a context that ended = %v", name, err)
		}
	}
	check("Append", s.Append(ctx, setA, 9, []memento.Version{version(uri, 2)}))
	check("Drop", s.Drop(ctx, setA, []memento.Version{version(uri, 1)}))
	_, err := s.Cursor(ctx, setA)
	check("Cursor", err)
	_, err = s.Last(ctx, setA, []string{uri})
	check("Last", err)
	_, err = s.Around(ctx, uri, at(1))
	check("Around", err)
	for _, err := range s.List(ctx, uri, time.Time{}) {
		check("List", err)
	}
	for _, err := range s.Walk(ctx, setA, "") {
		check("Walk", err)
	}
	same(t, "Walk", walk(t, s, setA, ""), []memento.Version{version(uri, 1)})
	if c, err := s.Cursor(t.Context(), setA); c != 0 || err != nil {
		t.Errorf("Cursor = %d, %v", c, err)
	}
}

// testOwnership: returned values belong to the caller.
func testOwnership(t *testing.T, s memento.Store) {
	appendTo(t, s, setA, version("a", 1), version("b", 1))
	for range 2 {
		got := last(t, s, setA, "a", "b")
		same(t, "Last", got, []memento.Version{version("a", 1), version("b", 1)})
		clear(got)
	}
}
