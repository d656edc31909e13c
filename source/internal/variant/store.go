// Package variant keeps a compressed variant beside each document of a Source.
package variant

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/klauspost/compress/gzip"

	"lockstep/blob"
	"lockstep/source/internal/names"
)

// A Store keeps a compressed variant NAME.xml.gz beside every document NAME.xml,
// and such of archives of feeds. Whatever else is written to it goes to the
// store below as it is.
//
// A variant is visible before its document, and goes with it. Bytes are
// compressed as they are written; nothing is held.
type Store struct {
	blob.Store
	spare [2]sync.Pool // of *gzip.Writer, which are large, by manner
}

// The manners of compressing: of what will soon be written again, and of what
// stays.
const (
	fleeting = iota
	lasting
)

var gzipLevels = [2]int{fleeting: gzip.BestSpeed, lasting: gzip.DefaultCompression}

// New returns a Store of variants in docs.
func New(docs blob.Store) *Store { return &Store{Store: docs} }

// A writer is a document and its variant.
type writer struct {
	blob.Writer
	variant *variant
}

// A variant is a compressed document on its way.
type variant struct {
	blob.Writer
	zip  *gzip.Writer // nil once all is written
	pool *sync.Pool
	done bool // committed
}

// Create begins a document, and its variant.
func (s *Store) Create(ctx context.Context, name string) (blob.Writer, error) {
	w, err := s.Store.Create(ctx, name)
	if err != nil || !Possible(name) {
		return w, err
	}
	v, err := s.createVariant(ctx, name)
	if err != nil {
		_ = w.Close() // nothing was written
		return nil, err
	}
	return &writer{w, v}, nil
}

func (s *Store) createVariant(ctx context.Context, name string) (*variant, error) {
	manner := fleeting
	if names.Immutable(name) {
		manner = lasting
	}
	w, err := s.Store.Create(ctx, name+names.GzipSuffix)
	if err != nil {
		return nil, err
	}
	v := &variant{Writer: w, pool: &s.spare[manner]}
	if zip, ok := v.pool.Get().(*gzip.Writer); ok {
		zip.Reset(w)
		v.zip = zip
		return v, nil
	}
	if v.zip, err = gzip.NewWriterLevel(w, gzipLevels[manner]); err != nil { // unreachable: the levels are right
		_ = w.Close()
		return nil, err
	}
	return v, nil
}

// Write takes bytes of the document.
func (v *variant) Write(p []byte) (int, error) {
	if v.zip == nil {
		return 0, fs.ErrClosed
	}
	return v.zip.Write(p)
}

// end writes what is left; nothing can be written after it.
func (v *variant) end() error {
	if v.zip == nil {
		return nil
	}
	err := v.zip.Close()
	v.pool.Put(v.zip)
	v.zip = nil
	return err
}

// Close drops the variant, unless committed.
func (v *variant) Close() error {
	if v.zip != nil {
		v.pool.Put(v.zip)
		v.zip = nil
	}
	return v.Writer.Close()
}

// Possible reports whether the document called name has a variant.
func Possible(name string) bool {
	return (strings.HasSuffix(name, ".xml") || strings.HasSuffix(name, names.FeedSuffix)) && strings.HasPrefix(name, names.DocumentsDir)
}

// SetModTime is that of both: servers compare them.
func (w *writer) SetModTime(t time.Time) {
	w.Writer.SetModTime(t)
	w.variant.SetModTime(t)
}

// Write writes to both.
func (w *writer) Write(p []byte) (int, error) {
	n, err := w.Writer.Write(p)
	if err == nil {
		_, err = w.variant.Write(p)
	}
	return n, err
}

// Seal implements [blob.Sealer].
func (w *writer) Seal() (closed bool, err error) {
	if err := w.variant.end(); err != nil {
		return false, err
	}
	closed = true
	for _, w := range []blob.Writer{w.Writer, w.variant.Writer} {
		s, ok := w.(blob.Sealer)
		if !ok {
			return false, nil
		}
		sealed, err := s.Seal()
		if err != nil {
			return false, err
		}
		closed = closed && sealed
	}
	return closed, nil
}

// Close drops both, unless committed.
func (w *writer) Close() error {
	return errors.Join(w.Writer.Close(), w.variant.Close())
}

// Commit commits each variant before its document.
func (s *Store) Commit(ctx context.Context, ws ...blob.Writer) error {
	inner := make([]blob.Writer, 0, 2*len(ws))
	ends := make([]int, len(ws)) // of what belongs to each of ws in inner
	for i, w := range ws {
		if z, ok := w.(*writer); ok {
			if err := z.variant.end(); err != nil {
				return &blob.CommitError{Name: z.variant.Name(), Err: err}
			}
			if !z.variant.done {
				inner = append(inner, z.variant.Writer)
			}
			w = z.Writer
		}
		inner = append(inner, w)
		ends[i] = len(inner)
	}
	err := s.Store.Commit(ctx, inner...)
	c, halted := errors.AsType[*blob.CommitError](err)
	if !halted {
		return err
	}
	done, _ := slices.BinarySearchFunc(ends, c.Done, func(end, done int) int { return end - done - 1 })
	if done < len(ws) && c.Done > 0 && inner[c.Done-1].Name() == ws[done].Name()+names.GzipSuffix {
		ws[done].(*writer).variant.done = true
	}
	return &blob.CommitError{Done: done, Name: c.Name, Err: c.Err}
}

// Remove removes documents with their variants, which go first.
func (s *Store) Remove(ctx context.Context, docNames ...string) error {
	var all []string
	for _, name := range docNames {
		if Possible(name) {
			all = append(all, name+names.GzipSuffix)
		}
		all = append(all, name)
	}
	return s.Store.Remove(ctx, all...)
}

// Fill writes the variant of a document that is there without.
func (s *Store) Fill(ctx context.Context, name string) error {
	r, err := s.Open(ctx, name)
	if errors.Is(err, blob.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer r.Close() // opened for reading only
	v, err := s.createVariant(ctx, name)
	if err != nil {
		return err
	}
	defer v.Close() // does nothing after Commit
	_, err = io.Copy(v, r)
	if err == nil {
		err = v.end()
	}
	if err != nil {
		return fmt.Errorf("compress %s: %w", name, err)
	}
	v.SetModTime(r.Info().ModTime)
	return s.Store.Commit(ctx, v.Writer)
}
