package repository

import (
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"time"

	"lockstep/internal/hangup"
	"lockstep/internal/negotiate"
	"lockstep/oaipmh"
)

// An answer is the state of one request and its response.
type answer struct {
	*Repository
	ctx     context.Context
	rw      http.ResponseWriter
	request *http.Request
	q       oaipmh.Request
	out     *oaipmh.Writer
	date    time.Time
	shut    func() error // closes the compressor between out and rw
}

// ServeHTTP answers a request, by GET, HEAD or POST (OAI-PMH 2.0, 3.1), whatever
// its path.
func (r *Repository) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	switch req.Method {
	case http.MethodGet, http.MethodHead, http.MethodPost:
	default:
		w.Header().Set("Allow", "GET, HEAD, POST")
		http.Error(w, "OAI-PMH is asked by GET or POST", http.StatusMethodNotAllowed)
		return
	}
	a := &answer{Repository: r, ctx: req.Context(), rw: w, request: req, date: r.opts.Now()}
	q, refusal := parseRequest(w, req)
	a.q = q
	a.q.URL = r.opts.BaseURL
	if refusal != nil {
		a.refuse(refusal)
		return
	}
	if err := a.give(); err != nil {
		a.fail(err)
	}
}

// give answers the request.
func (a *answer) give() error {
	switch a.q.Verb {
	case oaipmh.VerbIdentify:
		return a.identify()
	case oaipmh.VerbListSets:
		return a.listSets()
	case oaipmh.VerbListMetadataFormats:
		return a.listFormats()
	case oaipmh.VerbGetRecord:
		return a.getRecord()
	}
	return a.list()
}

// errBusy reports a temporary condition: the index is not up to date, or other
// requests hold large records.
var errBusy = errors.New("others are being served, or the index is brought up to date")

// inStep updates the indexes of some sets, waiting no longer than a client may be
// kept waiting. The response date becomes a time up to which the response
// includes all changes.
func (a *answer) inStep(sets []*index) error {
	ctx, cancel := context.WithTimeout(a.ctx, patience)
	defer cancel()
	for i, x := range sets {
		if err := x.refresh(ctx); err != nil {
			if ctx.Err() != nil && a.ctx.Err() == nil {
				return errBusy
			}
			return err
		}
		if at := x.known().At; i == 0 || at.Before(a.date) {
			a.date = at
		}
	}
	return nil
}

// fail answers an internal error, or a lost client.
func (a *answer) fail(err error) {
	if e, ok := errors.AsType[*oaipmh.Error](err); ok && (a.out == nil || !a.out.Begun()) {
		a.refuse(e)
		return
	}
	if gone := hangup.Is(a.ctx, err); gone || a.out != nil && a.out.Begun() {
		if !gone {
			a.opts.Logger.ErrorContext(a.ctx, "cannot answer a harvester", slog.String("verb", string(a.q.Verb)), slog.Any("err", err))
		}
		panic(http.ErrAbortHandler) // no client may consider the response complete
	}
	h := a.rw.Header()
	h.Del("Content-Encoding")
	h.Del("ETag")
	h.Set("Cache-Control", "no-store")
	unreadable := errors.Is(err, errUnreadable)
	if unreadable {
		a.opts.Logger.WarnContext(a.ctx, "cannot answer a harvester", slog.String("verb", string(a.q.Verb)), slog.Any("err", err))
	}
	if unreadable || errors.Is(err, errBusy) || errors.Is(err, ErrNotPublished) {
		h.Set("Retry-After", retry) // OAI-PMH 2.0, 3.1.2.2
		http.Error(a.rw, "The records are being looked through. Come again soon.", http.StatusServiceUnavailable)
		return
	}
	a.opts.Logger.ErrorContext(a.ctx, "cannot answer a harvester", slog.String("verb", string(a.q.Verb)), slog.Any("err", err))
	http.Error(a.rw, "This cannot be answered just now.", http.StatusInternalServerError)
}

// refuse answers a protocol error.
func (a *answer) refuse(e *oaipmh.Error) {
	a.rw.Header().Del("ETag")
	a.rw.Header().Set("Cache-Control", "no-store")
	a.begin()
	err := a.out.Error(e)
	if err == nil {
		err = a.end()
	}
	if err != nil {
		panic(http.ErrAbortHandler) // the client has disconnected
	}
}

// begin creates the writers of the response. Nothing is sent yet.
func (a *answer) begin() {
	h := a.rw.Header()
	h.Set("Content-Type", "text/xml; charset=utf-8") // OAI-PMH 2.0, 3.1.2.1
	h.Set("Vary", "Accept-Encoding")
	h.Set("X-Content-Type-Options", "nosniff")
	if h.Get("Cache-Control") == "" {
		h.Set("Cache-Control", "no-cache")
	}
	head := oaipmh.Header{ResponseDate: a.date, Request: a.q}
	if !negotiate.Gzip(a.request.Header["Accept-Encoding"]) {
		a.out, a.shut = oaipmh.NewWriter(a.rw, head, oaipmh.Second), func() error { return nil }
		return
	}
	h.Set("Content-Encoding", "gzip")
	zip, _ := gzip.NewWriterLevel(a.rw, gzip.BestSpeed) // the level is valid
	a.out, a.shut = oaipmh.NewWriter(zip, head, oaipmh.Second), zip.Close
}

func (a *answer) end() error {
	if err := a.out.Close(); err != nil {
		return err
	}
	return a.shut()
}

