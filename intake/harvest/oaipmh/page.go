package oaipmh

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"lockstep/intake"
	"lockstep/intake/internal/fault"
	"lockstep/intake/internal/future"
	"lockstep/internal/fetch"
	"lockstep/internal/sleep"
	"lockstep/oaipmh"
)

// Limits of a list.
const (
	maxPageBytes  = 256 << 20   // bytes of one response
	pageTries     = 3           // attempts for a page that is not OAI-PMH: the repository may be down for maintenance
	pagePause     = time.Second // before the second attempt, and twice that before the next
	maxRestarts   = 1000        // restarts of a list whose tokens are refused,
	maxStuck      = 4           // and how many of these without progress
	maxEmptyPages = 1000        // in a row
	maxRelisted   = 3           // pages that list the same records as an earlier one
	errorBody     = 64 << 10    // bytes read of an HTTP error response, which may contain an OAI-PMH error
	pieceBytes    = 1 << 20     // bytes of records that are passed on together,
	pieceRecords  = 512         // and how many records
	piecesAhead   = 2           // pieces waiting in the queue of each step
	textBytes     = 256 << 10   // bytes of records that share a buffer
)

// A piece is some records of a page, or the end of a page.
type piece struct {
	records []oaipmh.Record
	made    []made // from records

	end  bool
	run  progress // if end: the progress once everything before is stored
	over bool     // if end: it was the last page

	problems []intake.Problem // unreadable parts, which leave the harvest incomplete
}

// A pager requests the pages of a list, one after the other, while the harvest stores
// the pages before. It uses only fields of h that a harvest does not change.
type pager struct {
	h    *Harvester
	run  progress
	out  chan<- *piece
	head oaipmh.Header
	date time.Time // HTTP Date of the current response
	page uint64    // hash of the records on the page, independent of their order

	texts []byte // the current buffer for metadata

	salvaged bool // a page was not well-formed in any attempt
}

// all requests pages until there are no more.
func (p *pager) all(ctx context.Context) error {
	for empty := 0; ; {
		token, records, err := p.next(ctx)
		switch {
		case oaipmh.HasCode(err, oaipmh.CodeNoRecordsMatch):
			if err := p.noSuchSet(ctx); err != nil {
				return err
			}
			if p.run.Token != "" && (p.run.Size <= 0 || p.run.Listed < p.run.Size) {
				p.run.Incomplete = true // in the middle of a list it says nothing of the others
			}
			token = oaipmh.Token{Complete: -1, Cursor: -1}
		case oaipmh.HasCode(err, oaipmh.CodeBadResumptionToken) && p.run.Token != "":
			if err := p.restart(err); err != nil {
				p.run.restartAnew() // for the next time
				return errors.Join(p.send(ctx, &piece{end: true, run: p.run}), err)
			}
			continue
		case p.coarser(err):
			continue
		case err != nil:
			return err
		}
		if empty++; records > 0 {
			empty = 0
		}
		p.count(token, records)
		endless := p.run.endless(token.Value, p.page, records)
		if endless == nil && empty > maxEmptyPages {
			endless = &endlessError{fmt.Sprintf("%d consecutive responses had a resumption token but no records", empty)}
		}
		p.run.Token = token.Value
		if endless != nil {
			p.run.rewind() // for the next time
		}
		if err := p.send(ctx, &piece{end: true, run: p.run, over: token.Value == ""}); err != nil || token.Value == "" {
			return err
		}
		if endless != nil {
			return endless
		}
	}
}

// An endlessError reports a list that never ends.
type endlessError struct{ text string }

func (e *endlessError) Error() string { return e.text }

