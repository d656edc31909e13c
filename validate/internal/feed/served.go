package feed

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"

	"lockstep/atompmh"
	"lockstep/validate/finding"
	"lockstep/validate/internal/tally"
	"lockstep/validate/internal/visit"
	"lockstep/validate/opener"
)

// headers checks how a feed document is served.
func (w *walk) headers(doc *document, h http.Header) {
	if h == nil {
		return
	}
	doc.etag, doc.modified = h.Get("ETag"), h.Get("Last-Modified")
	p := w.visitor.Collector.In(doc.uri)
	switch t := visit.BaseType(h.Get("Content-Type")); t {
	case atompmh.MediaType:
	case "":
		p.Advisef("AP-DOC-11", "Content-Type", "served without a Content-Type, which is application/atom+xml")
	case "application/xml", "text/xml":
		p.Advisef("AP-DOC-11", "Content-Type", "served as %q, not as application/atom+xml", t)
	default:
		p.Warnf("AP-DOC-11", "Content-Type", "served as %q, not as application/atom+xml", t)
	}
	validators(p, h)
}

// validators is validators for resources that a feed names.
func validators(p finding.Place, h http.Header) {
	for _, name := range []string{"ETag", "Last-Modified"} {
		if h.Get(name) == "" {
			p.Warnf("AP-HTTP-01", name, "the answer has no %s", name)
		}
	}
}

// otherTag is an entity tag that nothing has.
const otherTag = `"lockstep-none"`

// conditional requests the subscription document conditionally, with current and
// outdated validators.
func (f *walk) conditional(ctx context.Context, d *document) error {
	p := f.visitor.Collector.In(d.uri)
	if d.etag != "" {
		again, sent, err := f.askIf(ctx, opener.Request{URI: d.uri, IfNoneMatch: d.etag})
		if err != nil {
			return err
		}
		if sent && again.Get("ETag") == d.etag {
			p.Errorf("AP-HTTP-02", "ETag", "asked for with If-None-Match: %s, it was sent all the same, not answered with 304", d.etag)
		}
	}
	if d.modified == "" {
		return nil
	}
	again, sent, err := f.askIf(ctx, opener.Request{URI: d.uri, IfModifiedSince: d.modified})
	if err != nil {
		return err
	}
	if sent && again.Get("Last-Modified") == d.modified {
		p.Warnf("AP-HTTP-03", "Last-Modified", "asked for with If-Modified-Since: %s, it was sent all the same, not answered with 304", d.modified)
	}
	if d.etag == "" || sent {
		return nil
	}
	if again, sent, err = f.askIf(ctx, opener.Request{URI: d.uri, IfNoneMatch: otherTag, IfModifiedSince: d.modified}); err == nil && !sent && again == nil {
		p.Errorf("AP-HTTP-02", "ETag", "asked for with another tag in If-None-Match, it was not sent: If-Modified-Since does not count then")
	}
	return err
}

// askIf sends a conditional request. It returns the headers of a full answer, and
// nil and false if the condition is not met; a failure of a document that was
// available before does not count as an answer.
func (f *walk) askIf(ctx context.Context, r opener.Request) (h http.Header, sent bool, err error) {
	r.Document = true
	a, err := f.visitor.Ask(ctx, r)
	switch {
	case errors.Is(err, opener.ErrNotModified):
		return nil, false, nil
	case visit.IsMissing(err), errors.Is(err, opener.ErrUnseen):
		return http.Header{}, false, nil // a finding elsewhere, if it cannot be read now
	case err != nil:
		return nil, false, err
	}
	visit.Discard(a.Body)
	return a.Header, true, nil
}

// unchanged requests archive documents again, as many as the sample has:
// archived documents must not change.
func (f *walk) unchanged(ctx context.Context) error {
	archives := slices.Clone(f.chain[1:])
	if len(archives) > f.visitor.Settings.Sample && f.visitor.Settings.Sample != visit.SampleAll {
		rnd := rand.New(rand.NewPCG(f.visitor.Settings.Seed, uint64(len(archives))))
		rnd.Shuffle(len(archives), func(i, j int) { archives[i], archives[j] = archives[j], archives[i] })
		archives = archives[:f.visitor.Settings.Sample]
	}
	for _, d := range archives {
		if !d.whole {
			continue
		}
		if d.etag != "" {
			if h, sent, err := f.askIf(ctx, opener.Request{URI: d.uri, IfNoneMatch: d.etag}); err != nil || !sent || h.Get("ETag") == d.etag {
				if err != nil {
					return err
				}
				continue
			}
		}
		again, err := f.aside(ctx, d.uri)
		switch {
		case visit.IsMissing(err), errors.Is(err, opener.ErrUnseen):
		case err != nil:
			return err
		case again.whole && string(again.entryHash.Sum(nil)) != d.entrySum:
			f.visitor.Collector.In(d.uri).Warnf("AP-TS-07", "", "asked for a second time, it has other entries: an archive document is never written again")
		}
	}
	return nil
}

// note adds an entry to the document's hash.
func (d *document) note(about tally.About, id, updated string, alternates []link) {
	fmt.Fprintf(d.entryHash, "%d %q %s", about, id, updated)
	for _, l := range alternates {
		fmt.Fprintf(d.entryHash, " %q %q", l.media, l.href)
	}
}
