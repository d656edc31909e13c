package source

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

// Compressed returns a Store that keeps a compressed variant NAME.xml.gz beside
// every document NAME.xml, and such of archives of feeds, for web servers that serve such files to those who
// ask for gzip. Whatever else is written to it goes to docs as it is.
//
// A variant is visible before its document, so that a document that is up to
// date has one that is. It goes with its document. A Source that is given such
// a Store also sees to variants that are missing, and one that is not given one
// any more removes those it made, before they can grow stale.
//
// Bytes are compressed as they are written; nothing is held.
func Compressed(docs blob.Store) blob.Store { return &gzipStore{Store: docs} }

type gzipStore struct {
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

// A gzipWriter is a document and its variant.
type gzipWriter struct {
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
func (s *gzipStore) Create(ctx context.Context, name string) (blob.Writer, error) {
	w, err := s.Store.Create(ctx, name)
	if err != nil || !hasVariant(name) {
		return w, err
	}
	v, err := s.createVariant(ctx, name)
	if err != nil {
		_ = w.Close() // nothing was written
		return nil, err
	}
	return &gzipWriter{w, v}, nil
}

func (s *gzipStore) createVariant(ctx context.Context, name string) (*variant, error) {
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

func hasVariant(name string) bool {
	return (strings.HasSuffix(name, ".xml") || strings.HasSuffix(name, names.FeedSuffix)) && strings.HasPrefix(name, names.DocumentsDir)
}

// SetModTime is that of both: servers compare them.
func (w *gzipWriter) SetModTime(t time.Time) {
	w.Writer.SetModTime(t)
	w.variant.SetModTime(t)
}

// Write writes to both.
func (w *gzipWriter) Write(p []byte) (int, error) {
	n, err := w.Writer.Write(p)
	if err == nil {
		_, err = w.variant.Write(p)
	}
	return n, err
}

// Close drops both, unless committed.
func (w *gzipWriter) Close() error {
	return errors.Join(w.Writer.Close(), w.variant.Close())
}

// Commit commits each variant before its document.
func (s *gzipStore) Commit(ctx context.Context, ws ...blob.Writer) error {
	inner := make([]blob.Writer, 0, 2*len(ws))
	ends := make([]int, len(ws)) // of what belongs to each of ws in inner
	for i, w := range ws {
		if z, ok := w.(*gzipWriter); ok {
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
		ws[done].(*gzipWriter).variant.done = true
	}
	return &blob.CommitError{Done: done, Name: c.Name, Err: c.Err}
}

// Remove removes documents with their variants, which go first.
func (s *gzipStore) Remove(ctx context.Context, docNames ...string) error {
	var all []string
	for _, name := range docNames {
		if hasVariant(name) {
			all = append(all, name+names.GzipSuffix)
		}
		all = append(all, name)
	}
	return s.Store.Remove(ctx, all...)
}

// fill writes the variant of a document that is there without.
func (s *gzipStore) fill(ctx context.Context, name string) error {
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

// variants makes up for compressed variants that are missing, and removes those
// of a time when there were some: they would grow stale.
func (p *publication) variants(ctx context.Context) error {
	store, compressing := p.docs.(*gzipStore)
	var stale []string
	for name := range p.there {
		_, there := p.there[name+names.GzipSuffix]
		switch {
		case !hasVariant(name) || !names.IsDocument(p.set.Name, name):
		case compressing && (!there || !p.state.Compressed):
			if err := store.fill(ctx, name); err != nil {
				return err
			}
		case !compressing && there && p.state.Compressed:
			stale = append(stale, name+names.GzipSuffix)
		}
	}
	if len(stale) > 0 {
		if err := p.docs.Remove(ctx, stale...); err != nil {
			return fmt.Errorf("remove compressed documents: %w", err)
		}
	}
	if p.state.Compressed == compressing || p.state.Changes == nil {
		return nil
	}
	st := *p.state
	st.Compressed = compressing
	if err := p.save(ctx, p.set.Name, &st); err != nil {
		return err
	}
	p.state = &st
	return nil
}
