package main

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"testing"

	"lockstep/catalog"
)

// TestTakeOver makes a set hold what another holds, whatever it held before.
func TestTakeOver(t *testing.T) {
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
			if _, err := takeOver(t.Context(), cat, "from", "to", false); err != nil {
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

func TestTakeOverStops(t *testing.T) {
	t.Parallel()
	cat := catalog.NewMem(nil)
	u := catalog.Update{Record: catalog.Record{URI: "http://x.org/"}}
	if _, err := cat.Apply(t.Context(), "from", []catalog.Update{u}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := takeOver(ctx, cat, "from", "to", false); err == nil {
		t.Error("takeOver did not say that it was stopped")
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
