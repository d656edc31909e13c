package source

import (
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
