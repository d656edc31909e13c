package source

import (
	"lockstep/blob"
	"lockstep/source/internal/variant"
)

// Compressed returns a Store that keeps a compressed variant NAME.xml.gz beside
// every document NAME.xml, and such of archives of feeds, for web servers that
// serve such files to clients that accept gzip. Whatever else is written to it
// goes to docs as it is.
//
// A variant is visible before its document, so that a document that is up to
// date has one that is. It goes with its document. A Source that is given such
// a Store also sees to variants that are missing, and one that is not given one
// any more removes those it made, before they can grow stale.
//
// Bytes are compressed as they are written; nothing is held.
func Compressed(docs blob.Store) blob.Store { return variant.New(docs) }
