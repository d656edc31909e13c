// Package document writes the documents of a Source, and the small files in
// which it keeps its state, to a blob store, and reads both.
package document

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"lockstep/blob"
	"lockstep/catalog"
	"lockstep/resourcesync"
	"lockstep/source/internal/names"
)

// Boundary is how long after its last event an interval ends. Events have
// whole microseconds, so none happens on a boundary: whether a reader takes the
// ends of intervals as open or closed makes no difference (RS-AMB-05).
const Boundary = 500 * time.Nanosecond

// CommitParts is how many parts are committed at once: few enough that a store
// of files does not run out of descriptors, many enough that it seldom waits
// for the disk.
const CommitParts = 128

// Retired is a part that no document names any more.
type Retired struct {
	Name  string      `json:"name"`
	Gone  time.Time   `json:"gone"`           // since when
	At    time.Time   `json:"at,omitzero"`    // of the Resource List or Resource Dump it belonged to
	Seq   catalog.Seq `json:"seq,omitempty"`  // newest change that At is known to cover
	Taken Mark        `json:"taken,omitzero"` // what a Resource List was as of that had parts of earlier ones
}

// A Mark is a [catalog.Mark] as states have it.
type Mark struct {
	Seq catalog.Seq `json:"seq"`
	At  time.Time   `json:"at"`
}

// A Store holds the documents of a Source, with what all of them depend on.
type Store struct {
	blob.Store
	Base       names.Base // all addresses are below it
	MaxEntries int        // of one document
	MaxBytes   int64      // size from which a document is full
	Now        func() time.Time
	Log        *slog.Logger
}

// CapabilityList returns the URI of the set's Capability List, which is also
// the set's name in the catalog.
func (s *Store) CapabilityList(set string) string { return s.Base.URI(names.Set(set).CapabilityList()) }

// ArchivesLink returns the link from a document to the archive of its kind
// (RA-ADV-03, RA-GEN-12).
func (s *Store) ArchivesLink(set string, c resourcesync.Capability) resourcesync.Link {
	return resourcesync.Link{Rel: resourcesync.RelArchives, Href: s.Base.URI(names.Set(set).Archive(c))}
}

// Header returns what documents and manifests of a set begin with; times are the
// caller's to set.
func (s *Store) Header(set string, c resourcesync.Capability) resourcesync.Header {
	return resourcesync.Header{Capability: c, Links: []resourcesync.Link{{Rel: resourcesync.RelUp, Href: s.CapabilityList(set)}}} // RS-AMB-18
}

// After returns the time, or if that is not after t, the next instant that is:
// Last-Modified never goes back, whatever the clock does.
func (s *Store) After(t time.Time) time.Time {
	if now := s.Now(); now.After(t) {
		return now
	}
	return t.Add(time.Millisecond)
}

// A Listing is the documents of a set that a store has listed.
type Listing interface {
	Known(name string) bool
	Add(info blob.Info)
}

// Confirm adds to there those of the documents that exist although it does not have them: a
// service may list a document only some time after it was committed.
func (s *Store) Confirm(ctx context.Context, there Listing, docNames ...string) error {
	for _, name := range docNames {
		if there.Known(name) {
			continue
		}
		switch info, err := s.Stat(ctx, name); {
		case err == nil:
			there.Add(info)
		case !errors.Is(err, blob.ErrNotExist):
			return err
		}
	}
	return nil
}

// Begin begins the document h under name. What was begun is either committed
// or discarded.
func (s *Store) Begin(ctx context.Context, name string, h resourcesync.Header, mod time.Time) (*Writer, error) {
	return s.BeginTo(ctx, name, h, mod, func(w io.Writer) io.Writer { return w })
}

