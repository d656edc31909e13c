package intake

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"sync"
)

// MemContents are Contents in memory. The zero value is empty.
type MemContents struct {
	mu   sync.Mutex                              // guards kept
	kept map[string]map[string]map[string][]byte // by set, URI and hash
}

var _ Contents = (*MemContents)(nil)

// Put implements [Contents].
func (m *MemContents) Put(_ context.Context, set string, cs []Content) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.kept == nil {
		m.kept = make(map[string]map[string]map[string][]byte)
	}
	s := m.kept[set]
	if s == nil {
		s = make(map[string]map[string][]byte)
		m.kept[set] = s
	}
	for _, c := range cs {
		if s[c.URI] == nil {
			s[c.URI] = make(map[string][]byte, 1)
		}
		s[c.URI][c.Hash] = append([]byte{}, c.Bytes...)
	}
	return nil
}

// Get implements [Contents].
func (m *MemContents) Get(_ context.Context, set, uri, hash string) ([]byte, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	b, ok := m.kept[set][uri][hash]
	if !ok {
		return nil, fmt.Errorf("content of %s: %w", uri, fs.ErrNotExist)
	}
	return bytes.Clone(b), nil
}

// Settle implements [Contents].
func (m *MemContents) Settle(_ context.Context, set string, cs []Content) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	stay := make(map[string]map[string]bool)
	for _, c := range cs {
		if stay[c.URI] == nil {
			stay[c.URI] = make(map[string]bool, 1)
		}
		stay[c.URI][c.Hash] = true
	}
	for uri, hashes := range stay {
		for hash := range m.kept[set][uri] {
			if !hashes[hash] {
				delete(m.kept[set][uri], hash)
			}
		}
	}
	return nil
}

// Drop implements [Contents].
func (m *MemContents) Drop(_ context.Context, set string, uris []string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, uri := range uris {
		delete(m.kept[set], uri)
	}
	return nil
}

// Clear implements [Contents].
func (m *MemContents) Clear(_ context.Context, set string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.kept, set)
	return nil
}
