package sqldb

import (
	"context"
	"database/sql"
	"fmt"
	"sync"
)

// A statements has compiled statements for short write transactions that are made
// all the time: to compile one takes longer than to run it. The zero value is ready
// to use; a nil one keeps no statements.
//
// A statement that outlives its transaction cannot be compiled within one, because
// there may be a single connection. So within returns a statement of the transaction
// alone the first time, and compile, called before the next one begins, compiles it.
type statements struct {
	mu       sync.Mutex
	compiled map[string]*sql.Stmt // by text; nil: to be compiled
	wanted   []string             // texts to be compiled
}

// within returns a statement of tx, which is closed with it.
func (s *statements) within(ctx context.Context, tx *sql.Tx, text string) (*sql.Stmt, error) {
	if found := s.find(text); found != nil {
		return tx.StmtContext(ctx, found), nil
	}
	stmt, err := tx.PrepareContext(ctx, text)
	if err != nil {
		return nil, fmt.Errorf("prepare statement: %w", err)
	}
	return stmt, nil
}

// find returns the compiled statement, or nil; it is wanted then.
func (s *statements) find(text string) *sql.Stmt {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	found, known := s.compiled[text]
	if !known {
		if s.compiled == nil {
			s.compiled = map[string]*sql.Stmt{}
		}
		s.compiled[text] = nil
		s.wanted = append(s.wanted, text)
	}
	return found
}

// compile compiles the statements that are wanted. Those that cannot be compiled
// are tried again by the next call: the transactions do without.
func (s *statements) compile(ctx context.Context, db *sql.DB) {
	s.mu.Lock()
	wanted := s.wanted
	s.wanted = nil
	s.mu.Unlock()
	for _, text := range wanted {
		stmt, err := db.PrepareContext(ctx, text) // closed with the connections
		s.mu.Lock()
		if s.compiled[text] = stmt; err != nil {
			delete(s.compiled, text)
		}
		s.mu.Unlock()
	}
}
