// Package destination keeps a copy of a Source in step with it.
//
// A run flows through the files of this package, top to bottom:
//
//	sync.go      which sets, baseline or incremental, in which order
//	origin.go    documents in, Entries out: Resource Lists and Change Lists
//	stage.go     what the Source says now, sorted by URI, in bounded memory
//	plan.go      compared with the Journal: Actions; a dry run stops here
//	fetch.go     one resource over the network, resumed where it was left
//	verify.go    length and every known hash
//	apply.go     batches committed to the blob.Store, deletions last
//	record.go    the Journal: what is held, what is owed, how far we are
//	audit.go     the same plan against the files; changes nothing
//
// The order of writes is: verify, note the intent, commit the files, record
// what is held. Whatever step a crash falls between, the next run finds either
// the intent, and looks at the files it names, or a finished batch.
package destination
