package atompmh

import (
	"crypto/sha1"
	"encoding/hex"
	"time"
)

// MediaType is the media type of the documents (AP-DOC-11).
const MediaType = "application/atom+xml"

// The namespaces used in the documents.
const (
	Namespace           = "http://www.w3.org/2005/Atom"             // RFC 4287, 1.2
	NamespaceHistory    = "http://purl.org/syndication/history/1.0" // RFC 5005
	NamespaceTombstones = "http://purl.org/atompub/tombstones/1.0"  // RFC 6721
)

// A Feed is the description of a document.
type Feed struct {
	ID      string    // of the logical feed; the same in all its documents (AP-DOC-04)
	Title   string    // plain text
	Author  string    // the name of the first author
	Updated time.Time // zero: not stated

	Self        string // address of the document
	Current     string // of the subscription document (AP-TS-06)
	PrevArchive string // of the next older document; "" on the oldest (AP-TS-05)
	NextArchive string // of the next newer one

	Archive  bool // fh:archive: this is an archive document
	Complete bool // fh:complete: records that are not in it do not exist (AP-CMP-01)

	Links []Link // other links
}

// A Link is a link from a feed or an entry.
type Link struct {
	Rel      string // never ""; registered relations in lower case
	Href     string // absolute URI
	Type     string // media type; "": not stated
	Hreflang string
	Title    string
	Length   int64 // bytes; 0: not stated
}

// RelAlternate is the relation from an entry to the representations of its
// record (AP-GEN-05).
const RelAlternate = "alternate"

// RelFeed is the relation by which a Capability List names the feed of its set: an
// extension that other implementations ignore (RS-LN-04).
const RelFeed = "urn:x-lockstep:atom-pmh"

// A Kind is the kind of event that an entry reports. Whether an Active entry
// has become obsolete is only known from the whole logical feed.
type Kind uint8

const (
	Active   Kind = iota + 1 // the record exists (AP-CLS-02)
	Deletion                 // the record was deleted (AP-CLS-01)
)

// String returns the name of k.
func (k Kind) String() string {
	switch k {
	case Active:
		return "active"
	case Deletion:
		return "deletion"
	}
	return "undefined"
}

// An Entry reports one event of one record (AP-GEN-04).
type Entry struct {
	ID      string // of the record; compared byte by byte (AP-DOC-09)
	Title   string // plain text; HTML titles keep their tags
	Updated time.Time
	Kind    Kind
	Links   []Link // alternates and others, in the order of the document
	Summary string // like Title
}

// Alternates returns the links to representations of the record.
func (e *Entry) Alternates() []Link {
	n := 0
	for i := range e.Links {
		if e.Links[i].Rel == RelAlternate {
			n++
		}
	}
	if n == len(e.Links) {
		return e.Links
	}
	out := make([]Link, 0, n)
	for i := range e.Links {
		if e.Links[i].Rel == RelAlternate {
			out = append(out, e.Links[i])
		}
	}
	return out
}

// RecordID returns a stable identifier for the record at uri: urn:uuid with the
// UUID of version 5 of uri in the namespace of URLs (RFC 9562, 5.5).
func RecordID(uri string) string {
	// The namespace of URLs, 6ba7b811-9dad-11d1-80b4-00c04fd430c8.
	space := [...]byte{0x6b, 0xa7, 0xb8, 0x11, 0x9d, 0xad, 0x11, 0xd1, 0x80, 0xb4, 0x00, 0xc0, 0x4f, 0xd4, 0x30, 0xc8}
	h := sha1.New()
	h.Write(space[:])
	h.Write([]byte(uri))
	var sum [sha1.Size]byte
	u := h.Sum(sum[:0])[:16]
	u[6] = u[6]&0x0f | 0x50
	u[8] = u[8]&0x3f | 0x80
	b := append(make([]byte, 0, 45), "urn:uuid:"...)
	for i, part := range [...][]byte{u[:4], u[4:6], u[6:8], u[8:10], u[10:]} {
		if i > 0 {
			b = append(b, '-')
		}
		b = hex.AppendEncode(b, part)
	}
	return string(b)
}
