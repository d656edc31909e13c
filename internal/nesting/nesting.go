// Package nesting bounds how far documents that lead to other documents are
// followed: indexes of lists, and chains of feed documents.
//
//	var walk nesting.Walk
//	if err := walk.Index(depth); err != nil { // end this branch, the reading is incomplete
//	...
//	walk.Yield() // a list was read
package nesting

import "fmt"

const (
	// MaxDepth is how many indexes may be nested (RS-IDX-04 allows one): a
	// chain of indexes without end.
	MaxDepth = 3
	// MaxBarren is how many consecutive documents may be without content: a tree of
	// indexes without a list, each of which costs a request.
	MaxBarren = 1000
)

var (
	// ErrDeep reports an index below too many others.
	ErrDeep = fmt.Errorf("indexes are nested more than %d deep", MaxDepth)
	// ErrBarren reports too many consecutive documents without content.
	ErrBarren = fmt.Errorf("%d documents in a row lead to no entry, so the reading ends", MaxBarren)
)

// A Walk counts the documents of one reading. The zero value is ready to use. Its
// methods must not be called concurrently.
type Walk struct{ barren int }

// Index records an index below depth others.
func (w *Walk) Index(depth int) error {
	if depth == 0 {
		return nil
	}
	if err := w.Barren(); err != nil || depth < MaxDepth {
		return err
	}
	return ErrDeep
}

// Barren records a document that has no content of its own.
func (w *Walk) Barren() error {
	w.barren++
	if w.Ended() {
		return ErrBarren
	}
	return nil
}

// Yield records a list that was read, which may be empty, or a document that has
// an entry.
func (w *Walk) Yield() {
	if !w.Ended() {
		w.barren = 0
	}
}

// Ended reports whether reading must stop.
func (w *Walk) Ended() bool { return w.barren >= MaxBarren }
