package resourcesync

import (
	"errors"

	"lockstep/internal/xmlscan"
)

// Limits of the Writer (RS-IDX-01).
const (
	MaxEntries = 50_000     // entries of one document
	MaxBytes   = 50_000_000 // bytes of one document, uncompressed; below 50 MB by every interpretation (RS-AMB-16)
)

// Limits of the Reader, in addition to those of package xmlscan; each comment
// says what the limit prevents. They are well above what the standard allows:
// larger documents are read with a warning (RS-IDX-03).
const (
	maxLinks     = 1000    // links of one entry or root: memory filled by one entry
	maxEntryText = 4 << 20 // bytes stored of one entry, or of the root's links: the same
	maxWarnings  = 20      // warnings reported per rule: an endless sequence of callbacks

	// DefaultReadBytes is how many bytes of a document, uncompressed, a Reader
	// reads by default: it stops endless documents and decompression bombs.
	DefaultReadBytes = 1 << 30

	// warnBytes is the size from which the Reader warns (RS-IDX-01).
	warnBytes = 52_428_800
)

var (
	// ErrTooLarge reports an entry with which a document would exceed MaxEntries or
	// MaxBytes. The entry was not written: it belongs in another document.
	ErrTooLarge = errors.New("document would exceed 50,000 entries or 50,000,000 bytes")

	// ErrLimit reports a document that exceeds a limit of the Reader.
	ErrLimit = xmlscan.ErrLimit
)