// endless detects a list that repeats itself. token is that of the next page, page the
// hash of the records on the present one. To detect repetition in constant memory, and
// across stretches, one page is remembered, and replaced by a later one each time the
// number of pages has doubled (Brent's algorithm).
func (r *progress) endless(token string, page uint64, records int64) *endlessError {
	if token == "" {
		return nil
	}
	sum := sha256.Sum256([]byte(token))
	at := binary.BigEndian.Uint64(sum[:])
	if token == r.Token || at == r.MarkToken && r.Pages > 0 {
		return &endlessError{fmt.Sprintf("the repository returned the resumption token %.60q twice, so its list would never end", token)}
	}
	if records > 0 && page == r.MarkPage && r.Pages > 0 {
		if r.Again++; r.Again > maxRelisted {
			return &endlessError{"the repository lists the same records again and again, each time with a different resumption token, so its list would never end"}
		}
	}
	if r.Pages++; r.Pages&(r.Pages-1) == 0 {
		if r.MarkToken = at; r.MarkPage != page {
			r.MarkPage, r.Again = page, 0
		}
	}
	return nil
}

// rewind makes the next request start the list from its beginning.
func (r *progress) rewind() {
	r.Token, r.Listed, r.Size = "", 0, 0
	r.Pages, r.MarkToken, r.MarkPage, r.Again = 0, 0, 0, 0
}

// restartAnew makes the next harvest begin the list as if its tokens had never been refused.
func (r *progress) restartAnew() {
	r.rewind()
	if r.Windowed {
		r.From = "" // the present one is a datestamp of the list
	}
	r.Restarts, r.Stuck, r.Restart, r.Latest, r.Windowed, r.Mixed = 0, 0, time.Time{}, time.Time{}, false, false
}

// next requests the next page and passes its records on.
func (p *pager) next(ctx context.Context) (t oaipmh.Token, records int64, err error) {
	uri := oaipmh.URL(p.h.base, oaipmh.VerbListRecords, "from", p.run.From, "set", p.h.o.SetSpec, "metadataPrefix", p.h.o.Prefix)
	if p.run.Token != "" {
		uri = oaipmh.URL(p.h.base, oaipmh.VerbListRecords, "resumptionToken", p.run.Token)
	}
	before := p.run
	for try := 1; ; try++ {
		said := ""
		if err != nil {
			said = err.Error()
		}
		p.date, err = p.h.ask(ctx, uri, func(r *oaipmh.Reader) (err error) {
			p.run = before
			p.head, _ = r.Header() // p.records returns its error
			records, err = p.records(ctx, r)
			t, _ = r.Token()
			return err
		})
		if err == nil || oaipmh.HasCode(err, oaipmh.CodeNoRecordsMatch) {
			p.began()
		}
		if err == nil || ctx.Err() != nil || !illegible(err) {
			break
		}
		if try == pageTries || p.salvaged || said == err.Error() {
			p.run, p.salvaged = before, true
			return p.salvage(ctx, uri, err)
		}
		if err := sleep.For(ctx, pagePause<<(try-1)); err != nil {
			return t, 0, err
		}
	}
	if err != nil {
		err = p.h.plainOAI(ctx, uri, err)
	}
	return t, records, err
}

// illegible reports whether err concerns the content of a response, rather than the
// request, and is not an error that the repository reports.
func illegible(err error) bool {
	_, syntax := errors.AsType[*oaipmh.SyntaxError](err)
	return syntax || errors.Is(err, oaipmh.ErrNotOAI)
}

// began notes the time of the first response of the harvest: the earlier one of its
// responseDate and its HTTP Date, because some repositories state their local time.
func (p *pager) began() {
	t := p.head.ResponseDate
	if t.IsZero() || !p.date.IsZero() && p.date.Before(t) {
		t = p.date
	}
	if !p.run.Began.IsZero() {
		return
	}
	now := time.Now().UTC()
	if t.After(now.Add(future.TrustedSkew)) { // its clock may be set back later
		p.run.Ahead, t = t, now
	}
	p.run.Began = t
}

