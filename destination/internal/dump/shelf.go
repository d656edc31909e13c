package dump

import "sync"

const (
	// shelfBytes and shelfFiles limit the packages that are kept because their
	// manifests were read from inside, and their content may be needed next.
	shelfBytes = 1 << 30
	shelfFiles = 64
)

// A Shelf stores packages that were fetched whole, from reading their manifests
// until their content is used: from servers without ranges they would otherwise be
// fetched twice. The zero value is empty. It is safe for concurrent use.
type Shelf struct {
	mu    sync.Mutex // guards the fields below
	kept  map[string]*spool
	bytes int64
}

// put stores the package from uri, or closes it if there is no room.
func (s *Shelf) put(uri string, p *spool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.kept[uri]; ok || s.bytes+p.n > shelfBytes || len(s.kept) >= shelfFiles {
		_ = p.Close() // opened for reading only
		return
	}
	if s.kept == nil {
		s.kept = map[string]*spool{}
	}
	s.kept[uri], s.bytes = p, s.bytes+p.n
}

// Keep stores the package from uri if it was fetched whole, otherwise closes it.
func (s *Shelf) Keep(uri string, f File) {
	if whole, ok := f.(*spool); ok {
		s.put(uri, whole)
		return
	}
	_ = f.Close() // opened for reading only
}

// take removes and returns the package from uri, or nil. The caller must close it.
func (s *Shelf) take(uri string) *spool {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.kept[uri]
	if p != nil {
		delete(s.kept, uri)
		s.bytes -= p.n
	}
	return p
}

// Clear closes the packages that were not taken.
func (s *Shelf) Clear() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.kept {
		_ = p.Close() // opened for reading only
	}
	s.kept, s.bytes = nil, 0
}
