package catalogtest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"lockstep/catalog"
)

// testBatches applies more updates at once than an implementation may write in
// one step.
func testBatches(t *testing.T, c catalog.Catalog) {
	const n = 5_145
	updates := make([]catalog.Update, 0, n)
	for i := range n {
		updates = append(updates, put(fmt.Sprintf("u%06d", i), "1"))
	}
	apply(t, c, catalog.Applied{Created: n - 45}, updates[:n-45]...) // in rising order, into the empty set
	m := mark(t, c)
	slices.Reverse(updates)
	for i := range updates {
		if i%3 == 0 {
			updates[i] = put(updates[i].URI, "2")
		}
	}
	apply(t, c, catalog.Applied{Created: 45, Updated: n/3 - 15, Unchanged: n - n/3 - 30}, updates...) // in falling order
	mid := status(t, c).Last
	all := gone(uris(t, c, catalog.Range{})...)
	apply(t, c, catalog.Applied{Created: 1, Deleted: n}, append(all, put("u", "1"))...)
	last := m
	for _, ch := range changes(t, c, 0) {
		if ch.Seq != last.Seq+1 || !ch.EventTime.After(last.At) {
			t.Fatalf("change %d at %v follows %v", ch.Seq, ch.EventTime, last)
		}
		last = catalog.Mark{Seq: ch.Seq, At: ch.EventTime}
	}
	if last.Seq != mid+n+1 {
		t.Errorf("last change is %d, want %d", last.Seq, mid+n+1)
	}
	if got := uris(t, c, catalog.Range{}); len(got) != 1 || status(t, c).Resources != 1 {
		t.Errorf("%d resources are left, counted as %d; want 1", len(got), status(t, c).Resources)
	}
}

func testSnapshot(t *testing.T, c catalog.Catalog) {
	var updates []catalog.Update
	for i := range 1000 {
		updates = append(updates, put(fmt.Sprintf("u%04d", i), "1"))
	}
	mark(t, c)
	apply(t, c, catalog.Applied{Created: 1000}, updates...)
	n := 0
	for r, err := range c.Resources(t.Context(), set, catalog.Range{}) {
		if err != nil {
			t.Fatal(err)
		}
		if n++; n == 10 { // records already read can no longer change
			apply(t, c, catalog.Applied{Deleted: 500, Created: 1}, append(gone(uris(t, c, catalog.Range{From: "u0500"})...), put("u0999a", "1"))...)
		}
		if r.Seq > 1000 {
			t.Errorf("%s is as of change %d", r.URI, r.Seq)
		}
	}
	if n != 1000 {
		t.Errorf("a reading during an Apply gave %d resources, want 1000", n)
	}
	n = 0
	for _, err := range c.Changes(t.Context(), set, 0) {
		if err != nil {
			t.Fatal(err)
		}
		if n++; n == 10 {
			s := status(t, c)
			if err := c.Forget(t.Context(), set, catalog.Mark{Seq: s.Last, At: s.LastTime}); err != nil {
				t.Fatal(err)
			}
		}
	}
	if n != 1501 {
		t.Errorf("a reading during Forget gave %d changes, want 1501", n)
	}
	seq := c.Resources(t.Context(), set, catalog.Range{})
	for range 2 { // an iterator can be used again, and starts from the beginning
		if got := len(collect(t, seq)); got != 501 {
			t.Errorf("resources = %d, want 501", got)
		}
	}
}

func testBreak(t *testing.T, c catalog.Catalog) {
	mark(t, c)
	apply(t, c, catalog.Applied{Created: 3}, put("a", "1"), put("b", "1"), put("c", "1"))
	for i := range 100 {
		for range c.Resources(t.Context(), set, catalog.Range{}) {
			break
		}
		for range c.Changes(t.Context(), set, 0) {
			break
		}
		for range c.Split(t.Context(), set, 1) {
			break
		}
		apply(t, c, catalog.Applied{Updated: 1}, put("b", strconv.Itoa(i+2)))
	}
	var within func(depth int)
	within = func(depth int) {
		for range c.Resources(t.Context(), set, catalog.Range{}) {
			if depth > 0 {
				within(depth - 1)
			}
			break
		}
	}
	within(30)
}

