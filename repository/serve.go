package repository

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"time"

	"lockstep/internal/reader"
	"lockstep/oaipmh"
)

// An answer is one request and the response to it.
type answer struct {
	*Repository
	sets []*index // that the client may read
	resp response
	q    oaipmh.Request
	date time.Time
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
	if !slices.ContainsFunc(r.sets, func(x *index) bool { return x.Private }) {
		r.answer(w, req, r.sets, varyCoding)
		return
	}
	g := reader.Of(req.Context())
	var readable []*index
	for _, x := range r.sets {
		if !x.Private || g.Opens(x.Name) {
			readable = append(readable, x)
		}
	}
	switch {
	case g.Status != 0 || len(readable) == 0:
		http.Error(w, "The records here are for harvesters that show a credential of their readers.", g.Refuse(w.Header()))
	case len(g.Sets) > 0:
		reader.Confidentially(w, func(w http.ResponseWriter) { r.answer(w, req, readable, varyCoding) })
	default:
		r.answer(w, req, readable, varyCoding+", "+reader.Vary)
	}
}

// varyCoding names the header that all responses depend on.
const varyCoding = "Accept-Encoding"

// answer answers a request whose client may read some sets. Responses depend on the headers
// that vary names.
func (r *Repository) answer(w http.ResponseWriter, req *http.Request, sets []*index, vary string) {
	ctx := req.Context()
	a := &answer{Repository: r, sets: sets, resp: response{rw: w, request: req, vary: vary, log: r.opts.Logger}, date: r.opts.Now()}
	q, refusal := parseRequest(w, req)
	a.q = q
	a.q.URL = r.opts.BaseURL
	if refusal != nil {
		a.resp.refuse(a.head(), refusal)
		return
	}
	if err := a.give(ctx); err != nil {
		a.resp.fail(ctx, a.head(), err)
	}
}

// give answers the request.
func (a *answer) give(ctx context.Context) error {
	switch a.q.Verb {
	case oaipmh.VerbIdentify:
		return a.identify(ctx)
	case oaipmh.VerbListSets:
		return a.listSets(ctx)
	case oaipmh.VerbListMetadataFormats:
		return a.listFormats(ctx)
	case oaipmh.VerbGetRecord:
		return a.getRecord(ctx)
	}
	return a.list(ctx)
}

// errBusy reports a temporary condition: the index is not up to date, or other
// requests hold large records.
var errBusy = errors.New("other requests are being served, or the index is being updated")

// inStep updates the indexes of some sets, waiting no longer than a client may be
// kept waiting, and returns those that have been published. The response date becomes
// a time up to which the response includes all their changes.
func (a *answer) inStep(ctx context.Context, sets []*index) (published []*index, err error) {
	waiting, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	defer func() {
		if err != nil && waiting.Err() != nil && ctx.Err() == nil {
			err = errBusy
		}
	}()
	if err := a.noteSets(waiting); err != nil {
		return nil, err
	}
	var others []*index
	for _, x := range sets {
		err = x.refresh(waiting)
		if errors.Is(err, ErrNotPublished) {
			others = append(others, x)
			continue
		}
		if err != nil {
			return nil, err
		}
		if at := x.known().At; len(published) == 0 || at.Before(a.date) {
			a.date = at
		}
		published = append(published, x)
	}
	if len(published) == 0 && len(sets) > 0 {
		return nil, err
	}
	for _, x := range others { // harvesters will not ask for older records of it
		if err := x.renewLater(waiting); err != nil {
			return nil, err
		}
	}
	return published, nil
}

// head returns the header of the response.
func (a *answer) head() oaipmh.Header { return oaipmh.Header{ResponseDate: a.date, Request: a.q} }

// unchanged answers 304 if the client already has the response, which depends
// on the request and the content of the sets.
func (a *answer) unchanged(sets []*index) bool {
	sum := sha256.New()
	fmt.Fprintf(sum, "1 %q", a.q)
	for _, x := range sets {
		k := x.known()
		fmt.Fprintf(sum, " %q %d %d %d", x.Name, k.Seq, k.Items, k.Gone)
		if x.Collections {
			fmt.Fprint(sum, " collections")
		}
	}
	return a.resp.notModified(`W/"` + hex.EncodeToString(sum.Sum(nil)[:12]) + `"`)
}

func (a *answer) identify(ctx context.Context) error {
	var err error
	if a.sets, err = a.inStep(ctx, a.sets); err != nil {
		return err
	}
	id := oaipmh.Identify{
		RepositoryName: a.opts.Name, BaseURL: a.opts.BaseURL, ProtocolVersion: "2.0", AdminEmails: []string{a.opts.Admin},
		EarliestDatestamp: a.date, DeletedRecord: oaipmh.DeletedPersistent, Granularity: oaipmh.Second, Compressions: []string{"gzip"},
	}
	for _, x := range a.sets {
		first, err := x.list(ctx, "", spot{}, farAway, 1)
		if err != nil {
			return err
		}
		if len(first) > 0 && first[0].spot.time().Before(id.EarliestDatestamp) {
			id.EarliestDatestamp = first[0].spot.time()
		}
	}
	a.resp.begin(a.head())
	if err := a.resp.out.Identify(&id); err != nil {
		return err
	}
	return a.resp.end()
}

// prefixes returns the formats other than oai_dc, by prefix.
func (a *answer) prefixes(ctx context.Context) (map[string]oaipmh.Format, error) {
	all := make(map[string]oaipmh.Format)
	for _, x := range a.sets {
		formats, err := x.formats(ctx)
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

func (a *answer) listFormats(ctx context.Context) error {
	var err error
	if a.sets, err = a.inStep(ctx, a.sets); err != nil {
		return err
	}
	all, err := a.prefixes(ctx)
	if err != nil {
		return err
	}
	if a.q.Identifier != "" {
		if all, err = a.ofItem(ctx, all); err != nil {
			return err
		}
	}
	a.resp.begin(a.head())
	if err := a.resp.out.Format(&oaipmh.Format{Prefix: dublinCore, Schema: oaipmh.DublinCoreSchema, Namespace: oaipmh.DublinCoreNamespace}); err != nil {
		return err
	}
	for _, prefix := range slices.Sorted(maps.Keys(all)) {
		f := all[prefix]
		if err := a.resp.out.Format(&f); err != nil {
			return err
		}
	}
	return a.resp.end()
}

// ofItem returns the formats in which the requested item is available.
func (a *answer) ofItem(ctx context.Context, all map[string]oaipmh.Format) (map[string]oaipmh.Format, error) {
	had := make(map[string]oaipmh.Format)
	there, known := false, false
	for _, x := range a.sets {
		_, is, err := x.find(ctx, a.q.Identifier)
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

func (a *answer) getRecord(ctx context.Context) error {
	var err error
	if a.sets, err = a.inStep(ctx, a.sets); err != nil {
		return err
	}
	p, known, ok, err := a.place(ctx)
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
	r, err := p.resource(ctx, a)
	if err != nil {
		return err
	}
	release, err := a.room(ctx, &p, a.q.MetadataPrefix, r)
	if err != nil {
		return err
	}
	defer release()
	rec, err := p.record(ctx, a.q.MetadataPrefix, r)
	if err != nil {
		return err
	}
	a.resp.begin(a.head())
	if err := a.resp.out.Record(&rec); err != nil {
		return err
	}
	return a.resp.end()
}
