package source

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

	"lockstep/blob"
	"lockstep/resourcesync"
)

// An archiveMemory is what a Source holds of published archives, by the name of
// their entry documents.
type archiveMemory struct {
	mu sync.Mutex // guards by
	by map[string]*archived
}

func (m *archiveMemory) get(name string) *archived {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.by[name]
}

func (m *archiveMemory) put(name string, a *archived) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.by == nil {
		m.by = make(map[string]*archived)
	}
	if a == nil {
		delete(m.by, name)
		return
	}
	m.by[name] = a
}

// readWhole reads a published document that we wrote and its entries, if fits
// says of its header that it is the one. It returns the zero Header where there
// is none, or another; wrong says what is not as we wrote it.
func (s *Source) readWhole(ctx context.Context, name string, fits func(*resourcesync.Header) bool) (h resourcesync.Header, entries []resourcesync.Entry, wrong, err error) {
	r, err := s.docs.Open(ctx, name)
	if errors.Is(err, blob.ErrNotExist) {
		return h, nil, nil, nil
	}
	if err != nil {
		return h, nil, nil, err
	}
	defer r.Close() // opened for reading only
	read := &errorReader{r: r}
	d := resourcesync.NewReader(read, resourcesync.ReaderOptions{Base: s.base.URI(name), Strict: true})
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
	case read.err != nil:
		return resourcesync.Header{}, nil, nil, fmt.Errorf("%s: %w", name, read.err)
	case wrong != nil:
		return resourcesync.Header{}, nil, wrong, nil
	}
	return h, entries, nil, nil
}

// An errorReader remembers why reading failed, for callers that must tell a
// document that cannot be read from one that is no document.
type errorReader struct {
	r   io.Reader
	err error // but for the end
}

func (r *errorReader) Read(p []byte) (int, error) {
	n, err := r.r.Read(p)
	if err != nil && err != io.EOF {
		r.err = err
	}
	return n, err
}
