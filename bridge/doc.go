// Package bridge lets a Destination follow sources that are not ResourceSync: an
// Atom feed (Atom-PMH) or an OAI-PMH repository.
//
// Harvested records go into a catalog, by the same intake that adds them to a
// Source, and the Destination reads the catalog:
//
//	feed, repository
//	   | harvest    by the rules of its protocol                     intake
//	   v
//	catalog         current state, and changes since n               storage/sqlite
//	   | Origin     entries, changes, contents                       bridge
//	   v
//	Destination     plan, fetch, verify, apply, record
//
// So there is one implementation of harvesting, and one of synchronizing files.
package bridge
