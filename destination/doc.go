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

// A run flows through the files of this package, top to bottom:
//
//	sync.go      a run: the way to the Source, its sets one after the other
//	             (sets.go: which sets)
//	set.go       one set: baseline or incremental
//	origin.go    documents in, Entries out: Resource Lists (list.go);
//	             changes.go: Change Lists
//	archive.go   documents of earlier times (archivetimes.go: of which);
//	             catchup.go: their changes, where the current ones begin too
//	             late
//	at.go        or what was at an instant: atset.go: a set of then, staged;
//	             past.go: as the mirror itself knows it
//	stage.go     what the Source says now, sorted by URI, in bounded memory
//	             (sorter.go sortread.go scratch.go: how; superseded.go: without
//	             what newer changes have overtaken)
//	dump.go      packages, whose manifests serve as lists; dumpchanges.go: and as
//	             Change Lists
//	plan.go      compared with the Journal: Actions; a dry run stops here
//	             (join.go: in chunks, several at a time)
//	dumpway.go   by which ways contents come; ways.go: other ways than requests
//	             for each: package.go and its neighbours, demand.go
//	fetch.go     one resource over the network: patches.go: made of what is
//	             held; transfer.go: whole, resumed where it was left;
//	             mirrors.go: from where; coding.go: coded on the way;
//	             representation.go: which of several
//	atfetch.go   contents of the past: kept versions, mementos, TimeGates;
//	             attimemap.go: TimeMaps; athints.go: dumps of that time
//	relist.go    the list again, for what was not as it said
//	wide.go      large content over several connections, where that pays
//	apply.go     outcomes booked; remove.go: deletions, last
//	commit.go    batches committed to the blob.Store
//	outbox.go    changes handed over, each at least once; applied.go: as a loop
//	sink.go      for programs that take content in place of files
//	keep.go      what a batch replaces or removes, if versions are kept
//	             (keepbytes.go: the bytes; keeptrim.go: what is dropped again)
//	recover.go   what a run that was killed left between the two
//	adopt.go     files that other programs left, taken over before the plan
//	audit.go     the same plan against the files; changes nothing
//	             (auditset.go auditcheck.go: a set, a file; bundle.go: many at
//	             a time; auditfix.go: what is found is mended)
//	diff.go      two states of the past, compared
//
// A [Follower] goes on from there:
//
//	follow.go          what it is; followrun.go: one thing after the other, sets
//	                   in turn
//	poll.go            looks at the Source, and what comes of a pass
//	followset.go       the channel of a set: a hub, which websub asks and checks
//	events.go          or a stream of events, which eventslisten.go listens to
//	inbox.go           what a hub delivered is durable before it is acknowledged
//	notification.go    a message, read as a whole
//	pushpass.go        messages of one set, taken together
//	push.go            and applied, by the same plan, fetch, verify, apply
//	                   and record, without a look at the Source's documents
//	pushstate.go       what they brought, which looks do not undo, and check
//	followjournal.go   what may as well be saved with the next transaction
