package push

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"lockstep/destination/internal/desired"
	"lockstep/destination/internal/saved"
	"lockstep/destination/journal"
	"lockstep/internal/fetch"
)

const (
	// maxPendingProbes is for how many pending deletions a pull asks, of those that
	// the documents it has read do not mention.
	maxPendingProbes = 1000

	// probeTime is how long all of them may take.
	probeTime = 20 * time.Second
)

// Probe asks the Source whether resources are gone: those that answer 404 or
// 410 are. A resource that does not answer in time is not.
func Probe(ctx context.Context, c *fetch.Client, ws []desired.Resource, jobs int) ([]bool, error) {
	own, cancel := context.WithTimeout(ctx, probeTime)
	defer cancel()
	gone := make([]bool, len(ws))
	var g errgroup.Group
	g.SetLimit(max(min(jobs, 8), 1))
	for i := range ws {
		g.Go(func() error {
			gone[i] = own.Err() == nil && isGone(own, c, ws[i].URI)
			return nil
		})
	}
	_ = g.Wait() // they return nil
	if err := ctx.Err(); err != nil {
		return nil, context.Cause(ctx)
	}
	return gone, nil
}

// isGone reports whether a resource answers 404 or 410, past all caches.
func isGone(ctx context.Context, c *fetch.Client, uri string) bool {
	uri, _, _ = strings.Cut(uri, "#") // RS-AMB-22
	resp, err := c.Get(ctx, fetch.Request{URI: uri, NoCache: true, Once: true, RangeLast: 1})
	if err == nil {
		_ = resp.Body.Close() // it exists: nothing else is needed
		return false
	}
	var status *fetch.StatusError
	return errors.As(err, &status) && (status.Status == http.StatusNotFound || status.Status == http.StatusGone)
}

// A Settlement is the result of comparing pending deletions with what was read of
// the Source.
type Settlement struct {
	Left         int64              // still pending
	Contradicted int64              // by the Source's documents
	First        string             // URI of the first of these
	Ask          []desired.Resource // not settled by what was read
	Drop         []journal.Owed     // settled
}

// Compare compares pending deletions of a set with what is here now.
func (t *Settlement) Compare(ctx context.Context, j journal.Journal, set *saved.Set, ws []desired.Resource, now time.Time) error {
	uris := make([]string, len(ws))
	for i := range ws {
		uris[i] = ws[i].URI
	}
	held, err := j.Lookup(ctx, uris)
	if err != nil {
		return fmt.Errorf("read what is held: %w", err)
	}
	covered, lag := set.Watermark, MaxLag
	if set.Compared {
		covered = saved.Latest(covered, set.ListAt)
	}
	if set.Changes == "" {
		lag = MaxListLag
	}
	for i := range ws {
		w := &ws[i]
		contradicted := IsBefore(w.Event, covered) || now.Sub(w.Modified.Time()) > lag
		switch {
		case !slices.Contains(held[i].Sets, set.Number):
		case contradicted:
			if t.Contradicted++; t.First == "" {
				t.First = w.URI
			}
		case len(t.Ask) < maxPendingProbes:
			t.Ask = append(t.Ask, *w)
			continue
		default:
			t.Left++
			continue
		}
		t.Drop = append(t.Drop, journal.Owed{Set: set.Number, URI: w.URI})
	}
	return nil
}
