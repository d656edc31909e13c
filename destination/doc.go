// Package destination keeps a copy of a Source in step with it: in a directory, in
// any other [blob.Store], or in a program that takes the content itself ([Sink]).
// Package mirror does this for a directory in one call.
//
//	client, err := destination.NewClient(source, destination.ClientOptions{})
//	d, err := destination.New(store, journal, client, destination.Options{})
//	report, err := d.Sync(ctx, source)
//
// [Destination.Sync] brings the copy into step once: everything the first time, then
// only changes. It finds the documents behind the address, compares what they say
// with the [Journal], fetches what differs, verifies it, and applies it in
// batches; deletions come last, and never beyond the allowed share
// ([Options.MaxDelete]). [Destination.Changes] does the same as a loop over the changes.
//
// [Destination.Follow] returns a [Follower], which keeps the copy in step through a
// hub, an event stream, or by polling. [Destination.Audit] compares the copy with
// the Source and changes nothing. [Options.At] and [Destination.Diff] restore and
// compare earlier states.
//
// The order of writes is: verify, record the intent, commit the files, record what
// is held. If the process dies between two of these steps, the next run finds either
// no intent, or an intent, and then checks the files that it names.
package destination

// The files of this package, in the order in which a run uses them:
//
//	sync.go      a run: finding the Source, then its sets one after the other
//	             (sets.go: which sets)
//	set.go       one set: baseline or incremental
//	origin.go    reading documents: Resource Lists (list.go) and Change Lists
//	             (changes.go)
//	archive.go   archived documents (archivetimes.go: their times); catchup.go:
//	             their changes, if the current ones begin too late
//	at.go        the state at an instant: atset.go: staging a past state of a
//	             set
//	stage.go     the Source's current state, sorted by URI, in bounded memory
//	             (sorter.go sortread.go scratch.go: sorting; superseded.go:
//	             without changes that newer ones have overtaken)
//	dump.go      packages, whose manifests serve as lists; dumpchanges.go: and as
//	             Change Lists
//	plan.go      comparing with the Journal; a dry run stops here (join.go: in
//	             chunks, several at a time)
//	dumpway.go   choosing the methods of transfer; ways.go: those other than a
//	             request for each resource: package.go and the files named
//	             after it, demand.go
//	fetch.go     one resource over the network: patches.go: as patches to what
//	             is held; transfer.go: whole, or resumed; mirrors.go: from
//	             which addresses; coding.go: content codings;
//	             representation.go: which of several representations
//	atfetch.go   contents of the past: kept versions, mementos, TimeGates;
//	             attimemap.go: TimeMaps; athints.go: dumps of that time
//	relist.go    reading the list again, if resources were not as it states
//	wide.go      large content over several connections, where that pays
//	apply.go     recording results; remove.go: deletions, last
//	commit.go    committing batches to the blob.Store
//	applied.go   delivering changes as a loop; package outbox: each at least once
//	sink.go      for programs that receive content in place of files
//	keep.go      keeping what a batch replaces or removes, by package history
//	recover.go   inconsistencies that a killed run left between the two
//	adopt.go     files that other programs left, adopted before the plan
//	audit.go     comparing the same plan with the files, without changes
//	             (auditset.go: a set; package audit: a file;
//	             auditfix.go: repairing what is found)
//	diff.go      comparing two past states
//
// A [Follower] continues from there:
//
//	follow.go          options and status; package follow has the main loop, which
//	                   serves the sets in turn, their hubs and event streams,
//	                   and package inbox makes deliveries durable before they
//	                   are acknowledged
//	followmirror.go    the passes that package follow asks for
//	notification.go    reading a whole message
//	push.go            applying messages with the same plan, fetch, verify, apply
//	                   and record, without reading the Source's documents;
//	                   package push remembers what they brought, which looks
//	                   check and do not undo
//	confirm.go         asking the Source for deletions that were notified
