package mementotest

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"lockstep/memento"
)

// life is a resource that is created, changed, deleted, restored and deleted
// again. The indexes are those of its times.
var life = []memento.Version{
	version(uri, 10*seconds), version(uri, 20*seconds), gone(uri, 30*seconds), version(uri, 40*seconds), gone(uri, 50*seconds),
}

func testAround(t *testing.T, s memento.Store) {
	appendTo(t, s, setA, life...)
	appendTo(t, s, setA, version(uri+"0", 15*seconds), version(uri[:len(uri)-1], 25*seconds))
	none := memento.Version{}
	tests := []struct {
		name                 string
		at                   time.Time
		prev, selected, next memento.Version
	}{
		{"before the first", at(9 * seconds), none, none, life[0]}, // ME-TG-04
		{"a microsecond before, but the same second", at(10 * seconds), none, life[0], life[1]},
		{"the first", at(10 * seconds), none, life[0], life[1]},
		{"between two, nearer to the second", at(19 * seconds), none, life[0], life[1]}, // ME-TG-05
		{"the second", at(20 * seconds), life[0], life[1], life[3]},
		{"when it was gone", at(35 * seconds), life[1], life[2], life[3]}, // ME-DEL-01
		{"when it was back", at(49 * seconds), life[1], life[3], none},
		{"after it went for good", at(50 * seconds), life[3], life[4], none},
		{"now", time.Time{}, life[3], life[4], none},
		{"far in the past", time.Date(1, 1, 1, 0, 0, 1, 0, time.UTC), none, none, life[0]},
		{"far in the future", time.Date(9999, 12, 31, 23, 59, 59, 999_999_999, time.UTC), life[3], life[4], none},
	}
	for _, tt := range tests {
		want := memento.Around{First: life[0], Prev: tt.prev, Selected: tt.selected, Next: tt.next, Last: life[3], Known: true}
		if diff := cmp.Diff(want, around(t, s, uri, tt.at)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
	}
	if got := around(t, s, "unknown", at(0)); got != (memento.Around{}) { // ME-TG-07
		t.Errorf("Around of an unknown URI = %+v", got)
	}
}

// testSecond: of several versions in a second the latest is selected; the
// others are listed (ME-HD-04).
func testSecond(t *testing.T, s memento.Store) {
	vs := []memento.Version{
		version(uri, 0), version(uri, 1), version(uri, 500_000), version(uri, 999_999), version(uri, seconds), version(uri, 2*seconds-1),
	}
	appendTo(t, s, setA, vs...)
	for _, tt := range []struct {
		at   time.Time
		want int
	}{{at(0), 3}, {at(1), 3}, {at(999_999), 3}, {at(seconds), 5}, {at(-1), -1}, {at(seconds).Add(999_999_999), 5}} {
		got := around(t, s, uri, tt.at)
		if tt.want < 0 && !got.Selected.IsZero() || tt.want >= 0 && got.Selected != vs[tt.want] {
			t.Errorf("Around(%v) selects %v, want version %d", tt.at, got.Selected.At, tt.want)
		}
		if tt.want >= 0 && got.Prev != vs[tt.want-1] {
			t.Errorf("Around(%v) has before it %v, want version %d", tt.at, got.Prev.At, tt.want-1)
		}
	}
	same(t, "List", list(t, s, uri), vs)
	same(t, "List after the third", collect(t, s.List(t.Context(), uri, vs[2].At)), vs[3:])
}

// testSets: a resource in several sets has the versions of all.
func testSets(t *testing.T, s memento.Store) {
	a := []memento.Version{version(uri, 10*seconds), gone(uri, 20*seconds), gone(uri, 40*seconds)}
	b := []memento.Version{version(uri, 15*seconds), gone(uri, 30*seconds), version(uri, 40*seconds), gone(uri, 50*seconds)}
	appendTo(t, s, setA, a...)
	appendTo(t, s, setB, b...)
	same(t, "List", list(t, s, uri), []memento.Version{a[0], b[0], a[1], b[1], b[2], b[3]})
	none := memento.Version{}
	for _, tt := range []struct {
		at                   int64
		prev, selected, next memento.Version
	}{
		{9, none, none, a[0]},
		{12, none, a[0], b[0]},
		{17, a[0], b[0], b[2]},
		{25, a[0], b[0], b[2]}, // still in the other
		{35, b[0], b[1], b[2]}, // in none
		{45, b[0], b[2], none}, // of two at the same time the existing one
		{55, b[2], b[3], none},
	} {
		want := memento.Around{First: a[0], Prev: tt.prev, Selected: tt.selected, Next: tt.next, Last: b[2], Known: true}
		if diff := cmp.Diff(want, around(t, s, uri, at(tt.at*seconds))); diff != "" {
			t.Errorf("at %d (-want +got):\n%s", tt.at, diff)
		}
	}
	same(t, "Walk of one", walk(t, s, setA, ""), a)
	same(t, "Walk of the other", walk(t, s, setB, ""), b)
	same(t, "Last in one", last(t, s, setA, uri), a[2:])

	drop(t, s, setA, a[0])
	drop(t, s, setB, b[0])
	got := around(t, s, uri, at(25*seconds))
	if !got.Dropped.Equal(b[0].At) || got.Selected != a[1] || got.First != b[2] {
		t.Errorf("Around after drops = %+v", got)
	}
}

func testDrop(t *testing.T, s memento.Store) {
	drop(t, s, setA, life...) // of a set that never existed
	if got := around(t, s, uri, at(0)); got.Known {
		t.Errorf("what was never there is known: %+v", got)
	}
	appendTo(t, s, setA, life...)
	drop(t, s, setA, version(uri, 11*seconds), version("unknown", 1), version(uri+"x", 10*seconds))
	if got := around(t, s, uri, at(10*seconds)); !got.Dropped.IsZero() || got.Selected != life[0] {
		t.Errorf("dropping what was not there dropped: %+v", got)
	}
	drop(t, s, setA, memento.Version{URI: uri, At: life[1].At}) // only URI and At count
	same(t, "List", list(t, s, uri), []memento.Version{life[0], life[2], life[3], life[4]})
	drop(t, s, setA, life[0], life[0])
	got := around(t, s, uri, at(25*seconds))
	want := memento.Around{First: life[3], Next: life[3], Last: life[3], Known: true, Dropped: life[1].At}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("Around where nothing is left (-want +got):\n%s", diff)
	}

	// Dropped versions, and earlier ones, do not come back.
	appendTo(t, s, setA, life[0], life[1], version(uri, 15*seconds), version(uri, 60*seconds))
	same(t, "List", list(t, s, uri), append(slices.Clone(life[2:]), version(uri, 60*seconds)))
	drop(t, s, setA, append(slices.Clone(life[2:]), version(uri, 60*seconds))...)
	got = around(t, s, uri, time.Time{})
	if want := (memento.Around{Known: true, Dropped: at(60 * seconds)}); got != want { // ME-RET-01: 410, not 404
		t.Errorf("Around when all is dropped = %+v, want %+v", got, want)
	}
	if got := walk(t, s, setA, ""); len(got) > 0 {
		t.Errorf("Walk when all is dropped = %v", got)
	}
	appendTo(t, s, setA, version(uri, 70*seconds))
	if got := around(t, s, uri, time.Time{}); got.Selected != version(uri, 70*seconds) || got.Dropped != at(60*seconds) {
		t.Errorf("Around of what came after = %+v", got)
	}
}

