package dir

import (
	"context"
	"errors"
	"os"
	"runtime"
	"time"

	"golang.org/x/sync/errgroup"

	"lockstep/catalog"
	"lockstep/intake"
	"lockstep/intake/internal/filestat"
	"lockstep/intake/internal/listed"
)

// Sizes of a scan's pipeline. They limit its memory, whatever the size of the tree.
const (
	blockFiles  = 32        // files handed to a hasher at a time
	blockBytes  = 256 << 10 // or that many bytes
	blocksReady = 64        // hashed blocks that wait to be applied
)

// scan is one run of a Dir: it merges walk and catalog, hashes new or touched files,
// and applies the resulting updates.
type scan struct {
	d      *Dir
	t      *sharedTree
	enter  func(rel string)
	gone   listed.URIs
	jobs   chan *block
	hashed chan *block
	open   *block // the block being filled by the merge
	token  []byte // scratch of the merge

	full    bool             // everything is scanned
	earlier map[string]alias // aliases known before a full scan

	intake.Tally
}

func newScan(d *Dir, t *sharedTree) *scan {
	d.mu.Lock()
	defer d.mu.Unlock()
	return &scan{
		d: d, t: t, enter: d.enter, Tally: intake.Tally{Reporter: &d.events, Start: time.Now()},
		gone:   listed.URIs{Dir: d.o.TempDir},
		jobs:   make(chan *block, 2*runtime.GOMAXPROCS(0)),
		hashed: make(chan *block, blocksReady),
	}
}

// run scans the paths, or everything if they are nil.
//
// Order of writes: updates as they are found, each batch sorted; deletions after
// everything else has succeeded. After a scan was killed at any point the next one
// continues from the catalog it left.
func (s *scan) run(ctx context.Context, paths []string) error {
	defer s.Progress()()
	g, gctx := errgroup.WithContext(ctx)
	g.Go(func() error {
		defer close(s.jobs)
		if paths == nil {
			return s.mergeAll(gctx)
		}
		return s.mergePaths(gctx, paths)
	})
	g.Go(func() error {
		defer close(s.hashed)
		return s.hashAll(gctx)
	})
	g.Go(func() error { return s.applyAll(gctx) })
	if err := g.Wait(); err != nil {
		return err
	}
	return s.deleteGone(ctx, paths == nil)
}

// deleteGone deletes the resources for which the scan found no file.
func (s *scan) deleteGone(ctx context.Context, whole bool) error {
	if s.gone.Count == 0 {
		return nil
	}
	// The directory that was compared with the catalog must still be at the root.
	fi, err := os.Stat(s.d.root)
	if err != nil {
		return err
	}
	if !os.SameFile(fi, s.t.rootInfo) {
		return errors.New("the directory was replaced while it was scanned")
	}
	if err := s.mayEmpty(ctx, whole); err != nil {
		return err
	}
	var batch []catalog.Update
	for uri, err := range s.gone.All() {
		if err != nil {
			return err
		}
		if !s.absent(uri) {
			continue
		}
		batch = append(batch, catalog.Update{Record: catalog.Record{URI: uri}, Deleted: true})
		if len(batch) == intake.BatchRows {
			if err := s.apply(ctx, batch); err != nil {
				return err
			}
			batch = nil
		}
	}
	return s.apply(ctx, batch)
}

// mayEmpty refuses to delete the last resources of a set, however few there were,
// unless AllowEmpty is set: the directory may not be mounted.
func (s *scan) mayEmpty(ctx context.Context, whole bool) error {
	if s.d.o.AllowEmpty || whole && s.Files.Load() > 0 {
		return nil
	}
	st, err := s.d.cat.Status(ctx, s.d.set)
	if err != nil || st.Resources == 0 || !whole && s.gone.Count < st.Resources {
		return err
	}
	for uri, err := range s.gone.All() {
		if err != nil || !s.absent(uri) { // it has reappeared
			return err
		}
	}
	return &intake.EmptyError{Root: s.d.root, Resources: st.Resources}
}

// absent checks once more that there is nothing where the scan found nothing:
// readdir(3) may miss a file that is replaced by a rename meanwhile, files may have
// reappeared since, and without permission to look absence is not certain.
func (s *scan) absent(uri string) bool {
	rel, ok := s.d.RelPath(uri)
	if !ok || !s.d.filter.Passes(rel) {
		return true
	}
	st, err := s.t.lstat(rel)
	if err == nil && st.Kind == filestat.Link {
		if leadsToState(s.t, rel) {
			return true
		}
		st, err = s.t.stat(rel)
		if err != nil && escaped(err) {
			return true
		}
	}
	if err != nil {
		if !vanished(err) {
			s.Unreadable(rel, err)
		}
		return vanished(err)
	}
	if st.Kind == filestat.File {
		s.d.addAgain(rel)
	}
	return st.Kind != filestat.File
}

func (s *scan) apply(ctx context.Context, batch []catalog.Update) error {
	if len(batch) == 0 {
		return nil
	}
	a, err := s.d.cat.Apply(ctx, s.d.set, batch)
	if err != nil {
		return err
	}
	s.Applied(a)
	return nil
}

// scan implements observer for the walk, with its tally.

func (s *scan) entering(rel string) {
	if s.enter != nil {
		s.enter(rel)
	}
}

func (s *scan) aliased(rel string, st *filestat.Stat, link bool) {
	token := ""
	if st.Kind == filestat.File {
		token = st.Mark()
	}
	a := alias{token: token}
	if !link {
		a.dev, a.ino = st.Dev, st.Ino
	}
	if s.full {
		s.d.addFoundAlias(rel, a, s.earlier)
	} else {
		s.d.addAlias(rel, a, !link)
	}
}
