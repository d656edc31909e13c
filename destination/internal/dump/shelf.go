package dump

import "sync"

const (
	// shelfBytes and shelfFiles cap the packages that are kept because their
	// manifest was read from inside, and their content may be wanted next.
	shelfBytes = 1 << 30
	shelfFiles = 64
)

// A Shelf keeps packages that were fetched whole, from reading their
// manifests until what is wanted of them is taken: from servers that send no
// parts they would come twice. The zero value is empty.
type Shelf struct {
	mu    sync.Mutex // guards what follows
	kept  map[string]*spool
	bytes int64
}

// put keeps the package from uri, or closes it if there is no room.
func (s *Shelf) put(uri string, p *spool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.kept[uri]; ok || s.bytes+p.n > shelfBytes || len(s.kept) >= shelfFiles {
		_ = p.Close() // only read
		return
	}
	if s.kept == nil {
		s.kept = map[string]*spool{}
	}
	s.kept[uri], s.bytes = p, s.bytes+p.n
}

// Keep keeps the package from uri if it was fetched whole, else closes it.
func (s *Shelf) Keep(uri string, f File) {
	if whole, ok := f.(*spool); ok {
		s.put(uri, whole)
		return
	}
	_ = f.Close() // only read
}

// take returns the package from uri, or nil. It is the caller's from then on.
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
		_ = p.Close() // only read
	}
	s.kept, s.bytes = nil, 0
}
