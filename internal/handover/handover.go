// Package handover lets several processes take turns in a store whose blobs are named by their content,
// so that a blob that is needed again is used instead of being written again.
//
// One process at a time, the holder of a lease, writes and removes blobs. It may be paused between looking
// at its lease and removing a blob. The removal then reaches the store when another process holds the
// lease, and has perhaps found the blob there and relies on it. Services have no condition for removals.
//
// So a holder first records, in a place that refuses it once it has lost the lease, what it is about to
// remove or replace. Its successor never uses such a blob again, nor its name: the content gets the name of
// the next number, name~1. What was being replaced is copied, because others may rely on the part of it that both
// versions have. A holder does the same after a removal that failed, because it may still be carried out. The
// record has few names: those of batches that were not completed.
//
// A blob that a former holder was writing can appear at any time, and must do no harm: see Shared of the
// options of package vault.
package handover

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"lockstep/blob"
	"lockstep/blob/fence"
)

// A Record keeps what the next holder of the lease must know.
type Record interface {
	// Load returns what was saved last; nil: nothing was.
	Load() ([]byte, error)

	// Save replaces it durably. It fails if this process does not hold the lease.
	Save(text []byte) error
}

// A record is the content of a Record.
type record struct {
	Removing  []string       `json:"removing,omitempty"`  // blobs of the base
	Replacing []string       `json:"replacing,omitempty"` // likewise
	Moved     map[string]int `json:"moved,omitempty"`     // the numbers of names that have one
	Left      []string       `json:"left,omitempty"`      // blobs of the base that nothing uses any more
}

// A Store gives blobs of the base the names by which their contents are known. It is safe for concurrent
// use.
type Store struct {
	base   *fence.Store
	record Record
	reader bool // it only reads

	change  sync.Mutex  // held while the record is changed, and what it says is done
	unknown atomic.Bool // whether what the record says was done

	mu  sync.RWMutex // guards now
	now record       // replaced as a whole
}

var (
	_ blob.Store   = (*Store)(nil)
	_ blob.Sweeper = (*Store)(nil)
	_ io.Closer    = (*Store)(nil)
)

// Open returns the Store for the process that has just got the lease. base must be new.
func Open(ctx context.Context, base *fence.Store, r Record) (*Store, error) {
	s := &Store{base: base, record: r}
	if err := s.reload(); err != nil {
		return nil, err
	}
	s.unknown.Store(true)
	return s, s.settle(ctx)
}

// View returns the Store for a process that only reads.
func View(base *fence.Store, r Record) (*Store, error) {
	s := &Store{base: base, record: r, reader: true}
	return s, s.reload()
}

// reload reads the record.
func (s *Store) reload() error {
	text, err := s.record.Load()
	if err != nil {
		return fmt.Errorf("read which blobs were being removed: %w", err)
	}
	var now record
	if text != nil {
		if err := json.Unmarshal(text, &now); err != nil {
			return fmt.Errorf("read which blobs were being removed: %w", err)
		}
	}
	s.set(now)
	return nil
}

func (s *Store) set(now record) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now = now
}

func (s *Store) get() record {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.now
}

// save writes the record.
func (s *Store) save(now record) error {
	text, err := json.Marshal(now)
	if err == nil {
		err = s.record.Save(text)
	}
	if err != nil {
		return fmt.Errorf("record which blobs are being removed: %w", err)
	}
	s.set(now)
	return nil
}

// mark precedes the number of a name.
const mark = "~"

// real returns the name in the base.
func (r *record) real(name string) string {
	if n := r.Moved[name]; n > 0 {
		return name + mark + strconv.Itoa(n)
	}
	return name
}

// known returns the name by which a blob of the base is known, if it is in use.
func (r *record) known(real string) (name string, ok bool) {
	if i := strings.LastIndex(real, mark); i > 0 {
		if n := r.Moved[real[:i]]; n > 0 {
			return real[:i], r.real(real[:i]) == real
		}
	}
	return real, r.Moved[real] == 0
}

// settle gives what was being removed or replaced other names, if it is unknown whether that was done.
func (s *Store) settle(ctx context.Context) error {
	if !s.unknown.Load() {
		return nil
	}
	s.change.Lock()
	defer s.change.Unlock()
	return s.settleLocked(ctx)
}

func (s *Store) settleLocked(ctx context.Context) error {
	if !s.unknown.Load() {
		return nil
	}
	if err := s.rename(ctx); err != nil {
		return fmt.Errorf("settle which blobs were being removed: %w", err)
	}
	s.unknown.Store(false)
	return nil
}

// rename gives what was being removed or replaced other names.
func (s *Store) rename(ctx context.Context) error {
	last := s.get()
	next := record{Moved: map[string]int{}, Left: slices.Clone(last.Left)}
	for name, n := range last.Moved {
		next.Moved[name] = n
	}
	for i, reals := range [][]string{last.Replacing, last.Removing} {
		for _, real := range reals {
			name, ok := last.known(real)
			if !ok {
				continue
			}
			next.Moved[name] = last.Moved[name] + 1
			next.Left = append(next.Left, real)
			if i > 0 {
				continue
			}
			if err := s.copy(ctx, real, next.real(name)); err != nil {
				return err
			}
		}
	}
	if len(next.Left) == 0 {
		return nil
	}
	if len(next.Left) > len(last.Left) {
		if err := s.save(next); err != nil {
			return err
		}
	}
	if s.base.Remove(ctx, next.Left...) != nil {
		return nil // it is tried again by the next holder
	}
	next.Left = nil
	return s.save(next)
}

