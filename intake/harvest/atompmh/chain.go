package atompmh

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"lockstep/atompmh"
	"lockstep/intake/internal/fault"
	"lockstep/intake/internal/future"
	"lockstep/internal/fetch"
	"lockstep/internal/nesting"
)

// chain walks from the subscription document to the document at which a harvest may
// end. It is orderly if no document contradicts the one before (AP-HV-06).
func (h *harvest) chain(ctx context.Context, sub *feedDoc) (orderly bool, err error) {
	h.missing, h.walked, h.length, h.absence, h.complete = nil, []string{h.sub}, 1, false, sub.Complete
	h.seen, h.some = feedTime{}, false
	visited := &feedVisit{uris: make(map[[16]byte]struct{}), prints: make(map[uint64]int)}
	visited.add(h.sub, sub)
	var chain nesting.Walk
	for d := sub; ; {
		if d.Entries > 0 {
			chain.Yield()
			if !h.some || d.Max.After(h.seen.Time) {
				h.seen = d.Max
			}
			h.some = true
		}
		switch {
		case d.Complete:
			// AP-HV-13: there is no walking. An unchanged document was already applied.
			h.absence = h.full || !d.same
			return true, nil
		case d.Prev == "", !h.full && d.Entries > 0 && d.Min.Before(h.mark):
			return true, nil
		}
		if err := chain.Barren(); err != nil {
			return true, h.lose(ctx, d.Prev, chainError(err.Error()))
		}
		next, err := h.hop(ctx, d.Prev, visited)
		if err != nil {
			return true, h.lose(ctx, d.Prev, err)
		}
		if !h.disorder && contradict(d, next, &h.future) {
			return false, nil
		}
		if h.length++; len(h.walked) < maxFeedDocs {
			h.walked = append(h.walked, d.Prev)
		}
		d = next
	}
}

// A feedVisit contains the documents that a walk has read: their URIs, as digests
// since the feed may choose them of any length; and how often each document had the
// same entries in the same order.
type feedVisit struct {
	uris   map[[16]byte]struct{}
	prints map[uint64]int
}

// maxSameEntries is how many documents of a walk may have the same entries. A
// producer that has the newest entries in two documents does not form a circle; a
// walk through ever different addresses of the same documents does.
const maxSameEntries = 2

func visitKey(uri string) [16]byte {
	if u, err := url.Parse(uri); err == nil {
		u.Scheme, u.Host = strings.ToLower(u.Scheme), strings.ToLower(u.Host)
		if host, ok := strings.CutSuffix(u.Host, map[string]string{"http": ":80", "https": ":443"}[u.Scheme]); ok {
			u.Host = host
		}
		uri = u.String()
	}
	sum := sha256.Sum256([]byte(uri))
	return [16]byte(sum[:16])
}

func (v *feedVisit) has(uri string) bool {
	_, ok := v.uris[visitKey(uri)]
	return ok
}

// add records that the document d was read at uri, and reports whether it was read
// too often.
func (v *feedVisit) add(uri string, d *feedDoc) (again bool) {
	v.uris[visitKey(uri)] = struct{}{}
	v.uris[visitKey(d.final)] = struct{}{}
	if d.Entries == 0 || d.print == 0 {
		return false
	}
	v.prints[d.print]++
	return v.prints[d.print] > maxSameEntries
}

// A chainError is the reason why a document is not read.
type chainError string

func (e chainError) Error() string { return string(e) }

// hop reads the next older document. AP-HV-09: within limits.
func (h *harvest) hop(ctx context.Context, uri string, visited *feedVisit) (*feedDoc, error) {
	const circle = chainError("prev-archive leads in a circle")
	if visited.has(uri) {
		return nil, circle
	}
	if h.length >= h.a.o.MaxDocuments {
		return nil, chainError(fmt.Sprintf("the chain has more than %d documents", h.a.o.MaxDocuments))
	}
	if err := mayRead(uri, h.home, h.a.o.AllowHosts); err != nil {
		return nil, chainError(err.Error())
	}
	h.depth = h.length
	d, feed, err := h.read(ctx, uri)
	if err != nil {
		return nil, err
	}
	if d.final != uri && visited.has(d.final) {
		return nil, circle
	}
	if visited.add(uri, d) {
		return nil, circle
	}
	if id := feedID(feed.ID); id != "" && h.now.ID != "" && id != h.now.ID {
		h.list.Skipped(uri, fmt.Errorf("AP-DOC-04: the id of its feed is %q, not that of the subscription document", fetch.Printable(id)))
	}
	return d, nil
}

// contradict reports whether next, the older document, is younger than the entries
// in d: AP-TS-03, AP-AMB-12. Times in our future contradict nothing.
func contradict(d, next *feedDoc, future *future.Times) bool {
	if next.Updated.IsZero() || future.Has(next.Updated.Time) {
		return false
	}
	if d.Entries == 0 {
		return !d.Updated.IsZero() && next.Updated.After(d.Updated.Time)
	}
	return next.Updated.After(d.Min.Time)
}

// lose records that the walk ends at a document that is not available (AP-HV-08).
func (h *harvest) lose(ctx context.Context, uri string, err error) error {
	_, stop := errors.AsType[*fault.StopError](err)
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case stop:
		return err
	}
	_, ours := errors.AsType[chainError](err)
	_, syntax := errors.AsType[*atompmh.SyntaxError](err)
	if body, ok := errors.AsType[*fetch.BodyError](err); ok {
		syntax = !body.Retryable()
	}
	h.missing = &missingDoc{uri: uri, err: documentError(uri, err),
		final: ours || syntax || isStatus(err, http.StatusForbidden, http.StatusNotFound, http.StatusGone)}
	return nil
}

// maxFeedURI is the maximum length of the address of a document: documents name
// others, whose addresses are remembered.
const maxFeedURI = 8 << 10

// mayRead returns the reason why no document of the feed may be at uri (RS-SEC-01):
// it has to be at one of the feed's homes or at an allowed host.
func mayRead(uri string, homes []*url.URL, allowHosts []string) error {
	if len(uri) > maxFeedURI {
		return fmt.Errorf("its address has more than %d bytes", maxFeedURI)
	}
	u, err := url.Parse(uri)
	if err != nil || u.Host == "" {
		return errors.New("it is no absolute http or https URI")
	}
	for _, home := range homes {
		if strings.EqualFold(home.Scheme, "https") && !strings.EqualFold(u.Scheme, "https") {
			continue
		}
		if fetch.WithinHost(u, home) {
			return nil
		}
		for _, allowed := range allowHosts {
			if fetch.Allows(allowed, u) {
				return nil
			}
		}
	}
	return fmt.Errorf("it is not at the host of the feed, %s", fetch.Printable(fetch.HostPort(homes[0])))
}
