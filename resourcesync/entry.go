package resourcesync

import "lockstep/resourcesync/internal/lexical"

// An Entry is one <url> or <sitemap> of a document.
type Entry struct {
	Loc        string   // absolute URI as written in the document, trimmed (RS-AMB-23)
	Lastmod    Datetime // last modification of the resource, not of the event (RS-EM-05)
	ChangeFreq string   // a hint; empty when absent (RS-XML-14)
	Metadata            // the entry's rs:md
	Links      []Link   // the entry's rs:ln, in document order
	Foreign    Foreign  // attributes of the rs:md and elements that are in namespaces of a community
}

// Link returns the target of the entry's first link with relation rel, or "".
func (e *Entry) Link(rel string) string { return linkTo(e.Links, rel) }

// EventTime returns the time of the change: the entry's datetime, else its
// lastmod (RS-EM-07). The caller must check that lastmod may be used: only if
// no entry of the document has a datetime.
func (e *Entry) EventTime() Datetime {
	if !e.Datetime.IsZero() {
		return e.Datetime
	}
	return e.Lastmod
}

// Metadata is the content of an rs:md element about a resource, a package or a
// document. Absent attributes have the zero value.
type Metadata struct {
	Capability Capability // in Source Descriptions and Capability Lists only
	Change     Change     // in change documents only
	Datetime   Datetime   // instant of the change
	At         Datetime   // snapshot started
	Completed  Datetime   // snapshot ended
	From       Datetime   // interval starts
	Until      Datetime   // interval ends; absent: open
	Hashes     Hashes     // of the representation at Loc (RS-HASH-05)
	Length     int64      // in bytes; meaningful only if HasLength
	HasLength  bool       // the document states a length, which may be 0
	Type       string     // media type
	Encoding   string     // content coding, as in the HTTP header Content-Encoding
	Path       string     // path in a package; manifests only
	ETag       string     // of pre-beta documents: usable as a validator (RS-VER-13); never written
}

// ValidMediaType reports whether s is a media type, with or without parameters
// (RS-TYPE-01). It checks only the form of parameters.
func ValidMediaType(s string) bool { return lexical.MediaType(s) }
