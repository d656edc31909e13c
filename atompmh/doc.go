// Package atompmh reads and writes the documents of the Atom Feed Protocol for
// Metadata Harvesting (Atom-PMH): Atom feeds (RFC 4287), divided into documents
// by RFC 5005, whose entries describe events of metadata records.
//
// It processes one document at a time. Conclusions from several documents, such
// as which entry of a record is the newest, are left to the caller.
package atompmh
