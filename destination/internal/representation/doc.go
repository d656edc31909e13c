// Package representation decides which of the representations of a record is
// mirrored, and which other one replaces it while it cannot be fetched.
package representation
