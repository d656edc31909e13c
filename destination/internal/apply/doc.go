// Package apply carries out the actions of a plan for one set: it fetches
// contents, commits them to the store together, removes what is deleted, and
// records in the Journal what the mirror holds.
package apply
