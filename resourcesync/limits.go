package resourcesync

import (
	"errors"

	"lockstep/internal/xmlscan"
)

// What the Writer keeps to (RS-IDX-01).
const (
	MaxEntries = 50_000     // entries of one document
	MaxBytes   = 50_000_000 // bytes of one document, uncompressed; below 50 MB by every reading (RS-AMB-16)
)

// What the Reader accepts, beside the caps of package xmlscan; each says what it
// prevents. They lie well above what the standard allows: documents beyond it
// are read with a warning (RS-IDX-03).
const (
	maxLinks     = 1000    // links of one entry or root: memory filled by one entry
	maxEntryText = 4 << 20 // bytes kept of one entry: the same
	maxHashes    = 16      // values of one hash attribute that are looked at
	maxWarnings  = 20      // warnings of one rule that are told: a callback called for ever

	// DefaultReadBytes is how many bytes of a document, uncompressed, a Reader
	// reads by default: a document without end, or a bomb.
	DefaultReadBytes = 1 << 30

	// warnBytes is the size from which the Reader warns (RS-IDX-01).
	warnBytes = 52_428_800
)

var (
	// ErrTooLarge reports an entry that would take a document over MaxEntries
	// or MaxBytes. The entry was not written: it belongs in another document.
	ErrTooLarge = errors.New("document would exceed 50,000 entries or 50,000,000 bytes")

	// ErrLimit reports a document that goes beyond what a Reader accepts.
	ErrLimit = xmlscan.ErrLimit
)
