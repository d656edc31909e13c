// Package transfer fetches the content of single resources into the store, up to
// but not including its commit. Content comes from the resource's address, a
// mirror, a memento, a package, or patches applied to the version held: whichever
// is cheapest and yields content that matches its description.
package transfer
