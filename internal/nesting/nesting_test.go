package nesting_test

import (
	"errors"
	"testing"

	"lockstep/internal/nesting"
)

func TestWalk(t *testing.T) {
	t.Parallel()
	var w nesting.Walk
	for depth, want := range []error{nil, nil, nil, nesting.ErrDeep, nesting.ErrDeep} {
		if err := w.Index(depth); !errors.Is(err, want) {
			t.Errorf("an index below %d others: %v, want %v", depth, err, want)
		}
	}
	w = nesting.Walk{}
	for range 3 { // a list in time
		for range nesting.MaxBarren - 1 {
			if err := w.Barren(); err != nil {
				t.Fatal(err)
			}
		}
		w.Yield()
	}
	for i := 1; !w.Ended(); i++ {
		if err := w.Index(1); (i == nesting.MaxBarren) != errors.Is(err, nesting.ErrBarren) {
			t.Fatalf("index %d without a list: %v", i, err)
		}
	}
	if w.Yield(); !w.Ended() {
		t.Error("a list after the end goes on with the reading")
	}
}