func testCancel(t *testing.T, c catalog.Catalog) {
	m := mark(t, c)
	var updates []catalog.Update
	for i := range 3000 {
		updates = append(updates, put(fmt.Sprintf("u%04d", i), "1"))
	}
	apply(t, c, catalog.Applied{Created: 3000}, updates...)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	want := context.Canceled
	for name, err := range map[string]error{
		"Resources": failed(c.Resources(ctx, set, catalog.Range{}), want),
		"Split":     failed(c.Split(ctx, set, 1), want),
		"Changes":   failed(c.Changes(ctx, set, 0), want),
	} {
		if err != nil {
			t.Errorf("%s %v", name, err)
		}
	}
	if _, err := c.Apply(ctx, set, gone("u0001")); !errors.Is(err, want) {
		t.Errorf("Apply = %v, want %v", err, want)
	}
	if _, err := c.Mark(ctx, set); !errors.Is(err, want) {
		t.Errorf("Mark = %v, want %v", err, want)
	}
	if err := c.Forget(ctx, set, m); !errors.Is(err, want) {
		t.Errorf("Forget = %v, want %v", err, want)
	}
	if _, err := c.Status(ctx, set); !errors.Is(err, want) {
		t.Errorf("Status = %v, want %v", err, want)
	}

	ctx, cancel = context.WithCancel(t.Context())
	defer cancel()
	n := 0
	var last error
	for _, err := range c.Resources(ctx, set, catalog.Range{}) {
		cancel()
		n++
		last = err
	}
	if !errors.Is(last, want) || n == 3000 {
		t.Errorf("a reading that is cancelled gives %d resources and %v", n, last)
	}

	// A canceled Apply was done whole or not at all.
	for i := range 20 {
		for j := range updates {
			updates[j] = put(updates[j].URI, strconv.Itoa(i+2))
		}
		before := status(t, c).Last
		ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i)*time.Millisecond)
		_, err := c.Apply(ctx, set, updates)
		cancel()
		after := status(t, c).Last
		if err != nil && !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Apply = %v, want %v", err, context.DeadlineExceeded)
		}
		if err == nil && after != before+3000 || err != nil && after != before {
			t.Errorf("Apply = %v, but the last change went from %d to %d", err, before, after)
		}
	}
	if got := len(resources(t, c, catalog.Range{})); got != 3000 {
		t.Errorf("%d resources, want 3000", got)
	}
}

func testConcurrent(t *testing.T, c catalog.Catalog) {
	mark(t, c)
	const writers, each, size = 4, 15, 10
	var writing, reading sync.WaitGroup
	for w := range writers {
		writing.Go(func() {
			for i := range each {
				var updates []catalog.Update
				for j := range size {
					updates = append(updates, put(fmt.Sprintf("u%d/%d", w, j), strconv.Itoa(i)))
				}
				if a, err := c.Apply(context.Background(), set, updates); err != nil || a.Created+a.Updated != size {
					t.Errorf("Apply = %+v, %v", a, err)
				}
			}
		})
	}
	done := make(chan struct{})
	for range 3 {
		reading.Go(func() {
			for {
				if err := consistent(c, size); err != nil {
					t.Error(err)
					return
				}
				select {
				case <-done:
					return
				default:
				}
				if _, err := c.Mark(context.Background(), set); err != nil {
					t.Error(err)
				}
			}
		})
	}
	writing.Wait()
	close(done)
	reading.Wait()
	if s := status(t, c); s.Last != writers*each*size || s.Resources != writers*size {
		t.Errorf("Status = %+v, want change %d of %d resources", s, writers*each*size, writers*size)
	}
}

// consistent checks one state of the set in which every Apply changes size resources.
func consistent(c catalog.Catalog, size int) error {
	n := 0
	for _, err := range c.Resources(context.Background(), set, catalog.Range{}) {
		if err != nil {
			return err
		}
		n++
	}
	if n%size > 0 {
		return fmt.Errorf("a state with %d resources never was", n)
	}
	var last catalog.Change
	for ch, err := range c.Changes(context.Background(), set, 0) {
		if err != nil {
			return err
		}
		if ch.Seq != last.Seq+1 || !ch.EventTime.After(last.EventTime) {
			return fmt.Errorf("change %d at %v follows %d at %v", ch.Seq, ch.EventTime, last.Seq, last.EventTime)
		}
		last = ch
	}
	if int(last.Seq)%size > 0 {
		return fmt.Errorf("a state with %d changes never was", last.Seq)
	}
	return nil
}

func testOwnership(t *testing.T, c catalog.Catalog) {
	mark(t, c)
	apply(t, c, catalog.Applied{Created: 1}, put("a", "1"))
	for range 2 {
		for r, err := range c.Resources(t.Context(), set, catalog.Range{}) {
			if err != nil || r.Hashes[0].Digest != "1" {
				t.Fatalf("resource = %v, %v", r, err)
			}
			r.Hashes[0].Digest = "mine"
		}
		for ch, err := range c.Changes(t.Context(), set, 0) {
			if err != nil || ch.Hashes[0].Digest != "1" {
				t.Fatalf("change = %v, %v", ch, err)
			}
			ch.Hashes[0].Digest = "mine"
		}
	}
}
