package source

import (
	"io"
	"sync"
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
