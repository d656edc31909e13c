// Package ledger stores the harvested state of each record of a feed.
package ledger

import (
	"context"
	"fmt"
	"iter"
	"strings"
	"time"
)

// A Ledger stores the state of the newest entry of every record of a feed when that
// entry was applied. It contains sets, each named as in the catalog beside it; a set
// exists from its first use.
//
// Every method is one transaction, durable when it returns, and safe for concurrent
// use. Identifiers and URIs are any bytes but NUL, and not empty. Slices passed in
// may be retained; returned slices belong to the caller. Iterators stop after the
// first error, which they yield with a zero value; if rows are written meanwhile,
// they may yield either state.
type Ledger interface {
	// Lookup returns the rows of the records ids, in their order; the row of an
	// unknown record is the zero Row.
	Lookup(ctx context.Context, set string, ids []string) ([]Row, error)

	// Owners returns for each of the uris a record that has it among its Resources
	// and for which except returns false, or "".
	Owners(ctx context.Context, set string, uris []string, except func(id string) bool) ([]string, error)

	// Record stores put, replacing rows with the same ID, and deletes the rows of
	// the records drop: all or none. No record may be named twice.
	Record(ctx context.Context, set string, put []Row, drop []string) error

	// Rows yields all rows, ordered by the bytes of their IDs.
	Rows(ctx context.Context, set string) iter.Seq2[Row, error]

	// Open yields the rows whose Open is set, in that order.
	Open(ctx context.Context, set string) iter.Seq2[Row, error]

	// URIs yields the URIs in the Resources of all rows, each once, ordered by
	// bytes.
	URIs(ctx context.Context, set string) iter.Seq2[string, error]
}

// A Row is the stored state of one record.
type Row struct {
	ID        string
	Updated   time.Time  // of the entry that was applied; in nanoseconds
	Deleted   bool       // that entry was a deletion
	Open      Open       // what has yet to be determined
	Resources []Resource // what the catalog contains for the record, the main one first
	Next      []Resource // what it will contain once the state is determined

	// New says that no row has this ID yet, which saves Record a lookup. It is not
	// set in returned rows.
	New bool
}

// A Resource is one representation of a record.
type Resource struct{ URI, Type string }

// An Open is what has yet to be determined of a record.
type Open uint8

// The values of Open. They are stored in databases and never change.
const (
	OpenNothing Open = iota
	OpenRetry        // the request for a representation failed
	OpenPending      // a representation does not exist: another entry has to explain the state of the record
	OpenTied         // an active and a deletion entry of one instant: a representation has to be requested
	OpenClaim        // the catalog may or may not have been changed yet: Resources is its content before or after, Next after
)

// Check returns an error for rows that no Ledger can store. Every implementation calls it.
func Check(set string, put []Row, drop []string) error {
	bad := func(s string) bool { return s == "" || strings.IndexByte(s, 0) >= 0 }
	if bad(set) {
		return fmt.Errorf("set %q: a name must not be empty or hold a NUL byte", set)
	}
	for i := range put {
		if bad(put[i].ID) {
			return fmt.Errorf("record %q: an identifier must not be empty or hold a NUL byte", put[i].ID)
		}
		for _, rs := range [][]Resource{put[i].Resources, put[i].Next} {
			for _, r := range rs {
				if bad(r.URI) || strings.IndexByte(r.Type, 0) >= 0 {
					return fmt.Errorf("record %q: %q: a URI must not be empty or hold a NUL byte", put[i].ID, r.URI)
				}
			}
		}
	}
	for _, id := range drop {
		if bad(id) {
			return fmt.Errorf("record %q: an identifier must not be empty or hold a NUL byte", id)
		}
	}
	return nil
}
