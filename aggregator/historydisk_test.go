package aggregator_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"lockstep/blob/faultfs"
	"lockstep/catalog"
	"lockstep/destination"
	"lockstep/destination/journal"
	"lockstep/destination/journaltest"
	"lockstep/storage/sqlite"
)

// A mortalCatalog is a Catalog that does not change once the process is dead.
type mortalCatalog struct {
	catalog.Catalog
	faults *faultfs.Faults
}

func (c *mortalCatalog) Apply(ctx context.Context, set string, updates []catalog.Update) (catalog.Applied, error) {
	if err := c.faults.Step(); err != nil {
		return catalog.Applied{}, err
	}
	return c.Catalog.Apply(ctx, set, updates)
}

func (c *mortalCatalog) Mark(ctx context.Context, set string) (catalog.Mark, error) {
	if err := c.faults.Step(); err != nil {
		return catalog.Mark{}, err
	}
	return c.Catalog.Mark(ctx, set)
}

func (c *mortalCatalog) Forget(ctx context.Context, set string, m catalog.Mark) error {
	if err := c.faults.Step(); err != nil {
		return err
	}
	return c.Catalog.Forget(ctx, set, m)
}

// mount opens the databases of a node that has some, again if they are open: the process
// that had them is gone.
func (n *node) mount() {
	if !n.onDisk {
		return
	}
	open := func(name string) *sqlite.DB {
		db, err := sqlite.Options{Cache: 256}.Open(filepath.Join(n.source.Temp, name))
		n.h.Must(err)
		n.opened = append(n.opened, db)
		return db
	}
	n.disk.Lock()
	defer n.disk.Unlock()
	n.unmount()
	n.catalog = open("catalog.db").Catalog()
	for i, f := range n.feeds {
		f.journal = open(fmt.Sprintf("journal%d.db", i)).Journal()
	}
}

func (n *node) unmount() {
	for _, db := range n.opened {
		n.h.Must(db.Close())
	}
	n.opened = nil
}

// apply changes what an origin has.
func (n *node) apply(u catalog.Update) {
	n.disk.RLock()
	defer n.disk.RUnlock()
	_, err := n.catalog.Apply(context.Background(), n.set, []catalog.Update{u})
	n.h.Must(err)
}

// begin lets a node do its first pass. Its mirrors may have come from `lockstep sync`, also
// of an earlier version, before.
func (n *node) begin(ctx context.Context) {
	if len(n.feeds) > 0 && !n.inPlace && n.h.Once(6) {
		n.h.rough = true
		older := n.h.Once(2)
		for _, f := range n.feeds {
			j := f.journal
			if older {
				f.journal = &journaltest.Older{Journal: j}
			}
			_, err := f.sync(ctx, n.h, false)
			f.journal = j
			n.h.Tracef("%d has a mirror of %d already, of an earlier version: %v; %v", n.id, f.from.id, older, err)
		}
		if older {
			n.h.count("mirrors of an earlier version that became upstreams")
		} else {
			n.h.count("mirrors that became upstreams")
		}
	}
	_, _ = n.pass(ctx) // it is done again
}

// sync brings a mirror in step, without the process that republishes it.
func (f *feed) sync(ctx context.Context, h *history, baseline bool) (destination.Report, error) {
	c, d := f.open(h, &faultfs.Faults{}, baseline, nil)
	defer c.Close()
	return d.Sync(ctx, f.from.base)
}

// move gives a node another address, and tells those that follow it.
func (n *node) move(ctx context.Context) {
	n.h.rough = true
	n.h.count("moves")
	n.stop()
	n.listen()
	n.start()
	n.h.Tracef("%d moves to %s", n.id, n.base)
	_, _ = n.pass(ctx) // it is done again
	for _, other := range n.h.nodes {
		for _, f := range other.feeds {
			if f.from == n {
				other.stop()
				f.accept(ctx, n.h)
				other.start()
			}
		}
	}
	if n.h.last.from == n {
		n.h.last.accept(ctx, n.h)
	}
}

// accept makes the mirror one of its upstream at another address, as the hint of the
// program says; without files it starts from scratch.
func (f *feed) accept(ctx context.Context, h *history) {
	f.moved = true
	if f.inPlace {
		f.journal = &journal.Mem{}
		return
	}
	runs := 1
	if f.from.inPlace { // the resources are those of before: the second comparison takes what their new set states
		runs = 2
	}
	var err error
	for try := 0; runs > 0 && try < 5; try++ {
		if _, err = f.sync(ctx, h, true); err == nil || errors.Is(err, destination.ErrIncomplete) {
			err = nil
			runs--
		}
	}
	h.Must(err)
}
