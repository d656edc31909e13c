package destination

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"

	"lockstep/destination/filename"
	"lockstep/destination/internal/outage"
	"lockstep/destination/internal/scratch"
	"lockstep/destination/internal/stage"
	"lockstep/internal/extsort"
	"lockstep/internal/fetch"
)

// A mirror whose state is lost, or older than its files, has the right bytes on
// disk. They are taken over without a flag where the directory is the mirror's
// own: its state names this Source, or it contains nothing that the Source does
// not list. A file is taken over only at its own path, and only if a hash proves
// that it is right, or, where the Source states none, its bytes are those that the
// Source serves: neither length nor time proves that.

// reclaims reports whether a run takes over files of a set before it fetches.
func (r *setRun) reclaims() bool {
	return r.ours && !r.set.Unselected && (!r.set.Complete || r.damaged[r.set.Number])
}

// knowsOwn finds out whether DEST is the mirror's own although the Journal is
// new. Of what is harvested that is known later: see knowsOwnHarvest.
func (s *session) knowsOwn(ctx context.Context) error {
	if s.mirror.Found == nil || s.mirror.Found.Foreign != nil {
		return nil
	}
	undecided, err := isUndecided(ctx, s)
	if err != nil || !undecided {
		return err
	}
	s.fresh = false
	s.ours, err = s.listsAll(ctx, s.listed)
	return err
}

// isUndecided reports whether it is yet to be found out if the files in DEST are the
// mirror's own.
func isUndecided(ctx context.Context, s *session) (bool, error) {
	if !s.fresh || s.ours || s.d.isForgetful() || s.past != nil || s.d.opts.Adopt {
		return false, nil
	}
	empty, err := s.isEmpty(ctx)
	s.fresh = !empty
	return !empty && err == nil, err
}

// knowsOwnHarvest finds out whether DEST is the own of a mirror of what is
// harvested, when all there is is staged.
func knowsOwnHarvest(ctx context.Context, r *setRun) error {
	undecided, err := isUndecided(ctx, r.session)
	if err != nil || !undecided {
		return err
	}
	r.fresh = false
	if err := findOrigin(ctx, r.session, r.stage); err != nil {
		return err
	}
	r.ours, err = r.listsAll(ctx, func(ctx context.Context, to *extsort.Sorter) (bool, error) { return true, addStaged(ctx, r.stage, to) })
	return err
}

// files yields the names of the files in DEST but those of the state.
func (s *session) files(ctx context.Context) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		for info, err := range s.d.store.List(ctx, "") {
			if err == nil && strings.HasPrefix(info.Name, filename.StateDir+"/") {
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

// listsAll reports whether the Source lists a resource for every file in DEST. The
// URIs it lists are added by list, which reports whether it could.
func (s *session) listsAll(ctx context.Context, list func(ctx context.Context, to *extsort.Sorter) (bool, error)) (all bool, err error) {
	paths, err := s.paths()
	if err != nil || s.mirror.Origin == "" {
		return false, err
	}
	here, listed := scratch.RoomOf(s.d.journal).Sorter(), scratch.RoomOf(s.d.journal).Sorter()
	defer func() {
		for _, sorted := range []*extsort.Sorter{here, listed} {
			if cerr := sorted.Close(); err == nil {
				err = cerr
			}
		}
	}()
	w := here.Writer()
	for name, err := range s.files(ctx) {
		if err != nil {
			return false, fmt.Errorf("list the files%s: %w", s.d.inDest(), err)
		}
		uri, err := paths.URI(name)
		if err != nil {
			return false, nil // no resource has such a file
		}
		if err := w.Add([]byte(uri), nil); err != nil {
			return false, err
		}
	}
	here.Release(w)
	if known, err := list(ctx, listed); err != nil || !known {
		return false, err
	}
	next, stop := iter.Pull2(listed.Sorted(ctx))
	defer stop()
	at, err, more := next()
	for file, ferr := range here.Sorted(ctx) {
		for err == nil && more && string(at.Key) < string(file.Key) {
			at, err, more = next()
		}
		if err != nil || ferr != nil || !more || string(at.Key) != string(file.Key) {
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
func (s *session) listed(ctx context.Context, to *extsort.Sorter) (bool, error) {
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

func (s *session) listedIn(ctx context.Context, set *setState, to *extsort.Sorter) (known bool, err error) {
	if set.Lists == "" {
		return false, nil
	}
	r := &setRun{session: s, set: set, stage: stage.New(s.d.journal), outages: outage.New(s.d.clock)}
	r.reader = newSetReader(s.d, set, s.home, s.file, r.stage, func(string, string) {},
		func(string, error) { r.failed++ }) // the run that follows reports them
	defer r.reader.Packages.Shelf.Clear()
	defer func() {
		if cerr := r.stage.Close(context.WithoutCancel(ctx)); err == nil {
			err = cerr
		}
	}()
	if _, err := r.reader.ReadList(ctx, set.Lists); err != nil {
		return false, fmt.Errorf("read what %s lists: %w", fetch.Printable(set.URI), err)
	}
	return r.failed == 0, addStaged(ctx, r.stage, to)
}

// addStaged adds the URIs of the resources that are staged, but those that are gone.
func addStaged(ctx context.Context, staged *stage.Stage, to *extsort.Sorter) error {
	out := to.Writer()
	defer to.Release(out)
	for w, err := range staged.Resources(ctx) {
		if err == nil && w.Gone && w.Instead == "" {
			continue
		}
		if err == nil {
			err = out.Add([]byte(w.URI), nil)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
