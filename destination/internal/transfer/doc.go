// Package transfer fetches the content of single resources into the store, up to
// but not including its commit: from the resource's address or a mirror, from a
// memento, out of a package or by applying patches to what is held, whichever is
// cheapest and yields content that is as described.
package transfer
