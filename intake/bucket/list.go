package bucket

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"lockstep/blob"
	"lockstep/intake"
	"lockstep/intake/internal/filestat"
	"lockstep/intake/internal/pathname"
)

// ErrListing reports a bucket whose listing is unreliable. Errors that match it are
// of type *ListingError.
var ErrListing = errors.New("the listing is unreliable")

// A ListingError reports how a listing contradicts itself or the objects. Nothing
// was deleted.
type ListingError struct {
	Lies intake.Problems // keys, with the contradictions
}

func (e *ListingError) Error() string {
	s := fmt.Sprintf("%v, so nothing was deleted: ", ErrListing)
	if len(e.Lies.First) > 0 {
		s += e.Lies.First[0].String()
	}
	if e.Lies.Count > 1 {
		s += fmt.Sprintf(" (and %d more)", e.Lies.Count-1)
	}
	return s
}

// Is reports whether target is [ErrListing].
func (e *ListingError) Is(target error) bool { return target == ErrListing }

// The ways in which a listing can be wrong.
var (
	errTwice    = errors.New("is listed twice")
	errUnlisted = errors.New("exists, and did before the listing began, but is not listed")
)

// maxLies is the number of contradictions after which a listing is abandoned, for
// example that of a service that repeats itself endlessly.
const maxLies = 10_000

// Why an object is not a resource; the Err of a skipped [intake.Problem].
var (
	errMarker   = errors.New("represents a directory")
	errNoKey    = errors.New("the key is empty below the prefix")
	errDots     = errors.New(`a segment of the key is "." or "..", to which no URI leads`)
	errNUL      = errors.New("the key has a NUL byte, which a URI cannot contain")
	errNotUTF8  = errors.New("the key is not UTF-8 and cannot be requested")
	errNoObject = errors.New("is listed but does not exist; the next scan checks it again")
	errNegative = errors.New("has a negative size in the listing")
)

// addressable returns why no resource can have the key, or nil.
func addressable(key string) error {
	switch {
	case key == "":
		return errNoKey
	case strings.IndexByte(key, 0) >= 0:
		return errNUL
	case !utf8.ValidString(key):
		return errNotUTF8
	}
	for seg := range strings.SplitSeq(key, "/") {
		if seg == "." || seg == ".." {
			return errDots
		}
	}
	return nil
}

// list records the whole listing before it is evaluated. A bucket lists keys in
// byte order, a catalog lists URIs in byte order, with some bytes escaped: so the
// keys have to be sorted again. A duplicate key is always out of order.
func (s *scan) list(ctx context.Context) error {
	last, first := "", true
	for info, err := range s.b.objects.Objects(ctx) {
		if err != nil {
			return err
		}
		switch key := info.Name; {
		case first || key > last:
			last = key
		case key == last:
			err = s.lie(key, errTwice)
		default:
			err = s.lie(key, fmt.Errorf("is listed after %q: not in order", last))
		}
		first = false
		if err == nil {
			err = s.take(info)
		}
		if err != nil {
			return err
		}
	}
	return ctx.Err()
}

// take records an object if it is a resource.
func (s *scan) take(info blob.Info) error {
	key := info.Name
	why := addressable(key)
	switch {
	case strings.HasSuffix(key, "/") && info.Size == 0:
		why = errMarker
	case info.Size < 0:
		s.Unreadable(key, errNegative) // its record stays as it is
		return s.lie(key, errNegative)
	}
	if why != nil {
		s.Skipped(key, why)
		return nil
	}
	if !s.b.filter.Passes(key) {
		switch {
		case pathname.InStateDir(key):
			s.Skipped(key, pathname.ErrState)
		case reservedPath(key):
			s.Skipped(key, pathname.ErrReserved)
		default:
			s.Excluded()
		}
		return nil
	}
	o := object{path: pathname.EscapePath(key), size: info.Size, modTime: info.ModTime.UTC().Truncate(time.Microsecond), etag: info.Version}
	s.Files.Add(1)
	s.proof.offer(o)
	s.packed = o.pack(s.packed[:0])
	return s.sorted.Add([]byte(o.path), 0, false, s.packed)
}

// reservedPath reports whether a Source's own documents hide the object at rel, or
// a directory above it.
func reservedPath(rel string) bool {
	top, _, below := strings.Cut(rel, "/")
	return pathname.Reserved(rel, filestat.File) || below && pathname.Reserved(top, filestat.Dir)
}

// lie records a contradiction in the listing. An error ends the scan.
func (s *scan) lie(key string, how error) error {
	s.liesMu.Lock()
	defer s.liesMu.Unlock()
	s.lies.Add(intake.Problem{Path: key, Err: how})
	if s.lies.Count >= maxLies {
		return &ListingError{Lies: s.lies}
	}
	return nil
}

// listingError returns the contradictions in the listing as an error, or nil.
func (s *scan) listingError() error {
	s.liesMu.Lock()
	defer s.liesMu.Unlock()
	if s.lies.Count == 0 {
		return nil
	}
	return &ListingError{Lies: s.lies}
}
