package reading

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"lockstep/cmd/lockstep/internal/explorer/spool"
	"lockstep/destination/journal"
	"lockstep/internal/fetch"
)

// mirrorPart is how many resources of a mirror are one part.
const mirrorPart = 50_000

// mirrorScheme begins the address of a part of a mirror: the URI of its first resource
// follows.
const mirrorScheme = "mirror:"

// A Mirror is the Origin of the resources that a mirror has.
type Mirror struct {
	Journal journal.Journal
	Number  int // of the set in the Journal; negative: all
}

// First returns the address of the first part.
func (o *Mirror) First() string { return mirrorScheme }

// Read implements Origin.
func (o *Mirror) Read(ctx context.Context, address string, add func(*spool.Row) error) (Result, error) {
	result := Result{Title: "Mirror", Of: Resources}
	n := 0
	for held, err := range o.Journal.Held(ctx, strings.TrimPrefix(address, mirrorScheme), "") {
		if err != nil {
			return result, fmt.Errorf("read the state of the mirror: %w", err)
		}
		if o.Number >= 0 && !slices.Contains(held.Sets, o.Number) {
			continue
		}
		if n++; n > mirrorPart {
			result.Next = []Address{{URI: mirrorScheme + held.URI}}
			break
		}
		row := rowOfHeld(&held)
		if err := add(&row); err != nil {
			return result, err
		}
	}
	return result, nil
}

func rowOfHeld(h *journal.Held) spool.Row {
	row := spool.Row{URI: h.URI, Type: h.Type, Time: h.Lastmod, Length: h.Length}
	row.Detail = spool.Detail{Hash: h.Hashes.String(), Path: h.Path, Links: linksOf(h.Links)}
	for _, f := range []spool.Fact{
		{Name: "file", Value: h.Path}, {Name: "file written", Value: stamp(h.Written)}, {Name: "lastmod", Value: stamp(h.Lastmod)},
		{Name: "entity tag", Value: h.ETag}, {Name: "Last-Modified", Value: h.Modified},
	} {
		if f.Value != "" {
			row.Detail.Facts = append(row.Detail.Facts, f)
		}
	}
	return row
}

func stamp(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339)
}

// fetchedError adds the address to an error of reading a document.
func fetchedError(address string, err error) error {
	return fmt.Errorf("read %s: %w", fetch.Printable(address), err)
}

// A Fixed is the Origin of rows that are known already: what a run has found, or the
// members of a package. Its only part has any address.
type Fixed func(ctx context.Context, add func(*spool.Row) error) (Result, error)

// Read implements Origin.
func (f Fixed) Read(ctx context.Context, _ string, add func(*spool.Row) error) (Result, error) {
	return f(ctx, add)
}
