// Package content copies the content of resources into a store and verifies it:
// it hashes what it copies, compares length and hashes with what the Source
// states, and distinguishes errors of the store from errors of the Source.
package content