// count compares the size of the list that the repository states with the number of
// records received.
func (p *pager) count(t oaipmh.Token, records int64) {
	run := &p.run
	if t.Cursor >= 0 && t.Cursor != run.Listed || t.Complete >= 0 && run.Size > 0 && t.Complete != run.Size {
		run.Wrong = true
	}
	if t.Complete > 0 {
		run.Size = t.Complete
	}
	run.Listed += records
}

// records passes on the records of a page.
func (p *pager) records(ctx context.Context, r *oaipmh.Reader) (n int64, err error) {
	var at piece
	size := 0
	p.page = 0
	for {
		var rec oaipmh.Record
		if err = r.Read(&rec); err != nil {
			break
		}
		n++
		p.note(&rec)
		if rec.Metadata != nil {
			size += len(rec.Metadata)
			rec.Metadata = p.copy(rec.Metadata)
		}
		at.records = append(at.records, rec)
		if size < pieceBytes && len(at.records) < pieceRecords {
			continue
		}
		if err := p.send(ctx, &piece{records: at.records}); err != nil {
			return n, err
		}
		at, size = piece{}, 0
	}
	if verb := r.Verb(); errors.Is(err, io.EOF) && verb != oaipmh.VerbListRecords {
		err = fmt.Errorf("%w to ListRecords, but to %s", oaipmh.ErrNotOAI, verb)
	}
	if errors.Is(err, io.EOF) {
		err = nil
	}
	if len(at.records) == 0 {
		return n, err
	}
	if serr := p.send(ctx, &at); serr != nil {
		return n, serr
	}
	return n, err
}

// copy copies b to a buffer that the metadata of many records share.
func (p *pager) copy(b []byte) []byte {
	if cap(p.texts)-len(p.texts) < len(b) {
		p.texts = make([]byte, 0, max(textBytes, len(b)))
	}
	from := len(p.texts)
	p.texts = append(p.texts, b...)
	return p.texts[from:len(p.texts):len(p.texts)]
}

// note adds a record to the hash of the page, and notes whether datestamps are
// ascending. Datestamps in the future do not show the progress of the list.
func (p *pager) note(rec *oaipmh.Record) {
	h := fnv.New64a()
	_, _ = io.WriteString(h, rec.Identifier) // never fails
	p.page += h.Sum64() ^ uint64(rec.Datestamp.Unix())
	now := p.run.Began
	if now.IsZero() {
		now = p.head.ResponseDate
	}
	switch t, run := rec.Datestamp, &p.run; {
	case t.IsZero() || t.Before(run.Latest) || !now.IsZero() && t.Sub(now) > 24*time.Hour:
		run.Mixed = true
	case t.After(run.Latest):
		run.Latest = t
	}
}

