package faultfs

import (
	"context"
	"errors"
	"io"
	"iter"

	"lockstep/blob"
)

// A Store is a [blob.Store] whose operations fail as Faults say. It has none of the
// optional methods of the Store that it contains; see [Dir].
type Store struct {
	blob.Store
	Faults *Faults
	Bare   bool // hide the optional methods of Writers as well
}

// A Dir is a [blob.Dir] whose operations fail as Faults say.
type Dir struct {
	*blob.Dir
	Faults *Faults
}

// Create implements [blob.Store].
func (s *Store) Create(ctx context.Context, name string) (blob.Writer, error) {
	return create(ctx, s.Store, s.Faults, name, s.Bare)
}

// Create implements [blob.Store].
func (d *Dir) Create(ctx context.Context, name string) (blob.Writer, error) {
	return create(ctx, d.Dir, d.Faults, name, false)
}

func create(ctx context.Context, s blob.Store, f *Faults, name string, bare bool) (blob.Writer, error) {
	if err := f.Step(); err != nil {
		return nil, err
	}
	w, err := s.Create(ctx, name)
	if err != nil {
		return nil, err
	}
	return wrap(w, f, bare), nil
}

// Resume implements [blob.Resumer].
func (d *Dir) Resume(ctx context.Context, name string) (blob.Writer, *io.SectionReader, error) {
	if err := d.Faults.read(); err != nil {
		return nil, nil, err
	}
	w, there, err := d.Dir.Resume(ctx, name)
	if err != nil {
		return nil, nil, err
	}
	return wrap(w, d.Faults, false), there, nil
}

// Commit implements [blob.Store]. It can fail between any two blobs.
func (s *Store) Commit(ctx context.Context, ws ...blob.Writer) error {
	return commit(ctx, s.Store, s.Faults, ws)
}

// Commit implements [blob.Store]. It can fail between any two blobs.
func (d *Dir) Commit(ctx context.Context, ws ...blob.Writer) error {
	return commit(ctx, d.Dir, d.Faults, ws)
}

func commit(ctx context.Context, s blob.Store, f *Faults, ws []blob.Writer) error {
	if survive, cut := f.survivors(len(ws)); cut {
		for i, w := range ws {
			if !survive[i] {
				continue
			}
			if err := s.Commit(ctx, unwrap(w)); err != nil {
				return err
			}
			f.visible()
		}
		return &blob.CommitError{Name: ws[0].Name(), Err: f.read()}
	}
	if f.skip(len(ws)) {
		inner := make([]blob.Writer, len(ws))
		for i, w := range ws {
			inner[i] = unwrap(w)
		}
		return s.Commit(ctx, inner...)
	}
	for i, w := range ws {
		err := f.Step()
		if err == nil {
			err = s.Commit(ctx, unwrap(w))
		}
		if err != nil {
			return &blob.CommitError{Done: i, Name: w.Name(), Err: err}
		}
		f.visible()
	}
	return nil
}

// Remove implements [blob.Store]. It can fail between any two names.
func (s *Store) Remove(ctx context.Context, names ...string) error {
	return remove(ctx, s.Store, s.Faults, names)
}

// Remove implements [blob.Store]. It can fail between any two names.
func (d *Dir) Remove(ctx context.Context, names ...string) error {
	return remove(ctx, d.Dir, d.Faults, names)
}

func remove(ctx context.Context, s blob.Store, f *Faults, names []string) error {
	survive, cut := f.survivors(len(names))
	var errs []error
	for i, name := range names {
		if cut && !survive[i] {
			continue
		}
		if !cut {
			if err := f.Step(); err != nil {
				return errors.Join(append(errs, err)...)
			}
		}
		if err := s.Remove(ctx, name); err != nil {
			errs = append(errs, err)
		}
		f.visible()
	}
	return errors.Join(append(errs, f.read())...)
}

// Move implements [blob.Mover].
func (d *Dir) Move(ctx context.Context, from, to string) error {
	if err := d.Faults.Step(); err != nil {
		return err
	}
	return d.Dir.Move(ctx, from, to)
}

// Sweep implements [blob.Sweeper].
func (d *Dir) Sweep(ctx context.Context, keep iter.Seq[string]) (int, error) {
	if err := d.Faults.Step(); err != nil {
		return 0, err
	}
	return d.Dir.Sweep(ctx, keep)
}

// Open implements [blob.Store].
func (s *Store) Open(ctx context.Context, name string) (blob.Reader, error) {
	if err := s.Faults.read(); err != nil {
		return nil, err
	}
	return s.Store.Open(ctx, name)
}

// Stat implements [blob.Store].
func (s *Store) Stat(ctx context.Context, name string) (blob.Info, error) {
	if err := s.Faults.read(); err != nil {
		return blob.Info{}, err
	}
	return s.Store.Stat(ctx, name)
}

// List implements [blob.Store].
func (s *Store) List(ctx context.Context, prefix string) iter.Seq2[blob.Info, error] {
	if err := s.Faults.read(); err != nil {
		return func(yield func(blob.Info, error) bool) { yield(blob.Info{}, err) }
	}
	return s.Store.List(ctx, prefix)
}
