package atompmh

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/maphash"
	"net/http"
	"net/url"
	"strings"
	"time"

	"lockstep/atompmh"
	"lockstep/intake"
	"lockstep/intake/internal/future"
	"lockstep/intake/internal/listed"
	"lockstep/internal/fetch"
	"lockstep/internal/iri"
)

// How often a walk is restarted.
const (
	feedRounds   = 5   // AP-HV-03, 5: the feed changed while it was walked
	feedRestarts = 3   // AP-HV-06: the chain contradicted itself
	feedAgain    = 100 // in a longer chain only the part that a new archive document requires is walked again
)

// A harvest is one harvest of a feed.
//
// Order of writes: changes, in the order of time, each batch claimed in the ledger,
// applied to the catalog and recorded in the ledger; then, if the feed was read
// without a problem, deletions of absent records; then the position. A harvest that
// was killed at any point is repeated: the repetition finishes what was claimed, and
// finds that what was done is done.
type harvest struct {
	applier
	old, now feedMemory
	strays   listed.URIs // resources of the catalog that no record owns

	full           bool      // the whole chain is read
	catalogUnknown bool      // nothing is known of the state of the catalog
	elsewhere      bool      // the feed is requested at another address than before
	replaced       bool      // the feed replaced another one
	mark           time.Time // entries before it were applied

	sub    string     // URI of the subscription document
	named  string     // the document that named it, if it has not been read yet
	hops   int        // number of documents that named another one
	home   []*url.URL // addresses whose documents may be read
	date   time.Time  // of the first response
	future future.Times
	depth  int // of the document being read: 0 is the subscription document
	docs   map[string]*feedDoc
	seed   maphash.Seed // of feedDoc.print
	parts  []feedPart
	walked []string // the first documents of the last walk
	length int      // number of documents in the last walk

	seen       feedTime    // the latest updated time in the last walk
	some       bool        // the last walk had an entry
	complete   bool        // the subscription document has fh:complete
	absence    bool        // a record that was not met is gone
	unreadable bool        // a complete document has entries that cannot be read
	disorder   bool        // the chain contradicts itself
	unsettled  bool        // the feed kept changing while it was being read
	missing    *missingDoc // the document at which the walk had to end
	older      int64       // records for which the feed went back to an older entry

	key, said []byte // scratch
	count     uint32 // entries sorted
}

// A missingDoc is a document that was needed and was not available.
type missingDoc struct {
	uri   string
	err   error
	final bool // the server reports that it does not exist, or it is not a feed document
}

func (a *Harvester) newHarvest(full bool) (*harvest, error) {
	m := a.recalled()
	h := &harvest{applier: applier{list: a.in.NewListing(), a: a}, docs: make(map[string]*feedDoc), seed: maphash.MakeSeed()}
	h.order.Dir, h.strays.Dir = a.in.TempDir, a.in.TempDir
	address, _, _ := strings.Cut(a.in.Name, "#")
	u, err := url.Parse(address)
	if err != nil {
		return nil, fmt.Errorf("%q is no URL", fetch.Printable(a.in.Name))
	}
	h.home = []*url.URL{u}
	h.sub, h.old = address, m
	h.elsewhere = m.Address != "" && m.Address != a.in.Name
	if m.At != "" && !h.elsewhere {
		h.sub = m.At
		if u, err := url.Parse(m.At); err == nil {
			h.home = append(h.home, u)
		}
	}
	h.now = feedMemory{ID: m.ID, Title: m.Title, At: m.At, Watermark: m.Watermark, Complete: m.Complete, Whole: m.Whole,
		Full: m.Full, Failures: m.Failures, Failed: m.Failed, Gap: m.Gap, Docs: m.Docs, AheadSince: m.AheadSince, AheadTill: m.AheadTill}
	h.future = future.Times{Now: time.Now().UTC(), Since: m.AheadSince.Time, Till: m.AheadTill.Time, Reported: m.Reported.Time}
	h.full = full
	return h, nil
}

