package destination

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"

	"lockstep/internal/fetch"
)

// A mirror whose state is lost, or older than its files, has the right bytes on
// disk. They are taken over without a flag where the directory is the mirror's
// own: its state names this Source, or it contains nothing that the Source does
// not list. Only what a hash proves is taken over, and only at its own path.

// reclaims reports whether a run takes over files of a set before it fetches.
func (r *setRun) reclaims() bool {
	return r.ours && !r.set.unselected && (!r.set.Complete || r.damaged[r.set.Number])
}

// knowsOwn finds out whether DEST is the mirror's own although the Journal is
// new.
func (s *session) knowsOwn(ctx context.Context) error {
	if !s.fresh || s.ours || s.d.isForgetful() || s.past != nil || s.d.opts.Adopt || s.mirror.Found == nil || s.mirror.Found.Foreign != nil {
		return nil
	}
	s.fresh = false
	empty, err := s.isEmpty(ctx)
	if err != nil || empty {
		return err
	}
	s.ours, err = s.listsAll(ctx)
	return err
}

// files yields the names of the files in DEST but those of the state.
func (s *session) files(ctx context.Context) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		for info, err := range s.d.store.List(ctx, "") {
			if err == nil && strings.HasPrefix(info.Name, stateDir+"/") {
				continue
			}
			if !yield(info.Name, err) || err != nil {
				return
			}
		}
	}
}

func (s *session) isEmpty(ctx context.Context) (bool, error) {
	for _, err := range s.files(ctx) {
		if err != nil {
			return false, fmt.Errorf("list the files%s: %w", s.d.inDest(), err)
		}
		return false, nil
	}
	return true, nil
}

// listsAll reports whether the Source lists a resource for every file in DEST.
func (s *session) listsAll(ctx context.Context) (all bool, err error) {
	paths, err := s.paths()
	if err != nil || s.mirror.Origin == "" {
		return false, err
	}
	here, listed := newSorter(roomOf(s.d.journal)), newSorter(roomOf(s.d.journal))
	defer func() {
		for _, sorted := range []*sorter{here, listed} {
			if cerr := sorted.close(); err == nil {
				err = cerr
			}
		}
	}()
	w := here.writer()
	for name, err := range s.files(ctx) {
		if err != nil {
			return false, fmt.Errorf("list the files%s: %w", s.d.inDest(), err)
		}
		uri, err := paths.URI(name)
		if err != nil {
			return false, nil // no resource has such a file
		}
		if err := w.add(uri, nil); err != nil {
			return false, err
		}
	}
	here.release(w)
	if known, err := s.listed(ctx, listed); err != nil || !known {
		return false, err
	}
	next, stop := iter.Pull2(listed.sorted())
	defer stop()
	at, err, more := next()
	for file, ferr := range here.sorted() {
		for err == nil && more && string(at.key) < string(file.key) {
			at, err, more = next()
		}
		if err != nil || ferr != nil || !more || string(at.key) != string(file.key) {
			return false, firstError(err, ferr)
		}
	}
	return true, nil
}

func firstError(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// listed adds the URIs of all resources of the sets that are followed. It reports
// whether all of them could be read.
func (s *session) listed(ctx context.Context, to *sorter) (bool, error) {
	names := slices.Clone(s.report.Sets)
	defer func() { s.report.Sets = names }()
	chosen, err := s.choose(s.mirror.Found)
	if err != nil {
		return false, err
	}
	for _, f := range chosen {
		if f.Err != nil {
			return false, nil
		}
		set, err := s.loadSet(ctx, f)
		if err != nil {
			return false, err
		}
		if known, err := s.listedIn(ctx, set, to); err != nil || !known {
			return false, err
		}
	}
	return true, nil
}

func (s *session) listedIn(ctx context.Context, set *setState, to *sorter) (known bool, err error) {
	if set.Lists == "" {
		return false, nil
	}
	r := &setRun{session: s, set: set, stage: newStage(s.d.journal)}
	r.reader = &setReader{d: s.d, set: set, home: s.home, stage: r.stage, warn: func(string, string) {},
		fail: func(string, error) { r.failed++ }} // the run that follows reports them
	defer r.reader.packages.shelf.clear()
	defer func() {
		if cerr := r.stage.clear(context.WithoutCancel(ctx)); err == nil {
			err = cerr
		}
	}()
	if _, err := r.reader.readList(ctx, set.Lists); err != nil {
		return false, fmt.Errorf("read what %s lists: %w", fetch.Printable(set.URI), err)
	}
	w := to.writer()
	defer to.release(w)
	for w1, err := range r.stage.wants(ctx) {
		if err == nil {
			err = w.add(w1.URI, nil)
		}
		if err != nil {
			return false, err
		}
	}
	return r.failed == 0, nil
}