// send passes on a piece. Its error is that of ctx.
func (p *pager) send(ctx context.Context, at *piece) error {
	select {
	case p.out <- at:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// restart restarts the list after the repository refused a token with err: the first
// time from its beginning. If that happens again, and datestamps were ascending so
// far, it restarts from the latest of them, so that there is progress; but then the
// list may have gaps.
func (p *pager) restart(err error) error {
	run := &p.run
	run.Restarts++
	if run.Stuck++; run.Latest.After(run.Restart) && run.Windowed {
		run.Stuck = 1
	}
	if run.Restarts > maxRestarts || run.Stuck > maxStuck {
		return fmt.Errorf("the list was started %d times, but the repository refuses its own resumption tokens: %w", run.Restarts, err)
	}
	if run.Restarts > 1 && !run.Mixed && !run.Latest.IsZero() {
		run.From, run.Windowed = oaipmh.FormatDatestamp(run.Latest, p.h.granularity(run.Coarse)), true
	}
	run.Restart = run.Latest
	run.rewind()
	if !run.Windowed {
		run.Latest = time.Time{}
	}
	return nil
}

// coarser reports whether err may be due to a datestamp that is finer than the
// repository accepts, whatever granularity it states, and truncates it to a day.
func (p *pager) coarser(err error) bool {
	if !oaipmh.HasCode(err, oaipmh.CodeBadArgument) || p.run.Token != "" || len(p.run.From) <= len("2024-05-17") {
		return false
	}
	p.run.From = p.run.From[:len("2024-05-17")]
	p.run.Coarse = true
	return true
}

// granularity returns the granularity of arguments; coarse says that the repository
// refused one with a time.
func (h *Harvester) granularity(coarse bool) oaipmh.Granularity {
	if coarse {
		return oaipmh.Day
	}
	return h.server.Granularity
}

// plainOAI leaves the address out of err, as [fault.Plain] does. If the repository does
// not have the format, it adds the formats that it has.
func (h *Harvester) plainOAI(ctx context.Context, uri string, err error) error {
	err = fault.Plain(uri, err)
	if !oaipmh.HasCode(err, oaipmh.CodeCannotDisseminateFormat) || strings.Contains(uri, "verb=GetRecord") {
		return err
	}
	var formats []oaipmh.Format
	_, ferr := h.ask(ctx, oaipmh.URL(h.base, oaipmh.VerbListMetadataFormats), func(r *oaipmh.Reader) (err error) {
		formats, err = r.Formats()
		return err
	})
	if ferr != nil || len(formats) == 0 {
		return err
	}
	var names []string
	for _, f := range formats[:min(len(formats), 20)] {
		names = append(names, fetch.Printable(f.Prefix))
	}
	return fmt.Errorf("%w; its metadataPrefixes are %s", err, strings.Join(names, ", "))
}

// request returns a request for an OAI-PMH response.
func (h *Harvester) request(uri string) fetch.Request {
	return fetch.Request{URI: uri, AcceptGzip: true, Document: true, MaxBytes: maxPageBytes, ErrorBody: errorBody}
}

// ask requests a response and calls use to read it. It returns the HTTP Date of the
// response, zero if there is none. If the transfer breaks off, the request is repeated
// and use is called again.
func (h *Harvester) ask(ctx context.Context, uri string, use func(*oaipmh.Reader) error) (date time.Time, err error) {
	q := h.request(uri)
	err = h.client.Fetch(ctx, &q, func(resp *fetch.Response) error {
		date, _ = http.ParseTime(resp.Header.Get("Date")) // zero without
		body := oaipmh.Clean(resp.Body)
		err := use(oaipmh.NewReader(body, oaipmh.ReaderOptions{MaxBytes: maxPageBytes}))
		h.noteJunk(uri, body)
		return err
	})
	if said := reported(err); said != nil {
		return date, said
	}
	return date, err
}

// noteJunk reports text in front of the XML document of a response, once per verb in
// the life of the process.
func (h *Harvester) noteJunk(uri string, body io.Reader) {
	text := oaipmh.Junk(body)
	if text == "" {
		return
	}
	verb := verbOf(uri)
	if _, known := h.junk.LoadOrStore(verb, true); known {
		return
	}
	h.in.Events.Emit(intake.Event{Kind: intake.EventUnreadable, Path: fetch.Printable(uri), Err: errors.New(text)})
}

// verbOf returns the verb of a request.
func verbOf(uri string) string {
	u, err := url.Parse(uri)
	if err != nil {
		return ""
	}
	return u.Query().Get("verb")
}

// reported returns the OAI-PMH error in the body of an HTTP error response; nil if it
// has none.
func reported(err error) error {
	status, ok := errors.AsType[*fetch.StatusError](err)
	if !ok || len(status.Body) == 0 {
		return nil
	}
	_, err = oaipmh.NewReader(oaipmh.Clean(bytes.NewReader(status.Body)), oaipmh.ReaderOptions{}).Header()
	if len(oaipmh.ErrorsIn(err)) == 0 {
		return nil
	}
	return fmt.Errorf("status %d: %w", status.Status, err)
}
