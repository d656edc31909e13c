// Package aggregator republishes what another Source publishes: it keeps a set of a
// catalog in step with a mirror of that Source, its upstream, so that the set is
// published like any other.
//
//	u, err := aggregator.New(cat, set, options, open)
//	report, err := u.Scan(ctx)         // once
//	err = u.Watch(ctx, publish)        // until ctx ends
//
// A Destination (package destination) does the work of following the upstream: it finds
// the documents, fetches and verifies the resources, guards against mass deletions, and
// records in its Journal what the mirror holds. An [Upstream] translates the rows of
// that Journal into records of the catalog. Each gets a URI of its own below
// [Options.URI] and a via link to the resource at its origin (RS-REL-70), so that every
// copy can be traced and verified. The bytes are those of the mirror: they are neither
// copied nor read again.
//
// The catalog follows the Journal in two ways: by the batches that the Destination
// delivers, and by comparing all rows with the catalog, at the start and from time to
// time. Both look the rows up when they apply them, so the order in which they run does
// not matter, and a crash at any point only repeats work.
package aggregator