func testPages(t *testing.T, s memento.Store) {
	var want []memento.Version
	for i, n := range []int{1, 2500, 1, 999, 1, 1000, 1001, 700} {
		for m := range n {
			want = append(want, version(fmt.Sprint("u", i), int64(m)))
		}
	}
	appendTo(t, s, setA, want...)
	appendTo(t, s, setB, version("u1", 3000), version("u00", 5))
	same(t, "Walk", walk(t, s, setA, ""), want)
	same(t, "Walk from u3", walk(t, s, setA, "u3"), want[2502:])
	same(t, "List", list(t, s, "u1"), append(slices.Clone(want[1:2501]), version("u1", 3000)))
	same(t, "List of a page", list(t, s, "u5"), want[3502:4502])
}

// testWalkAndDrop drops every other version while it walks, and adds some.
func testWalkAndDrop(t *testing.T, s memento.Store) {
	var all, kept, odd []memento.Version
	for i := range 30 {
		for m := range 120 {
			v := version(fmt.Sprintf("u%02d", i), int64(m))
			if all = append(all, v); m%2 == 0 {
				kept = append(kept, v)
			}
		}
	}
	appendTo(t, s, setA, all...)
	n := 0
	for v, err := range s.Walk(t.Context(), setA, "") {
		if err != nil {
			t.Fatal(err)
		}
		if v != all[n] {
			t.Fatalf("Walk yields %s at %v, want %v", v.URI, v.At, all[n])
		}
		if n++; v.Length%2 == 1 {
			odd = append(odd, v)
		}
		if len(odd) == 9 || n == len(all) {
			drop(t, s, setA, odd...)
			odd = nil
		}
		if n%500 == 0 {
			appendTo(t, s, setA, version("a", int64(n)))
		}
	}
	if n != len(all) {
		t.Errorf("Walk yields %d versions, want %d", n, len(all))
	}
	same(t, "Walk", walk(t, s, setA, "b"), kept)
}
