package baseurl

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"testing"

	"lockstep/catalog"
	"lockstep/resourcesync"
)

// TestMoveSet makes a set hold what another holds, whatever it held before.
func TestMoveSet(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	for round := range 200 {
		cat := catalog.NewMem(nil)
		fill := func(set string, n int) {
			for range n {
				u := catalog.Update{Record: catalog.Record{URI: fmt.Sprint("http://x.org/", random.IntN(20)), Length: random.Int64N(3)}}
				if _, err := cat.Apply(t.Context(), set, []catalog.Update{u}); err != nil {
					t.Fatal(err)
				}
			}
		}
		fill("from", random.IntN(15))
		fill("to", random.IntN(15)*(round%2))
		want := lengths(t, cat, "from")
		for again := range 2 {
			if _, err := moveSet(t.Context(), cat, "from", "to", false); err != nil {
				t.Fatal(err)
			}
			if got := lengths(t, cat, "to"); !maps.Equal(got, want) {
				t.Fatalf("round %d, time %d: to holds %v, want %v", round, again, got, want)
			}
		}
		if got := lengths(t, cat, "from"); !maps.Equal(got, want) {
			t.Fatalf("round %d: from has changed to %v, was %v", round, got, want)
		}
	}
}

// TestMoveSetLinks: links to versions we kept belong to the base URL there was,
// those that resources came with do not.
func TestMoveSetLinks(t *testing.T) {
	t.Parallel()
	for _, versions := range []bool{true, false} {
		cat := catalog.NewMem(nil)
		u := catalog.Update{Record: catalog.Record{URI: "http://x.org/", Links: []resourcesync.Link{
			{Rel: resourcesync.RelMemento, Href: "http://old.example.org/versions/20260101120000/http://x.org/"},
			{Rel: "collection", Href: "http://x.org/c"}, {Rel: resourcesync.RelPatch, Href: "http://x.org/p"},
		}}}
		if _, err := cat.Apply(t.Context(), "from", []catalog.Update{u}); err != nil {
			t.Fatal(err)
		}
		if _, err := moveSet(t.Context(), cat, "from", "to", versions); err != nil {
			t.Fatal(err)
		}
		want := 2
		if versions {
			want = 1
		}
		for r, err := range cat.Resources(t.Context(), "to", catalog.Range{}) {
			if err != nil || len(r.Links) != want {
				t.Errorf("versions %v: %d links %v, %v; want %d", versions, len(r.Links), r.Links, err, want)
			}
		}
	}
}

func TestMoveSetStops(t *testing.T) {
	t.Parallel()
	cat := catalog.NewMem(nil)
	u := catalog.Update{Record: catalog.Record{URI: "http://x.org/"}}
	if _, err := cat.Apply(t.Context(), "from", []catalog.Update{u}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := moveSet(ctx, cat, "from", "to", false); err == nil {
		t.Error("moveSet did not say that it was stopped")
	}
}

func lengths(t *testing.T, cat catalog.Catalog, set string) map[string]int64 {
	t.Helper()
	m := map[string]int64{}
	for r, err := range cat.Resources(t.Context(), set, catalog.Range{}) {
		if err != nil {
			t.Fatal(err)
		}
		m[r.URI] = r.Length
	}
	return m
}
