package handover_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"lockstep/blob"
	"lockstep/blob/blobtest"
	"lockstep/blob/fence"
	"lockstep/internal/handover"
)

var errLost = errors.New("another process holds the lease")

// A place is a service with the record and the references of the holders of its lease.
type place struct {
	*testing.T
	base    *blobtest.Conditional
	record  []byte
	needed  map[string]map[string]bool // parts of blobs, as the last holder knows
	holder  *holder
	rand    *rand.Rand
	nesting int // of pauses
	late    int // requests that arrived when another process held the lease
	fenced  bool
}

// A holder is a process that holds, or held, the lease.
type holder struct {
	*place
	store blob.Store
}

// Load implements [handover.Record].
func (h *holder) Load() ([]byte, error) { return h.record, nil }

// Save implements [handover.Record].
func (h *holder) Save(text []byte) error {
	if h.place.holder != h {
		return errLost
	}
	h.record = text
	return nil
}

// next makes another process the holder of the lease.
func (p *place) next() {
	p.Helper()
	h := &holder{place: p}
	p.holder = h
	base := fence.New(p.base, h.check, func(error) {})
	if p.fenced { // what this package is for
		h.store = base
		return
	}
	store, err := handover.Open(p.Context(), base, h)
	if err != nil && p.holder == h {
		p.Fatal(err)
	}
	h.store = store
}

// check looks at the lease. Then the process may be paused, and another one goes on.
func (h *holder) check(context.Context) error {
	if h.place.holder != h {
		return errLost
	}
	if h.nesting < 3 && h.rand.IntN(8) == 0 {
		h.nesting++
		h.next()
		for range h.rand.IntN(12) {
			h.place.holder.step()
		}
		h.nesting--
		h.late++
	}
	return nil
}

// step does something, which may fail if the lease is lost meanwhile, or if something arrives late.
func (h *holder) step() {
	if h.store == nil {
		return // it has lost the lease before it could begin
	}
	name := fmt.Sprintf("%x", h.rand.IntN(6))
	var err error
	switch h.rand.IntN(4) {
	case 0, 1:
		err = h.put(name)
	case 2:
		if h.place.holder == h {
			h.drop(name)
		}
	default:
		err = h.sweep()
	}
	if err != nil && !errors.Is(err, errLost) && !errors.Is(err, blob.ErrConflict) && !errors.Is(err, blob.ErrNotExist) {
		h.Errorf("%v", err)
	}
	if errors.Is(err, blob.ErrConflict) && h.place.holder == h {
		h.next() // begin again
	}
}

const parts = "abc"

// put has all parts of a blob needed: those that are there already, or it writes them.
func (h *holder) put(name string) error {
	if text, err := h.read(name); err != nil || text != parts {
		if err != nil && !errors.Is(err, blob.ErrNotExist) {
			return err
		}
		if err := h.write(name, parts); err != nil {
			return err
		}
	}
	if h.place.holder == h { // else the index refuses it
		for _, p := range parts {
			if h.needed[name] == nil {
				h.needed[name] = map[string]bool{}
			}
			h.needed[name][string(p)] = true
		}
	}
	return nil
}

// drop has fewer parts of a blob needed, or none.
func (h *holder) drop(name string) {
	for _, p := range parts {
		if h.rand.IntN(2) == 0 {
			delete(h.needed[name], string(p))
		}
	}
}

// sweep removes blobs that are not needed, and replaces those of which a part is.
func (h *holder) sweep() error {
	var gone []string
	for info, err := range h.store.List(h.Context(), "") {
		if err != nil {
			return err
		}
		text, err := h.read(info.Name)
		if err != nil {
			return err
		}
		rest := ""
		for p := range strings.SplitSeq(text, "") {
			if h.needed[info.Name][p] {
				rest += p
			}
		}
		switch rest {
		case text:
		case "":
			gone = append(gone, info.Name)
		default:
			if err := h.write(info.Name, rest); err != nil {
				return err
			}
		}
	}
	if h.place.holder != h {
		return errLost // what is needed was read from a database that knows
	}
	return h.store.Remove(h.Context(), gone...)
}

func (h *holder) read(name string) (string, error) {
	r, err := h.store.Open(h.Context(), name)
	if err != nil {
		return "", err
	}
	defer r.Close()
	text, err := io.ReadAll(r)
	return string(text), err
}

func (h *holder) write(name, text string) error {
	w, err := h.store.Create(h.Context(), name)
	if err != nil {
		return err
	}
	defer w.Close()
	if _, err := io.WriteString(w, text); err != nil {
		return err
	}
	return h.store.Commit(h.Context(), w)
}

// life has processes take turns, and returns what is needed and missing.
func life(t *testing.T, seed uint64, fenced bool) (missing []string, late int) {
	p := &place{T: t, base: blobtest.NewConditional(), needed: map[string]map[string]bool{}, rand: rand.New(rand.NewPCG(seed, 1)), fenced: fenced}
	p.next()
	for range 60 {
		p.holder.step()
	}
	p.nesting = 3 // no more pauses
	p.next()
	var view blob.Store = p.holder.store
	if !fenced {
		v, err := handover.View(fence.New(p.base, func(context.Context) error { return errLost }, func(error) {}), p.holder)
		if err != nil {
			t.Fatal(err)
		}
		view = v
	}
	for name, needed := range p.needed {
		reader := holder{place: p, store: view}
		text, err := reader.read(name)
		for part := range needed {
			if err != nil || !strings.Contains(text, part) {
				missing = append(missing, name+part)
			}
		}
	}
	return missing, p.late
}

