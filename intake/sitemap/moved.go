package sitemap

import (
	"context"
	"errors"
	"iter"

	"lockstep/discover"
	"lockstep/intake/internal/filestat"
)

// Documents are read one after the other. A resource that moves meanwhile from one that is
// still to be read to one that was read already is found in neither. So what is in no
// document counts as gone only if none has changed while they were read; or else if the next
// reading does not find it either.

// unchanged reports whether all documents are as they were when they were read. Those
// without validators may not be.
func (r *reading) unchanged(ctx context.Context) bool {
	for uri := range r.visited {
		known, ok := r.now.Docs[uri]
		if !ok || !r.isStill(ctx, uri, known) {
			return false
		}
	}
	return true
}

// isStill reports whether a document is as it was. An error is reported by the next reading.
func (r *reading) isStill(ctx context.Context, uri string, known document) bool {
	if path, local := localPath(uri); local {
		return filestat.MarkAt(path) == known.Mark
	}
	doc, err := discover.Open(ctx, r.s.client, uri, discover.Validators{ETag: known.ETag, LastModified: known.Modified})
	if err != nil {
		return errors.Is(err, discover.ErrNotModified)
	}
	_ = doc.Close() // only read from
	return known.ETag != "" && doc.ETag == known.ETag
}

// close removes the temporary files.
func (r *reading) close() {
	r.list.Close()
	r.missed.close()
}

// A missed is the resources that a reading did not find.
type missed struct {
	from *reading
	next func() (string, error, bool)
	stop func()
	uri  string // the next one
	more bool
	err  error
}

func newMissed(r *reading) *missed {
	m := &missed{from: r}
	m.next, m.stop = iter.Pull2(r.list.Gone.All())
	m.uri, m.err, m.more = m.next()
	return m
}

// has reports whether a resource is one of them. It is called in the order of URIs. With
// a nil missed, every resource counts as missed.
func (m *missed) has(uri string) (bool, error) {
	if m == nil {
		return true, nil
	}
	for m.more && m.err == nil && m.uri < uri {
		m.uri, m.err, m.more = m.next()
	}
	return m.more && m.uri == uri, m.err
}

func (m *missed) close() {
	if m != nil {
		m.stop()
		m.from.close()
	}
}
