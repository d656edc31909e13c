package ledger

import (
	"context"
	"iter"
	"maps"
	"slices"
	"sync"
)

// Mem is a [Ledger] in memory. The zero value is empty and ready to use.
type Mem struct {
	mu   sync.RWMutex // guards sets
	sets map[string]*memSet
}

type memSet struct {
	rows   map[string]Row
	owners map[string]map[string]struct{} // IDs by URI
}

// Lookup implements [Ledger].
func (m *Mem) Lookup(ctx context.Context, set string, ids []string) ([]Row, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	m.mu.RLock()
	defer m.mu.RUnlock()
	rows := make([]Row, len(ids))
	if s := m.sets[set]; s != nil {
		for i, id := range ids {
			rows[i] = s.rows[id].clone()
		}
	}
	return rows, nil
}

func (r Row) clone() Row {
	r.Resources, r.Next, r.New = slices.Clone(r.Resources), slices.Clone(r.Next), false
	return r
}

// Owners implements [Ledger].
func (m *Mem) Owners(ctx context.Context, set string, uris []string, except func(string) bool) ([]string, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	m.mu.RLock()
	defer m.mu.RUnlock()
	owners := make([]string, len(uris))
	s := m.sets[set]
	if s == nil {
		return owners, nil
	}
	for i, uri := range uris {
		for id := range s.owners[uri] {
			if (owners[i] == "" || id < owners[i]) && !except(id) {
				owners[i] = id
			}
		}
	}
	return owners, nil
}

// Record implements [Ledger].
func (m *Mem) Record(ctx context.Context, set string, put []Row, drop []string) error {
	if err := Check(set, put, drop); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.sets[set]
	if s == nil {
		s = &memSet{make(map[string]Row), make(map[string]map[string]struct{})}
		if m.sets == nil {
			m.sets = make(map[string]*memSet)
		}
		m.sets[set] = s
	}
	for _, id := range drop {
		s.drop(id)
	}
	for _, r := range put {
		s.drop(r.ID)
		s.rows[r.ID] = r.clone()
		for _, res := range r.Resources {
			if s.owners[res.URI] == nil {
				s.owners[res.URI] = make(map[string]struct{})
			}
			s.owners[res.URI][r.ID] = struct{}{}
		}
	}
	return nil
}

func (s *memSet) drop(id string) {
	for _, res := range s.rows[id].Resources {
		delete(s.owners[res.URI], id)
		if len(s.owners[res.URI]) == 0 {
			delete(s.owners, res.URI)
		}
	}
	delete(s.rows, id)
}

// Rows implements [Ledger].
func (m *Mem) Rows(ctx context.Context, set string) iter.Seq2[Row, error] {
	return m.some(ctx, set, func(Row) bool { return true })
}

// Open implements [Ledger].
func (m *Mem) Open(ctx context.Context, set string) iter.Seq2[Row, error] {
	return m.some(ctx, set, func(r Row) bool { return r.Open != OpenNothing })
}

func (m *Mem) some(ctx context.Context, set string, wanted func(Row) bool) iter.Seq2[Row, error] {
	return func(yield func(Row, error) bool) {
		var rows []Row
		m.mu.RLock()
		if s := m.sets[set]; s != nil {
			for _, id := range slices.Sorted(maps.Keys(s.rows)) {
				if wanted(s.rows[id]) {
					rows = append(rows, s.rows[id].clone())
				}
			}
		}
		m.mu.RUnlock()
		for _, r := range rows {
			if err := ctx.Err(); err != nil {
				yield(Row{}, err)
				return
			}
			if !yield(r, nil) {
				return
			}
		}
	}
}

// URIs implements [Ledger].
func (m *Mem) URIs(ctx context.Context, set string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		var uris []string
		m.mu.RLock()
		if s := m.sets[set]; s != nil {
			uris = slices.Sorted(maps.Keys(s.owners))
		}
		m.mu.RUnlock()
		for _, uri := range uris {
			if err := ctx.Err(); err != nil {
				yield("", err)
				return
			}
			if !yield(uri, nil) {
				return
			}
		}
	}
}
