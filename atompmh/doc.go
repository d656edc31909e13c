// Package atompmh reads and writes the documents of the Atom Feed Protocol for
// Metadata Harvesting (Atom-PMH): Atom feeds (RFC 4287), spread over documents
// by RFC 5005, whose entries tell of metadata records.
//
// It knows documents one at a time. What follows from several of them, such as
// which entry of a record is the newest, is the business of who reads them.
package atompmh
