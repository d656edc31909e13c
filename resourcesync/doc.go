// Package resourcesync holds the documents of the ResourceSync framework
// (ANSI/NISO Z39.99-2017): their types, a streaming [Reader] and a [Writer].
//
// Every document is a [Header] followed by any number of [Entry] values. A
// Header says what the document is (its [Capability], whether it is an index,
// the instant or interval it covers, links to its neighbours); an Entry names
// one resource, one change, one package or one other document.
//
// The Reader streams: its memory does not grow with the number of entries. It
// is lenient, reporting each liberty it takes as a [Warning], or strict, where
// the same liberty is an error. The Writer is always strict.
package resourcesync