// copy copies a blob of the base, if it exists.
func (s *Store) copy(ctx context.Context, from, to string) error {
	r, err := s.base.Open(ctx, from)
	if errors.Is(err, blob.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer r.Close() // only read from
	w, err := s.base.Create(ctx, to)
	if err != nil {
		return err
	}
	defer w.Close() // drops it, unless committed
	if _, err := io.Copy(w, r); err != nil {
		return fmt.Errorf("copy %q: %w", from, err)
	}
	return s.base.Commit(ctx, w)
}

// Open implements [blob.Store].
func (s *Store) Open(ctx context.Context, name string) (r blob.Reader, err error) {
	err = s.read(ctx, name, func(real string) error {
		r, err = s.base.Open(ctx, real)
		return err
	})
	if err != nil {
		return nil, err
	}
	return &reader{r, name}, nil
}

// A reader is one of the base under the name by which its content is known.
type reader struct {
	blob.Reader
	name string
}

// Info implements [blob.Reader].
func (r *reader) Info() blob.Info {
	info := r.Reader.Info()
	info.Name = r.name
	return info
}

// Stat implements [blob.Store].
func (s *Store) Stat(ctx context.Context, name string) (info blob.Info, err error) {
	err = s.read(ctx, name, func(real string) error {
		info, err = s.base.Stat(ctx, real)
		return err
	})
	info.Name = name
	return info, err
}

// read looks for a blob. A process that only reads may have an old record.
func (s *Store) read(ctx context.Context, name string, look func(real string) error) error {
	if err := s.settle(ctx); err != nil {
		return err
	}
	now := s.get()
	real := now.real(name)
	err := look(real)
	if !errors.Is(err, blob.ErrNotExist) || !s.reader {
		return err
	}
	if rerr := s.reload(); rerr != nil {
		return rerr
	}
	now = s.get()
	if now.real(name) == real {
		return err
	}
	return look(now.real(name))
}

// List implements [blob.Store]. Names with numbers are not in their order.
func (s *Store) List(ctx context.Context, prefix string) iter.Seq2[blob.Info, error] {
	return func(yield func(blob.Info, error) bool) {
		if err := s.settle(ctx); err != nil {
			yield(blob.Info{}, err)
			return
		}
		now := s.get()
		for info, err := range s.base.List(ctx, prefix) {
			if err != nil {
				yield(info, err)
				return
			}
			name, ok := now.known(info.Name)
			if info.Name = name; ok && !yield(info, nil) {
				return
			}
		}
	}
}

// Create implements [blob.Store].
func (s *Store) Create(ctx context.Context, name string) (blob.Writer, error) {
	if err := s.settle(ctx); err != nil {
		return nil, err
	}
	now := s.get()
	return s.base.Create(ctx, now.real(name))
}

// errRenamed reports a Writer that was created before a removal of its blob failed.
var errRenamed = errors.New("a removal of the blob has failed; write it again")

// Commit implements [blob.Store]. What is replaced is recorded before.
func (s *Store) Commit(ctx context.Context, ws ...blob.Writer) error {
	if err := s.settle(ctx); err != nil {
		return err
	}
	var replaced []string
	now := s.get()
	for _, w := range ws {
		exists, err := s.base.Exists(ctx, w.Name())
		if _, ok := now.known(w.Name()); err == nil && !ok {
			err = errRenamed
		}
		if err != nil {
			return &blob.CommitError{Name: w.Name(), Err: err}
		}
		if exists {
			replaced = append(replaced, w.Name())
		}
	}
	if len(replaced) == 0 {
		return s.base.Commit(ctx, ws...)
	}
	return s.recorded(ctx, func(r *record) { r.Replacing = replaced }, func() error { return s.base.Commit(ctx, ws...) })
}

// recorded carries out a change that was recorded before, and removes it from the record once it is complete.
func (s *Store) recorded(ctx context.Context, note func(*record), change func() error) error {
	if err := ctx.Err(); err != nil {
		return err // before anything is known to be under way
	}
	s.change.Lock()
	defer s.change.Unlock()
	if err := s.settleLocked(ctx); err != nil {
		return err
	}
	during := s.get()
	note(&during)
	if err := s.save(during); err != nil {
		s.set(during) // it may have been saved without an answer
		s.unknown.Store(true)
		return err
	}
	err := change()
	if err == nil {
		during.Removing, during.Replacing = nil, nil
		err = s.save(during)
	}
	if err != nil { // the next holder may find the names in the record
		s.unknown.Store(true)
	}
	return err
}

// Remove implements [blob.Store].
func (s *Store) Remove(ctx context.Context, names ...string) error {
	const batch = 256 // names in the record
	for names := range slices.Chunk(names, batch) {
		if err := s.settle(ctx); err != nil {
			return err
		}
		now := s.get()
		real := make([]string, len(names))
		for i, name := range names {
			real[i] = now.real(name)
		}
		if err := s.recorded(ctx, func(r *record) { r.Removing = real }, func() error { return s.base.Remove(ctx, real...) }); err != nil {
			return err
		}
	}
	return nil
}

// Sweep implements [blob.Sweeper].
func (s *Store) Sweep(ctx context.Context, keep iter.Seq[string]) (int, error) {
	now := s.get()
	return s.base.Sweep(ctx, func(yield func(string) bool) {
		for name := range keep {
			if !yield(now.real(name)) {
				return
			}
		}
	})
}

// Close closes the base.
func (s *Store) Close() error { return s.base.Close() }
