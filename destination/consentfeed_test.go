package destination_test

import (
	"errors"
	"fmt"
	"testing"

	"lockstep/catalog"
	"lockstep/destination"
	"lockstep/resourcesync"
)

// TestManyReplacedByOne: a feed that makes most resources representations of one record
// deletes them, and not more than what was agreed to.
func TestManyReplacedByOne(t *testing.T) {
	t.Parallel()
	p := newPool(t)
	m := newReservoir(t, p)
	put := func(i int, links ...resourcesync.Link) catalog.Update {
		return p.put(fmt.Sprintf("/%02d", i), fmt.Sprint("text", i), links...)
	}
	var all []catalog.Update
	for i := range 20 {
		all = append(all, put(i))
	}
	p.brings(all)
	m.mustSync("baseline created=20 updated=0 deleted=0 unchanged=0 failed=0 refused=0")
	var forms []resourcesync.Link
	all = nil
	for i := 1; i < 20; i++ {
		forms = append(forms, p.link("alternate", fmt.Sprintf("/%02d", i), "text/plain"))
		all = append(all, put(i, p.link("canonical", "/00", "")))
	}
	p.brings(append(all, put(0, forms...)))
	if r, err := m.sync(); !errors.Is(err, destination.ErrRefused) || len(m.files()) != 20 {
		t.Errorf("%s, %v, %d files", counts(r), err, len(m.files()))
	}
}

// TestReplacedInPortions: replacing each resource by one other is no deletion for the guard,
// in however many portions a harvest comes.
func TestReplacedInPortions(t *testing.T) {
	t.Parallel()
	for _, cut := range []int{0, 30} {
		p := newPool(t)
		m := newReservoir(t, p)
		m.opts.MaxDelete = 20
		var all []catalog.Update
		for i := range 20 {
			all = append(all, p.put(fmt.Sprintf("/%02d", i), fmt.Sprint("text", i)))
		}
		p.brings(all)
		m.mustSync("baseline created=20 updated=0 deleted=0 unchanged=0 failed=0 refused=0")
		all = nil
		for i := range 20 {
			main, old := fmt.Sprintf("/m%02d", i), fmt.Sprintf("/%02d", i)
			all = append(all, p.put(main, fmt.Sprint("main", i), p.link("alternate", old, "text/plain")), p.put(old, fmt.Sprint("text", i), p.link("canonical", main, "")))
		}
		if p.brings(all); cut > 0 {
			p.brings(all[:cut], all[cut:])
		}
		if r, err := m.sync(); err != nil || len(m.files()) != 20 {
			t.Errorf("cut at %d: %s, %v, %d files", cut, counts(r), err, len(m.files()))
		}
	}
}
