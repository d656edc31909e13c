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

// The packages below destination/internal, in the order in which a run uses them:
//
//	state           opens the mirror: recovery and intent settle what a killed run
//	                left, localcheck examines the mirror's own files, reclaim decides
//	                whether files that exist already are its own
//	sets            finds the sets of the Source and loads their states
//	run             brings a set into step with its documents; substitute reads one
//	                document in place of another, outage remembers which could not be
//	                read; harvest is for sets without documents, restore for past states
//	entries         reads documents, archives their archives, dump their packages;
//	                catchup closes gaps with archived changes
//	stage           sorts the entries by URI, in bounded memory (desired, selection,
//	                representation, scratch)
//	reconcile       plans and applies what is staged: planner compares it with the
//	                Journal, which results in actions (plan); adopt accepts files that
//	                exist already; pending and deferral handle what earlier runs could
//	                not do
//	transfer        fetches the content of one resource, bulk that of many together
//	apply           commits contents and records what is held; deletions come last
//	history         keeps what a batch replaces or removes
//	outbox          delivers each change at least once
//	proof           decides whether the mirror is known to be complete
//
// A [Follower] is a loop in package follow, which calls followmirror.go for each pass
// over a set. Package inbox makes notifications durable before they are acknowledged,
// notification applies them without reading the Source's documents, and push remembers
// what they brought until the documents confirm or contradict it.
//
// Package audit compares the same plan with the files, and diff two past states.
