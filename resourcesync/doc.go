// Package resourcesync reads and writes the documents of the ResourceSync
// framework (ANSI/NISO Z39.99-2017): it has their types, a streaming [Reader]
// and a [Writer].
//
// Every document is a [Header] followed by any number of [Entry] values. A
// Header describes the document (its [Capability], whether it is an index, the
// instant or interval it covers, links to related documents); an Entry names
// one resource, one change, one package or one other document.
//
// The Reader streams: its memory does not grow with the number of entries. It
// is either lenient, reporting each deviation from the standard that it accepts
// as a [Warning], or strict, where the same deviation is an error. The Writer
// is always strict.
//
// Reader and Writer are one package, although it is large, because both are
// defined by the types of documents and check the same rules. The form of single
// values is in packages below it.
package resourcesync
