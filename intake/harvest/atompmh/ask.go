package atompmh

import (
	"context"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"

	"golang.org/x/sync/errgroup"

	"lockstep/catalog"
	"lockstep/intake/harvest/ledger"
	"lockstep/intake/internal/entry"
	"lockstep/intake/internal/fault"
	"lockstep/internal/fetch"
	"lockstep/resourcesync"
)

// A contentOfFeed is the result of fetching a representation.
type contentOfFeed struct {
	hashes         resourcesync.Hashes
	length         int64
	typ, encoding  string
	missing, other error // it does not exist; the request failed
}

// complete adds the fetched properties to those that the feed states.
func (c *contentOfFeed) complete(r *catalog.Record) {
	r.Hashes, r.Length, r.Encoding = c.hashes, c.length, c.encoding
	if r.Type == "" {
		r.Type = c.typ
	}
}

// ask fetches representations to determine what entries leave open, with as many
// concurrent requests as the client allows.
func (p *applier) ask(ctx context.Context, changes []feedChange, rows []ledger.Row) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(p.a.client.Jobs())
	for i := range changes {
		c, row := &changes[i], &rows[i]
		if !c.absent && (c.tied || p.a.o.Content && !c.deleted && len(c.resources) > 0) {
			g.Go(func() error { return p.askOne(ctx, c, row) })
		}
	}
	return g.Wait()
}

func (p *applier) askOne(ctx context.Context, c *feedChange, row *ledger.Row) error {
	if c.tied {
		if err := p.untie(ctx, c, row); err != nil || c.deleted || c.open != ledger.OpenNothing {
			return err
		}
	}
	if !p.a.o.Content {
		return nil
	}
	c.content = make([]contentOfFeed, len(c.resources))
	for i, r := range c.resources {
		got, err := p.fetchOne(ctx, r.URI, true)
		if err != nil {
			return err
		}
		c.content[i] = got
		switch {
		case got.missing != nil:
			p.open(c, ledger.OpenPending, r.URI, got.missing) // AP-CDL-05
		case got.other != nil:
			p.open(c, ledger.OpenRetry, r.URI, got.other) // AP-CDL-06
		}
		if c.open != ledger.OpenNothing {
			return nil
		}
	}
	return nil
}

// open records what could not be determined, and why.
func (p *applier) open(c *feedChange, open ledger.Open, uri string, err error) {
	c.open = open
	p.asked.Store(c.id, true)
	if open == ledger.OpenPending {
		p.pending.Store(true)
	}
	p.list.Unreadable(fetch.Printable(uri), ofRecord(c.recordID(), err))
}

// untie determines whether a record exists for which two entries of the same instant
// state the opposite (AP-CLS-06).
func (p *applier) untie(ctx context.Context, c *feedChange, row *ledger.Row) error {
	ask := c.resources
	if len(ask) == 0 {
		ask = row.Resources
	}
	if len(ask) == 0 {
		ask = row.Next
	}
	if len(ask) == 0 {
		c.deleted = true // there is no representation to fetch
		return nil
	}
	got, err := p.fetchOne(ctx, ask[0].URI, false)
	switch {
	case err != nil:
		return err
	case got.missing != nil:
		c.deleted, c.resources = true, nil
	case got.other != nil:
		c.deleted, c.resources = false, ask
		p.open(c, ledger.OpenTied, ask[0].URI, got.other)
	default:
		c.deleted, c.resources = false, ask
	}
	return nil
}

// fetchOne fetches a representation, and hashes it if hash is set. The error is that
// of ctx.
func (p *applier) fetchOne(ctx context.Context, uri string, hash bool) (contentOfFeed, error) {
	var c contentOfFeed
	err := p.a.client.Fetch(ctx, &fetch.Request{URI: uri}, func(resp *fetch.Response) error {
		if !hash {
			return nil
		}
		sum := resourcesync.NewHasher(p.a.o.Algorithms...)
		n, err := io.Copy(sum, resp.Body)
		p.list.Bytes.Add(n)
		if err != nil {
			return err
		}
		p.list.Tally.Hashed.Add(1)
		c = contentOfFeed{hashes: sum.Sum(), length: n}
		if typ := strings.TrimSpace(resp.Header.Get("Content-Type")); entry.Listable(resourcesync.Metadata{Type: typ}) {
			c.typ = typ
		}
		if coding := strings.ToLower(strings.TrimSpace(resp.Header.Get("Content-Encoding"))); coding != "identity" && entry.Listable(resourcesync.Metadata{Encoding: coding}) {
			c.encoding = coding
		}
		return nil
	})
	switch {
	case ctx.Err() != nil:
		return c, ctx.Err()
	case isStatus(err, http.StatusForbidden, http.StatusNotFound, http.StatusGone):
		c.missing = fault.Plain(uri, fault.NotThere(err))
	case err != nil:
		c.other = fault.Plain(uri, err)
	}
	return c, nil
}

// maxRetries is how many representations are requested again in one harvest. If
// there are more, they are chosen at random, so that each gets its turn.
const maxRetries = 1000

// retry resolves what could not be determined before: AP-HV-03, 1. Pending records
// wait for the feed, or for a full harvest.
func (p *applier) retry(ctx context.Context) error {
	var batch []feedChange
	candidates := 0
	for row, err := range p.a.ledger.Open(ctx, p.list.Set) {
		if err != nil {
			return err
		}
		if _, now := p.asked.Load(row.ID); now || row.Open == ledger.OpenPending {
			continue
		}
		at := len(batch)
		if candidates++; at < maxRetries {
			batch = append(batch, feedChange{})
		} else if at = rand.IntN(candidates); at >= maxRetries {
			continue
		}
		batch[at] = feedChange{
			id: row.ID, updated: row.Updated, statement: statement{deleted: len(row.Next) == 0, tied: row.Open == ledger.OpenTied, resources: row.Next},
		}
	}
	return p.applyBatch(ctx, batch)
}
