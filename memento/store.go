// Package memento stores prior versions of resources and implements the Memento
// protocol (RFC 7089) for access to them.
//
// A [Store] records which versions exist, as [Version] values; their bytes are
// stored elsewhere, addressed by digest. It is derived from the catalog of a
// Source: a version is the result of a change, and is appended once the change
// is recorded; [Retain] drops versions that are no longer needed.
//
// A [Handler] serves them over HTTP: a TimeGate redirects to the version of an
// instant, a TimeMap lists all, and each has an address of its own, built by
// [Base]. [Negotiate] and [ReadTimeMap] are the client side.
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

// A Version is the state of a resource from an instant until its next version;
// or, with Gone, the instant from which it did not exist.
type Version struct {
	URI      string    // URI-R, the resource
	At       time.Time // datetime of the version, in microseconds; with URI it is the key, and increases with every version
	Gone     bool      // deleted: no Digest, Type, Encoding and Lastmod
	Digest   [32]byte  // SHA-256 of the bytes
	Length   int64     // of the bytes; with Gone 0, or -1 if the resource existed but its bytes were not stored
	Type     string    // media type, or ""
	Encoding string    // content coding, or ""
	Lastmod  time.Time // as in the lists, in microseconds; zero when unknown
	Event    time.Time // when the change that created it was recorded in the catalog; zero in Append means At
	Seq      int64     // of that change; does not decrease from one version of a resource to the next
}

// IsZero reports whether v is the zero Version.
func (v *Version) IsZero() bool { return v.At.IsZero() }

// An Around describes the versions of a resource around an instant. A zero
// Version means none.
//
// Selected is the state of the resource, possibly Gone; zero: there is no
// version so early. All others are mementos, never Gone: the first and the last
// of all, the one before Selected and the one after it. If Selected is zero,
// Prev is too, and Next is First.
type Around struct {
	First, Prev, Selected, Next, Last Version

	Known   bool      // the URI has or had a version
	Dropped time.Time // the latest version that was dropped; zero: none was
}

// A Store stores the versions of the resources of some sets, each set named as
// in the catalog. A set exists from its first use.
//
// A method that writes is one transaction, durable when it returns; all methods
// are safe for concurrent use, and writers do not block readers. Names of sets
// and URIs are any bytes but NUL, and not empty. Times are stored to the
// microsecond and returned in UTC. A store may retain the slices it is given.
//
// A resource that is in several sets has the versions of all of them; of
// versions with the same At one is used, if possible one that is not Gone.
type Store interface {
	// Append adds versions and raises the set's cursor to cursor; a cursor never
	// decreases. It ignores a version whose URI and At exist already, and one that
	// is not later than a dropped version of its URI: dropped versions do not come
	// back. The order of vs does not matter, except that of several versions with
	// one URI and At the first is used.
	Append(ctx context.Context, set string, cursor int64, vs []Version) error

	// Cursor returns the catalog change up to which the set is complete: 0 for a
	// set that was never used.
	Cursor(ctx context.Context, set string) (int64, error)

	// Last returns the newest version of each URI in the set, Gone or not, in the
	// order of uris; the zero Version if there never was one. If the newest was
	// dropped, Last returns it as Gone, with the At it had, and no Seq: the next
	// version must be later (ME-MM-02).
	Last(ctx context.Context, set string, uris []string) ([]Version, error)

	// Around returns the versions around at; the zero time is the end of time. The
	// resolution is a second: of several versions in that second the last is
	// Selected (ME-HD-04). Of each set, the latest version up to at is considered;
	// if one of these is not Gone, the latest of those is Selected.
	Around(ctx context.Context, uri string, at time.Time) (Around, error)

	// List yields the versions of the URI with At > after, Gone or not, oldest
	// first (ME-TM-05). Versions written meanwhile may be included or not.
	List(ctx context.Context, uri string, after time.Time) iter.Seq2[Version, error]

	// Walk yields the versions of the set with URI >= from, ordered by the bytes of
	// their URIs, then by At. Versions written meanwhile may be included or not.
	// The store may be written during a walk, also by the caller.
	Walk(ctx context.Context, set string, from string) iter.Seq2[Version, error]

	// Drop removes versions, identified by URI and At; missing ones are ignored.
	// The store remembers that versions were dropped ([Around]).
	Drop(ctx context.Context, set string, vs []Version) error
}

// Rules that every implementation shares.

// errVersion reports a version that no store can hold.
var errVersion = errors.New("no version")

// Check returns an error for versions that no store can hold.
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

// Until returns the last microsecond that [Store.Around] includes in the
// instant at, in microseconds since 1970.
func Until(at time.Time) int64 {
	if at.IsZero() || at.Unix() >= math.MaxInt64/1_000_000-1 {
		return math.MaxInt64
	}
	return (at.Unix()+1)*1e6 - 1
}
