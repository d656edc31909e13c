// Package memento is what there was: prior versions of resources, and the
// Memento protocol (RFC 7089) by which others ask for them.
//
// A [Store] knows which versions there are, a [Version] for each; their bytes
// are elsewhere, found by digest. It is derived from the catalog of a Source: a
// version is what a change brought, and is appended when the change is there;
// [Retain] drops those that are not to stay.
//
// A [Handler] offers them over HTTP: a TimeGate leads to the version of an
// instant, a TimeMap lists all, and each has an address of its own, which [Base]
// makes. [Negotiate] and [ReadTimeMap] are the other side.
package memento

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"strings"
	"time"
)

// A Version is a resource as it was from an instant on, until the next version
// of it; or, with Gone, the instant from which on it was not there.
type Version struct {
	URI      string    // URI-R, the resource
	At       time.Time // datetime of the version, in microseconds; with URI it is the key, and rises with every version
	Gone     bool      // not there: no Digest, Type, Encoding and Lastmod
	Digest   [32]byte  // SHA-256 of the bytes
	Length   int64     // of the bytes; with Gone 0, or -1 if there was something whose bytes were not kept
	Type     string    // media type, or ""
	Encoding string    // content coding, or ""
	Lastmod  time.Time // as the lists say it, in microseconds; zero when unknown
	Event    time.Time // when the change that brought it entered the catalog; zero in Append: At
	Seq      int64     // of that change; does not fall from one version of a resource to the next
}

// IsZero reports whether v is no version.
func (v *Version) IsZero() bool { return v.At.IsZero() }

// An Around is what lies around an instant in the life of a resource. A zero
// Version is none.
//
// Selected says how the resource was, it may be Gone; zero: there is no version
// so early. All others are mementos, never Gone: the first and the last of all,
// the one before Selected and the one after it. Where Selected is zero, Prev is
// too, and Next is First.
type Around struct {
	First, Prev, Selected, Next, Last Version

	Known   bool      // there is or was a version of the URI
	Dropped time.Time // the latest version that was dropped; zero: none was
}

// A Store keeps the versions of the resources of some sets, each set named as in
// the catalog. A set exists from its first use.
//
// A method that writes is one transaction, durable when it returns; all methods
// are safe for concurrent use, and readers are not blocked by writers. Names of
// sets and URIs are any bytes but NUL, and not empty. Times are kept to the
// microsecond and handed out in UTC. Slices handed in may be kept.
//
// A resource that is in several sets has the versions of all of them; of those
// with the same At one counts, if possible one that is not Gone.
type Store interface {
	// Append adds versions and raises the set's cursor to cursor; a cursor never
	// falls. A version whose URI and At are there already is ignored, as is one
	// that is not later than what was dropped of its URI: what was dropped does
	// not come back. The order of vs does not matter, but that of several with one
	// URI and At the first counts.
	Append(ctx context.Context, set string, cursor int64, vs []Version) error

	// Cursor returns up to which change of the catalog the set is complete: 0 of
	// one that was never used.
	Cursor(ctx context.Context, set string) (int64, error)

	// Last returns the newest version of each URI in the set, Gone or not, in the
	// order of uris; the zero Version where there was never one. If the newest was
	// dropped, it is Gone, with the At it had, and no Seq: the next version
	// must be later (ME-MM-02).
	Last(ctx context.Context, set string, uris []string) ([]Version, error)

	// Around returns what lies around at; the zero time is the end of time. The
	// resolution is a second: of several versions in that second the last is
	// Selected (ME-HD-04). Of each set, the latest version up to at counts; if one
	// of these is not Gone, the latest of those is Selected.
	Around(ctx context.Context, uri string, at time.Time) (Around, error)

	// List yields the versions of the URI with At > after, Gone or not, oldest
	// first (ME-TM-05). Versions written meanwhile may be among them or not.
	List(ctx context.Context, uri string, after time.Time) iter.Seq2[Version, error]

	// Walk yields the versions of the set with URI >= from, ordered by the bytes
	// of their URIs, then by At. Versions written meanwhile may be among them or
	// not. The store may be written while it is walked, also by the one who walks.
	Walk(ctx context.Context, set string, from string) iter.Seq2[Version, error]

	// Drop forgets versions, of which only URI and At count; those that are not
	// there are ignored. That something was dropped is remembered ([Around]).
	Drop(ctx context.Context, set string, vs []Version) error
}

// The rules every implementation shares.

// errVersion reports what no store can hold.
var errVersion = errors.New("no version")

// Check refuses what no store can hold.
func Check(set string, vs []Version) error {
	if set == "" || strings.IndexByte(set, 0) >= 0 {
		return fmt.Errorf("set %q: a name must not be empty or hold a NUL byte", set)
	}
	for i := range vs {
		v := &vs[i]
		switch {
		case v.URI == "" || strings.IndexByte(v.URI, 0) >= 0:
			return fmt.Errorf("version %d, uri %q: a URI must not be empty or hold a NUL byte: %w", i, v.URI, errVersion)
		case v.At.IsZero():
			return fmt.Errorf("version %d of %q: it has no datetime: %w", i, v.URI, errVersion)
		case v.Length < -1 || v.Length < 0 && !v.Gone:
			return fmt.Errorf("version %d of %q: length %d is negative: %w", i, v.URI, v.Length, errVersion)
		}
	}
	return nil
}

// Until is the last microsecond that [Store.Around] counts to the instant at,
// in microseconds since 1970.
func Until(at time.Time) int64 {
	if at.IsZero() || at.Unix() >= math.MaxInt64/1_000_000-1 {
		return math.MaxInt64
	}
	return (at.Unix()+1)*1e6 - 1
}