// prepare decides what is read: everything, if the stored position does not match
// the catalog, or a full harvest is due (AP-HV-12).
func (h *harvest) prepare(at intake.Point) {
	m := &h.old
	// A catalog that was lost, or restored from a backup, is behind.
	h.unremembered = m.Address == "" || m.Rules != h.a.rules()
	h.catalogUnknown = h.unremembered || at.Last < m.Point.Last || m.Unsettled
	h.replaced = h.replaced || m.Replaced
	switch {
	case h.catalogUnknown, m.Watermark.IsZero() && !m.Complete && !m.Disorder:
		h.full = true
	case h.a.o.FullInterval > 0 && future.IsDue(m.Full, h.a.o.FullInterval):
		h.full = true
	case m.Gap != nil && future.IsDue(m.Gap.Tried, gapRetry):
		h.full = true
	case m.Failures >= patientFailures:
		h.full = true // AP-HV-08
	}
	h.disorder = false
	h.mark = m.Watermark.Add(-h.a.o.Overlap)
}

// escalate turns a harvest into a full one. The sorted entries are kept: an entry
// that is read twice does no harm.
func (h *harvest) escalate() {
	h.full = true
	h.docs = make(map[string]*feedDoc)
}

// run harvests. It ends early if the feed is unchanged.
func (h *harvest) run(ctx context.Context) error {
	defer h.list.Progress()()
	at, err := h.list.Point(ctx)
	if err != nil {
		return err
	}
	h.prepare(at)
	if err := h.recover(ctx); err != nil {
		return err
	}
	quiet, err := h.walk(ctx)
	if err != nil {
		return err
	}
	if !quiet {
		if err := h.take(ctx); err != nil {
			return err
		}
	}
	if err := h.retry(ctx); err != nil {
		return err
	}
	if at, err = h.list.Point(ctx); err != nil {
		return err
	}
	h.list.Files.Store(at.Resources)
	r := h.list.Report()
	h.list.Unchanged.Store(max(at.Resources-r.Created-r.Updated, 0))
	if quiet {
		return h.rest(at)
	}
	return h.remember(at)
}

// rest ends a harvest that found no changes. Nothing is written for it, unless the
// feed has moved, or pending work is done.
func (h *harvest) rest(at intake.Point) error {
	if h.now.At == h.old.At && at.Last == h.old.Point.Last {
		return nil
	}
	m := h.old
	m.At, m.Point = h.now.At, at
	return h.a.keep(m)
}

// walk reads the feed, from the subscription document as far as necessary
// (AP-HV-02, AP-HV-03). quiet reports that it is unchanged.
func (h *harvest) walk(ctx context.Context) (quiet bool, err error) {
	sub, err := h.subscription(ctx)
	if err != nil {
		return false, err
	}
	if sub.same && !h.full {
		return true, nil
	}
	rounds, restarts := 1, 0
	if h.old.Disorder {
		h.full = true
		restarts = feedRestarts // restarting would not help
	}
	for {
		before := sub
		orderly, err := h.chain(ctx, sub)
		switch {
		case err != nil:
			return false, err
		case h.mustReadAll(sub):
			h.escalate()
		case !orderly && restarts < feedRestarts: // AP-HV-06
			restarts++
		case !orderly && !h.full:
			h.escalate()
		case !orderly:
			h.disorder = true
			h.list.Skipped(h.list.Name, errDisorder)
			_, err := h.chain(ctx, sub)
			return false, err
		case h.length == 1:
			return false, nil // a single document cannot change between requests
		default:
			if sub, err = h.subscription(ctx); err != nil {
				return false, h.lose(ctx, h.sub, err)
			}
			added := sub.Prev == before.Prev // and nothing was cut off
			if sub.same || added && h.length > feedAgain {
				return false, nil
			}
			if rounds == feedRounds {
				if h.unsettled = !added; h.unsettled {
					h.list.Skipped(h.list.Name, fmt.Errorf("the feed kept changing while it was read %d times", rounds))
				}
				return false, nil
			}
			rounds++
			continue
		}
		if sub, err = h.subscription(ctx); err != nil {
			return false, err
		}
	}
}