// unchanged answers 304 if the client already has the response, which depends
// on the request and the content of the sets.
func (a *answer) unchanged(sets []*index) bool {
	sum := sha256.New()
	fmt.Fprintf(sum, "1 %q", a.q)
	for _, x := range sets {
		k := x.known()
		fmt.Fprintf(sum, " %q %d %d %d", x.Name, k.Seq, k.Items, k.Gone)
	}
	tag := `W/"` + hex.EncodeToString(sum.Sum(nil)[:12]) + `"`
	a.rw.Header().Set("ETag", tag)
	if !negotiate.Has(a.request.Header["If-None-Match"], tag) {
		return false
	}
	a.rw.Header().Set("Cache-Control", "no-cache")
	a.rw.Header().Set("Vary", "Accept-Encoding")
	a.rw.WriteHeader(http.StatusNotModified)
	return true
}

func (a *answer) identify() error {
	if err := a.inStep(a.sets); err != nil {
		return err
	}
	id := oaipmh.Identify{
		RepositoryName: a.opts.Name, BaseURL: a.opts.BaseURL, ProtocolVersion: "2.0", AdminEmails: []string{a.opts.Admin},
		EarliestDatestamp: a.date, DeletedRecord: oaipmh.DeletedPersistent, Granularity: oaipmh.Second, Compressions: []string{"gzip"},
	}
	for _, x := range a.sets {
		first, err := x.list(a.ctx, "", spot{}, farAway, 1)
		if err != nil {
			return err
		}
		if len(first) > 0 && first[0].time().Before(id.EarliestDatestamp) {
			id.EarliestDatestamp = first[0].time()
		}
	}
	a.begin()
	if err := a.out.Identify(&id); err != nil {
		return err
	}
	return a.end()
}

func (a *answer) listSets() error {
	if a.q.Token != "" {
		return &oaipmh.Error{Code: oaipmh.CodeBadResumptionToken, Message: "the list of sets is complete"}
	}
	a.begin()
	for _, x := range a.sets {
		if err := a.out.Set(&oaipmh.Set{Spec: x.Name, Name: x.Title}); err != nil {
			return err
		}
	}
	return a.end()
}

// prefixes returns the formats other than oai_dc, by prefix.
func (a *answer) prefixes() (map[string]oaipmh.Format, error) {
	all := make(map[string]oaipmh.Format)
	for _, x := range a.sets {
		formats, err := x.formats(a.ctx)
		if err != nil {
			return nil, err
		}
		for namespace, f := range formats {
			if _, ok := all[f.Prefix]; !ok {
				all[f.Prefix] = oaipmh.Format{Prefix: f.Prefix, Schema: f.Schema, Namespace: namespace}
			}
		}
	}
	return all, nil
}

// noItem reports that no item has the requested identifier. An invalid
// identifier must not be repeated in the response (OAI-PMH 2.0, 3.2).
func (a *answer) noItem() error {
	if _, err := url.Parse(a.q.Identifier); err != nil || !sayable(a.q.Identifier) {
		return badArgument("%.80q is no identifier, which is a URI", a.q.Identifier)
	}
	return &oaipmh.Error{Code: oaipmh.CodeIDDoesNotExist, Message: "there is no item of this identifier"}
}

func (a *answer) listFormats() error {
	if err := a.inStep(a.sets); err != nil {
		return err
	}
	all, err := a.prefixes()
	if err != nil {
		return err
	}
	if a.q.Identifier != "" {
		if all, err = a.ofItem(all); err != nil {
			return err
		}
	}
	a.begin()
	if err := a.out.Format(&oaipmh.Format{Prefix: dublinCore, Schema: oaipmh.DublinCoreSchema, Namespace: oaipmh.DublinCoreNamespace}); err != nil {
		return err
	}
	for _, prefix := range slices.Sorted(maps.Keys(all)) {
		f := all[prefix]
		if err := a.out.Format(&f); err != nil {
			return err
		}
	}
	return a.end()
}

// ofItem returns the formats in which the requested item is available.
func (a *answer) ofItem(all map[string]oaipmh.Format) (map[string]oaipmh.Format, error) {
	had := make(map[string]oaipmh.Format)
	there, known := false, false
	for _, x := range a.sets {
		_, is, err := x.find(a.ctx, a.q.Identifier)
		if err != nil {
			return nil, err
		}
		if is == nil {
			continue
		}
		known, there = true, there || !is.Deleted
		for _, prefix := range is.Formats {
			had[prefix] = all[prefix]
		}
	}
	switch {
	case !known:
		return nil, a.noItem()
	case !there:
		return nil, &oaipmh.Error{Code: oaipmh.CodeNoMetadataFormats, Message: "the item was deleted"}
	}
	return had, nil
}

func (a *answer) getRecord() error {
	if err := a.inStep(a.sets); err != nil {
		return err
	}
	p, known, ok, err := a.place()
	switch {
	case err != nil:
		return err
	case !known:
		return a.noItem()
	case !ok:
		return &oaipmh.Error{Code: oaipmh.CodeCannotDisseminateFormat, Message: "the item is not available in this format"}
	}
	if a.unchanged(a.sets) {
		return nil
	}
	r, err := p.resource(a)
	if err != nil {
		return err
	}
	release, err := a.room(&p, a.q.MetadataPrefix, r)
	if err != nil {
		return err
	}
	defer release()
	rec, err := p.record(a.ctx, a.q.MetadataPrefix, r)
	if err != nil {
		return err
	}
	a.begin()
	if err := a.out.Record(&rec); err != nil {
		return err
	}
	return a.end()
}
