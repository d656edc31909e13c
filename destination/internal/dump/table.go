package dump

import (
	"sync"

	"lockstep/internal/fetch"
	"lockstep/resourcesync"
)

// A Ref is a package as a dump names it.
type Ref struct {
	URI      string
	Length   int64               // as the dump states it; -1: not stated
	Hashes   resourcesync.Hashes // of the package as a whole
	Contents *resourcesync.Link  // to a copy of its manifest; nil: none
	Listing  bool                // its manifest states what the set has; otherwise only where content is stored
	Refused  string              // why it must not be fetched; "": it may be
	Copy     Copy                // copy of its manifest that was read; zero: none
	members  int                 // the number of members its manifest names; zero: unknown
}

// A Table numbers the packages of one run over a set, from 1.
type Table struct {
	mu    sync.Mutex // guards the fields below
	refs  []Ref
	byURI map[string]int
	later bool // see MayYieldMore

	Shelf Shelf
}

// Add stores a package and returns its number.
func (t *Table) Add(ref Ref) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	if n, ok := t.byURI[ref.URI]; ok {
		ref.Listing = ref.Listing || t.refs[n-1].Listing
		t.refs[n-1] = ref // the later reading is more recent
		return n
	}
	if t.byURI == nil {
		t.byURI = map[string]int{}
	}
	t.refs = append(t.refs, ref)
	t.byURI[ref.URI] = len(t.refs)
	return len(t.refs)
}

// Get returns package n, if there is one.
func (t *Table) Get(n int) (Ref, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if n < 1 || n > len(t.refs) {
		return Ref{}, false
	}
	return t.refs[n-1], true
}

// Known reports whether there are packages in the table.
func (t *Table) Known() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.refs) > 0
}

// NoteManifest records the result of reading the manifest of package n.
func (t *Table) NoteManifest(n, members int, c Copy) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.refs[n-1].members, t.refs[n-1].Copy = members, c
}

// NoteFailure records why a package, or its manifest, could not be read.
func (t *Table) NoteFailure(err error) {
	if MayPass(err) {
		t.mu.Lock()
		t.later = true
		t.mu.Unlock()
	}
}

// MayYieldMore reports whether a package that could not be read may be readable later.
func (t *Table) MayYieldMore() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.later
}

// MayPass reports whether what could not be read because of err may be readable later: its server was in trouble, or
// asked to wait.
func MayPass(err error) bool { return fetch.Passing(err) || !fetch.NotBefore(err).IsZero() }

// Entry returns the entry of the dump, as far as it is stored.
func (ref *Ref) Entry() *resourcesync.Entry {
	e := resourcesync.Entry{Loc: ref.URI, Metadata: resourcesync.Metadata{Hashes: ref.Hashes}}
	if ref.Length >= 0 {
		e.Length, e.HasLength = ref.Length, true
	}
	if ref.Contents != nil {
		e.Links = []resourcesync.Link{*ref.Contents}
	}
	return &e
}

// Package returns the package for an [Opener].
func (ref *Ref) Package() Package {
	return Package{URI: ref.URI, Length: ref.Length, Hashes: ref.Hashes, Members: ref.members}
}