var errDisorder = errors.New("AP-TS-03: the times in its documents contradict each other in every reading; until they are consistent, a change in one document causes all of them to be read")

// mustReadAll reports whether the documents that were read show that the walk was too
// short.
func (h *harvest) mustReadAll(sub *feedDoc) bool {
	if h.full {
		return false
	}
	return h.old.Ahead || h.future.IsAhead(h.old.Watermark.Time) || // present entries may be dated earlier than those that were read
		h.absence && !sub.Complete || // AP-AMB-07
		!sub.Complete && h.old.Complete || // AP-CDL-04
		!sub.Complete && h.missing == nil && h.some && h.seen.Before(h.old.Watermark.Time) // the producer went back
}

// maxCurrent is how often a document may name another as the subscription document.
const maxCurrent = 3

// subscription reads the subscription document.
func (h *harvest) subscription(ctx context.Context) (*feedDoc, error) {
	address, _, _ := strings.Cut(h.list.Name, "#")
	h.depth = 0
	for {
		d, feed, err := h.read(ctx, h.sub)
		switch {
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		case isStatus(err, http.StatusGone):
			return nil, ErrEnded // AP-HV-15
		case err != nil && h.named != "":
			h.list.Skipped(h.named, fmt.Errorf("the subscription document it names, %s, cannot be read: %w", fetch.Printable(h.sub), documentError(h.sub, err)))
			delete(h.docs, h.named) // it is compared with the remembered one
			h.sub, h.now.At, h.named, h.hops = h.named, h.old.At, "", maxCurrent
			continue
		case err != nil && h.sub != address && isStatus(err, http.StatusNotFound):
			h.sub, h.now.At = address, "" // so it had not moved permanently
			continue
		case err != nil && h.sub != address:
			return nil, fmt.Errorf("read %s: %w", fetch.Printable(h.sub), documentError(h.sub, err))
		case err != nil:
			return nil, documentError(h.sub, err)
		}
		if feed.ID != "" {
			if again, err := h.identify(&feed); err != nil {
				return nil, err
			} else if again {
				continue
			}
		}
		current, _, _ := strings.Cut(feed.Current, "#")
		if current == "" || current == h.sub || current == d.final || h.hops >= maxCurrent || mayRead(current, h.home, h.a.o.AllowHosts) != nil {
			h.named = ""
			return d, nil
		}
		// AP-HV-14: a document that leads to the subscription document is not one itself.
		h.named, h.sub, h.now.At = h.sub, current, current
		h.hops++
	}
}

// Limits of what is remembered of a feed.
const (
	maxTitle  = 1 << 10
	maxFeedID = 1 << 10
)

// feedID returns the id of a feed, without the user name and password that an address may
// have, or a hash if it is too long.
func feedID(id string) string {
	id, _ = iri.WithoutUser(id)
	if len(id) <= maxFeedID {
		return id
	}
	sum := sha256.Sum256([]byte(id))
	return strings.ToValidUTF8(id[:64], "") + "… sha256:" + hex.EncodeToString(sum[:])
}

// identify compares the feed with the one that was harvested before (AP-HV-11), and
// requests that it be read again if it replaces that one.
func (h *harvest) identify(feed *atompmh.Feed) (again bool, err error) {
	h.now.ID, h.now.Title = feedID(feed.ID), feed.Title
	if len(h.now.Title) > maxTitle {
		h.now.Title = "" // it does not count as a title
	}
	// Earlier versions also removed what is in front of the at sign in tag:user@example.org,2026:feed.
	same := h.old.ID == h.now.ID || h.old.ID == fetch.WithoutUser(h.now.ID)
	if h.old.ID == "" || same || h.replaced {
		return false, nil
	}
	if !h.a.o.AcceptFeed && !h.elsewhere {
		return false, &AnotherFeedError{Address: h.list.Name, Was: h.old.ID, Is: h.now.ID}
	}
	h.replaced, h.catalogUnknown = true, true
	if h.full {
		return false, nil
	}
	h.escalate()
	return true, nil
}

func (h *harvest) close() {
	h.list.Close()
	h.order.Close()
	h.strays.Close()
}