// BeginTo begins a document that goes to its blob through something else.
func (s *Store) BeginTo(ctx context.Context, name string, h resourcesync.Header, mod time.Time, through func(io.Writer) io.Writer) (*Writer, error) {
	b, err := s.Create(ctx, name)
	if err != nil {
		return nil, err
	}
	b.SetModTime(mod)
	w, err := resourcesync.NewWriter(through(b), h)
	if err != nil {
		_ = b.Close() // nothing was written
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	d := NewWriter(w, s.MaxEntries, s.MaxBytes, s.Log)
	d.Blob = b
	return d, nil
}

// WriteDocument writes entries as the document h under name, to a blob that is
// to be committed or closed.
func (s *Store) WriteDocument(ctx context.Context, name string, h resourcesync.Header, stamp time.Time, entries []resourcesync.Entry) (blob.Writer, error) {
	d, err := s.Begin(ctx, name, h, stamp)
	if err != nil {
		return nil, err
	}
	for i := range entries {
		if err := d.Write(&entries[i]); err != nil {
			d.Discard()
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	if err := d.Close(); err != nil {
		d.Discard()
		return nil, err
	}
	return d.Blob, nil
}

// ReadDocument reads a published document that we wrote and its entries, if fits
// accepts its header. It returns the zero Header where there is none, or
// another; wrong says what is not as we wrote it.
func (s *Store) ReadDocument(ctx context.Context, name string, fits func(*resourcesync.Header) bool) (h resourcesync.Header, entries []resourcesync.Entry, wrong, err error) {
	r, err := s.Open(ctx, name)
	if errors.Is(err, blob.ErrNotExist) {
		return h, nil, nil, nil
	}
	if err != nil {
		return h, nil, nil, err
	}
	defer r.Close() // opened for reading only
	read := &ErrorReader{R: r}
	d := resourcesync.NewReader(read, resourcesync.ReaderOptions{Base: s.Base.URI(name), Strict: true})
	h, wrong = d.Header()
	if wrong == nil && !fits(&h) {
		return resourcesync.Header{}, nil, nil, nil
	}
	if wrong == nil {
		for e, err := range d.Entries() {
			if wrong = err; wrong != nil {
				break
			}
			entries = append(entries, e)
		}
	}
	switch {
	case read.Err != nil:
		return resourcesync.Header{}, nil, nil, fmt.Errorf("%s: %w", name, read.Err)
	case wrong != nil:
		return resourcesync.Header{}, nil, wrong, nil
	}
	return h, entries, nil, nil
}

// An ErrorReader remembers why reading failed, for callers that must distinguish a
// document that cannot be read from one that is no document.
type ErrorReader struct {
	R   io.Reader
	Err error // except io.EOF
}

// Read implements [io.Reader].
func (r *ErrorReader) Read(p []byte) (int, error) {
	n, err := r.R.Read(p)
	if err != nil && err != io.EOF {
		r.Err = err
	}
	return n, err
}

// ReadBlob returns a blob of ours, which is known to be small. What does not
// exist is nil.
func (s *Store) ReadBlob(ctx context.Context, name string) ([]byte, time.Time, error) {
	r, err := s.Open(ctx, name)
	if errors.Is(err, blob.ErrNotExist) {
		return nil, time.Time{}, nil
	}
	if err != nil {
		return nil, time.Time{}, err
	}
	data, err := io.ReadAll(r)
	_ = r.Close() // opened for reading only
	if err != nil {
		return nil, time.Time{}, fmt.Errorf("read %s: %w", name, err)
	}
	return data, r.Info().ModTime, nil
}

// CommitBlob writes a small blob.
func (s *Store) CommitBlob(ctx context.Context, name string, data []byte, mod time.Time) error {
	w, err := s.CreateBlob(ctx, name, data, mod)
	if err != nil {
		return err
	}
	defer w.Close() // does nothing after Commit
	return s.Commit(ctx, w)
}

// CreateBlob writes a small blob, which is to be committed or closed.
func (s *Store) CreateBlob(ctx context.Context, name string, data []byte, mod time.Time) (blob.Writer, error) {
	w, err := s.Create(ctx, name)
	if err != nil {
		return nil, err
	}
	if _, err := w.Write(data); err != nil {
		_ = w.Close() // the write's error says more
		return nil, err
	}
	if !mod.IsZero() {
		w.SetModTime(mod)
	}
	return w, nil
}

// Digest returns the sha-256 of a blob in hex, "" if there is none.
func (s *Store) Digest(ctx context.Context, name string) (string, error) {
	r, err := s.Open(ctx, name)
	if errors.Is(err, blob.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	defer r.Close() // opened for reading only
	sum := sha256.New()
	if _, err := io.Copy(sum, r); err != nil {
		return "", fmt.Errorf("read %s: %w", name, err)
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}

// Encode returns the document of the entries.
func Encode(h resourcesync.Header, entries ...resourcesync.Entry) ([]byte, error) {
	var buf bytes.Buffer
	w, err := resourcesync.NewWriter(&buf, h)
	if err != nil {
		return nil, err
	}
	for i := range entries {
		if err := w.Write(&entries[i]); err != nil {
			return nil, err
		}
	}
	err = w.Close()
	return buf.Bytes(), err
}
