// Package ledger remembers the harvested state of each record of a feed.
package ledger

import (
	"context"
	"fmt"
	"iter"
	"strings"
	"time"
)

// A Ledger remembers of every record of a feed how its newest entry stood when it
// was applied. It keeps sets, each named as in the catalog beside it; a set exists
// from its first use.
//
// Every method is one transaction, durable when it returns, and safe for concurrent
// use. Identifiers and URIs are any bytes but NUL, and not empty. Slices handed in
// may be kept; those handed out are the caller's. Iterators stop after the first
// error, which they yield with a zero value; of what is written meanwhile they may
// yield either state.
type Ledger interface {
	// Lookup returns the rows of the records ids, in their order; the row of one
	// that is not known is the zero LedgerRow.
	Lookup(ctx context.Context, set string, ids []string) ([]Row, error)

	// Owners returns for each of the uris a record among whose Resources it is,
	// and which except does not pass over, or "".
	Owners(ctx context.Context, set string, uris []string, except func(id string) bool) ([]string, error)

	// Record puts rows, each in the place of the one with its ID, and drops those
	// of the records drop: all or none. No record is named twice.
	Record(ctx context.Context, set string, put []Row, drop []string) error

	// Rows yields all rows, ordered by the bytes of their IDs.
	Rows(ctx context.Context, set string) iter.Seq2[Row, error]

	// Open yields the rows of which something is Open, in that order.
	Open(ctx context.Context, set string) iter.Seq2[Row, error]

	// URIs yields what is among the Resources of some row, each URI once, ordered
	// by bytes.
	URIs(ctx context.Context, set string) iter.Seq2[string, error]
}

// A Row is what is remembered of one record.
type Row struct {
	ID        string
	Updated   time.Time  // of the entry that was applied; to the nanosecond
	Deleted   bool       // that was a deletion
	Open      Open       // what has yet to be found out
	Resources []Resource // what the catalog holds on its account, the main one first
	Next      []Resource // what is to be held once it is found out

	// New says to Record that there is no row with this ID, which spares it to
	// look. In rows handed out it is not set.
	New bool
}

// A Resource is one representation of a record.
type Resource struct{ URI, Type string }

// Open says what of a record has yet to be found out.
type Open uint8

// What may be open. The numbers are kept in databases and never change.
const (
	OpenNothing Open = iota
	OpenRetry        // a representation could not be asked for
	OpenPending      // a representation is not there: another entry has to tell what became of the record
	OpenTied         // an active and a deletion entry of one instant: a representation has to be asked for
	OpenClaim        // the catalog may or may not have been told yet: Resources is what it holds before or after, Next after
)

// Check refuses what no Ledger can hold. Every implementation asks it.
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
