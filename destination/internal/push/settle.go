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
	// maxPendingProbes limits the pending deletions about which one pull asks the
	// Source, of those that the documents read do not mention.
	maxPendingProbes = 1000

	// probeTime limits the time for all of them.
	probeTime = 20 * time.Second
)

// Probe asks the Source whether resources are gone, which is so if their addresses
// return 404 or 410. A resource whose server does not respond in time is not gone.
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
	_ = g.Wait() // its functions return nil
	if err := ctx.Err(); err != nil {
		return nil, context.Cause(ctx)
	}
	return gone, nil
}

// isGone reports whether the address of a resource returns 404 or 410, bypassing
// all caches.
func isGone(ctx context.Context, c *fetch.Client, uri string) bool {
	uri, _, _ = strings.Cut(uri, "#") // RS-AMB-22
	resp, err := c.Get(ctx, fetch.Request{URI: uri, NoCache: true, Once: true, RangeLast: 1})
	if err == nil {
		_ = resp.Body.Close() // it exists: its content is not needed
		return false
	}
	var status *fetch.StatusError
	return errors.As(err, &status) && (status.Status == http.StatusNotFound || status.Status == http.StatusGone)
}

// A settlement is the result of comparing pending deletions with the documents that
// were read.
type settlement struct {
	Left         int64              // still pending
	Contradicted int64              // by the Source's documents
	First        string             // URI of the first of these
	Ask          []desired.Resource // deletions that were not settled by the documents
	Drop         []journal.Owed     // settled
}

// compare compares pending deletions of a set with the mirror.
func (t *settlement) compare(ctx context.Context, j journal.Journal, set *saved.Set, ws []desired.Resource, now time.Time) error {
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
		contradicted := isBefore(w.Event, covered) || now.Sub(w.Modified.Time()) > lag
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