// TestLate: whenever what a former holder has sent arrives, nothing that is needed is missing. Without the record
// something would be.
func TestLate(t *testing.T) {
	t.Parallel()
	late, lost := 0, 0
	for seed := range uint64(1000) {
		missing, n := life(t, seed, false)
		if late += n; len(missing) > 0 || t.Failed() {
			t.Fatalf("seed %d: %v are missing", seed, missing)
		}
		if missing, _ := life(t, seed, true); len(missing) > 0 {
			lost++
		}
	}
	t.Logf("%d requests were late; without the record %d of 1,000 lives lose something", late, lost)
	if late < 1000 || lost == 0 {
		t.Error("too little was tried")
	}
}

// TestStore: the Store of one process is like any other.
func TestStore(t *testing.T) {
	t.Parallel()
	blobtest.RunLimits(t, blobtest.Limits{NoResume: true}, func(t *testing.T) blob.Store {
		p := &place{T: t, base: blobtest.NewConditional(), rand: rand.New(rand.NewPCG(1, 1)), nesting: 3}
		p.next()
		return p.holder.store
	})
}

// A failing store fails to answer removals and writes; whether they are carried out is unknown.
type failing struct {
	*blobtest.Conditional
	fail  int // the next so many
	later []func()
}

func (f *failing) Remove(ctx context.Context, names ...string) error {
	if f.fail--; f.fail < 0 {
		return f.Conditional.Remove(ctx, names...)
	}
	f.later = append(f.later, func() { _ = f.Conditional.Remove(ctx, names...) })
	return errors.New("no answer")
}

// TestUnanswered: a removal without an answer is carried out later, when the content is needed again.
func TestUnanswered(t *testing.T) {
	t.Parallel()
	f := &failing{Conditional: blobtest.NewConditional()}
	p := &place{T: t, base: f.Conditional, rand: rand.New(rand.NewPCG(1, 1)), nesting: 3, needed: map[string]map[string]bool{}}
	h := &holder{place: p}
	p.holder = h
	store, err := handover.Open(t.Context(), fence.New(f, h.check, func(error) {}), h)
	if err != nil {
		t.Fatal(err)
	}
	h.store = store
	for _, name := range []string{"a", "b", "c"} {
		if err := h.put(name); err != nil {
			t.Fatal(err)
		}
	}
	f.fail = 2 // the removal, and that of what it left
	if err := store.Remove(t.Context(), "a", "b"); err == nil {
		t.Fatal("the removal has an answer")
	}
	if err := h.put("a"); err != nil {
		t.Fatal(err)
	}
	for _, remove := range f.later {
		remove()
	}
	if text, err := h.read("a"); err != nil || text != parts {
		t.Errorf("a is %q, %v", text, err)
	}
	var names []string
	for info, err := range store.List(t.Context(), "") {
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, info.Name)
	}
	if slices.Sort(names); !slices.Equal(names, []string{"a", "c"}) {
		t.Errorf("the store lists %v", names)
	}
}

// An unsure record fails to answer a save, which was carried out or not.
type unsure struct {
	text  []byte
	saves int
	fail  int // the number of the save without an answer
	saved bool
}

// Load implements [handover.Record].
func (u *unsure) Load() ([]byte, error) { return u.text, nil }

// Save implements [handover.Record].
func (u *unsure) Save(text []byte) error {
	u.saves++
	if u.saves != u.fail || u.saved {
		u.text = text
	}
	if u.saves == u.fail {
		return errors.New("no answer")
	}
	return nil
}

// open returns the holder of the lease whose record is r.
func open(t *testing.T, base fence.Base, r handover.Record) *holder {
	t.Helper()
	held := func(context.Context) error { return nil }
	store, err := handover.Open(t.Context(), fence.New(base, held, func(error) {}), r)
	if err != nil {
		t.Fatal(err)
	}
	h := &holder{place: &place{T: t, needed: map[string]map[string]bool{}}, store: store}
	h.place.holder = h
	return h
}

// TestRecordUnanswered: whichever save of the record has no answer, the next holder removes nothing that was needed
// again after the failed removal.
func TestRecordUnanswered(t *testing.T) {
	t.Parallel()
	for name, u := range map[string]unsure{
		"before the removal, saved":     {fail: 1, saved: true},
		"before the removal, not saved": {fail: 1},
		"after the removal, saved":      {fail: 2, saved: true},
		"after the removal, not saved":  {fail: 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			base := blobtest.NewConditional()
			first := open(t, base, &u)
			if err := first.put("a"); err != nil {
				t.Fatal(err)
			}
			if err := first.store.Remove(t.Context(), "a"); err == nil {
				t.Fatal("the save has an answer")
			}
			if err := first.put("a"); err != nil {
				t.Fatal(err)
			}
			if text, err := open(t, base, &u).read("a"); err != nil || text != parts {
				t.Errorf("a is %q, %v", text, err)
			}
		})
	}
}

// TestCommitAfterFailedRemoval: a content whose Writer was created before a removal of it failed is not lost: its
// Commit fails.
func TestCommitAfterFailedRemoval(t *testing.T) {
	t.Parallel()
	for _, fail := range []int{1, 2} {
		u := &unsure{fail: fail, saved: true}
		h := open(t, blobtest.NewConditional(), u)
		u.fail += u.saves
		if err := h.put("a"); err != nil {
			t.Fatal(err)
		}
		w, err := h.store.Create(t.Context(), "a")
		if err != nil {
			t.Fatal(err)
		}
		defer w.Close()
		if _, err := io.WriteString(w, parts); err != nil {
			t.Fatal(err)
		}
		if err := h.store.Remove(t.Context(), "a"); err == nil {
			t.Fatal("the removal succeeded")
		}
		if err := h.store.Commit(t.Context(), w); err != nil {
			continue
		}
		if text, err := h.read("a"); err != nil || text != parts {
			t.Errorf("save %d failed, and a is %q, %v", fail, text, err)
		}
	}
}
