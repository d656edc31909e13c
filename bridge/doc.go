// Package bridge lets a Destination follow what is no ResourceSync Source: an
// Atom feed (Atom-PMH), an OAI-PMH repository.
//
// What is harvested goes into a catalog, by the same intake by which it becomes
// part of a Source, and the Destination reads the catalog:
//
//	feed, repository
//	   | harvest    by the rules of its protocol                     intake
//	   v
//	catalog         what is now, what changed since n                storage/sqlite
//	   | Origin     entries, changes, contents                       bridge
//	   v
//	Destination     plan, fetch, verify, apply, record
//
// So there is one implementation of harvesting, and one of keeping files in step.
package bridge
