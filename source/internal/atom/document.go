package atom

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"iter"
	"strings"

	"lockstep/atompmh"
	"lockstep/blob"
	"lockstep/source/internal/document"
	"lockstep/source/internal/names"
)

// An openDocument is a document of a feed that is being written. What was begun
// is either committed or discarded.
type openDocument struct {
	*atompmh.Writer
	blob blob.Writer
	sum  hash.Hash
	size int64
}

// Write takes bytes of the document.
func (d *openDocument) write(p []byte) (int, error) {
	n, err := d.blob.Write(p)
	d.sum.Write(p[:n])
	d.size += int64(n)
	return n, err
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

// document begins the document name of the feed next: its newest entry is of the
// instant updated, in milliseconds (AP-TS-01, AP-TS-13). prev and succ are the
// names of the older and the newer archive beside it, "" where there is none.
func (a *update) document(ctx context.Context, next *feed, name, prev, succ string, updated int64) (*openDocument, error) {
	b, err := a.docs.Create(ctx, name)
	if err != nil {
		return nil, err
	}
	b.SetModTime(next.Stamp)
	f := atompmh.Feed{ID: next.ID, Title: next.Title, Author: next.Author, Updated: millis(updated), Self: a.docs.Base.URI(name), Complete: next.Complete} // AP-DOC-02, AP-DOC-03, AP-DOC-04
	if prev != "" {
		f.PrevArchive = a.docs.Base.URI(prev) // AP-TS-05
	}
	if name != names.Feed(a.set.Name).Document() { // AP-TS-06
		f.Archive, f.Current = true, a.docs.Base.URI(names.Feed(a.set.Name).Document())
		if succ != "" {
			f.NextArchive = a.docs.Base.URI(succ)
		}
	}
	d := &openDocument{blob: b, sum: sha256.New()}
	if d.Writer, err = atompmh.NewWriter(writerFunc(d.write), f); err != nil {
		_ = b.Close() // nothing of it is wanted
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return d, nil
}

func (d *openDocument) discard() { _ = d.blob.Close() } // nothing of it is wanted

func (d *openDocument) digest() string { return hex.EncodeToString(d.sum.Sum(nil)) }

// readDocument yields the entries of a published document, in order, and then returns
// by doc what it says of itself. What is not as we write it is errLost.
func (s *Feeds) readDocument(ctx context.Context, name, id string, doc *atompmh.Feed) iter.Seq2[atompmh.Entry, error] {
	return func(yield func(atompmh.Entry, error) bool) {
		r, err := s.docs.Open(ctx, name)
		if errors.Is(err, blob.ErrNotExist) {
			err = fmt.Errorf("%s: %w: there is none", name, errLost)
		}
		if err != nil {
			yield(atompmh.Entry{}, err)
			return
		}
		defer r.Close() // opened for reading only
		read := &document.ErrorReader{R: r}
		d := atompmh.NewReader(read, atompmh.ReaderOptions{Base: s.docs.Base.URI(name)})
		for e, err := range d.Entries() {
			if err != nil {
				yield(atompmh.Entry{}, lostUnless(read.Err, name, err))
				return
			}
			if !yield(e, nil) {
				return
			}
		}
		f, err := d.Feed()
		if err == nil && f.ID != id {
			err = fmt.Errorf("it is of the feed %s", f.ID)
		}
		if err != nil {
			yield(atompmh.Entry{}, lostUnless(read.Err, name, err))
			return
		}
		*doc = f
	}
}

// lostUnless returns why a document could not be read: failed, or else wrong.
func lostUnless(failed error, name string, wrong error) error {
	if failed != nil {
		return fmt.Errorf("%s: %w", name, failed)
	}
	return fmt.Errorf("%s: %w: %w", name, errLost, wrong)
}

// nameOf returns the name of the document of the set's feed at uri, "" if it
// is none.
func (s *Feeds) nameOf(set, uri string) string {
	name, ok := strings.CutPrefix(uri, s.docs.Base.Prefix)
	if !ok || name != names.Feed(set).Document() && names.Feed(set).ArchiveChain(name) == "" {
		return ""
	}
	return name
}

var _ io.Writer = writerFunc(nil)
