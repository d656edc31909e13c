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
	"lockstep/oaipmh"
)

// What a list may cost.
const (
	maxPageBytes  = 256 << 20   // of one response
	pageTries     = 3           // of a page that is no OAI-PMH: it may be down for maintenance
	pagePause     = time.Second // before the second of these, and twice that before the next
	maxRestarts   = 1000        // of a list whose tokens are refused,
	maxStuck      = 4           // and of these without a step forward
	maxEmptyPages = 1000        // in a row
	maxRelisted   = 3           // that a page lists what one before it did
	errorBody     = 64 << 10    // of an answer that is an error, in which OAI-PMH may say which
	pieceBytes    = 1 << 20     // of records that are handed on together,
	pieceRecords  = 512         // and how many
	piecesAhead   = 2           // pieces that wait for their turn, at each step
	textBytes     = 256 << 10   // of records that share a buffer
)

// A piece is some records of a page, or its end.
type piece struct {
	records []oaipmh.Record
	made    []made // of them

	end  bool
	run  progress // at the end: how far the harvest is when what came before was taken in
	over bool     // at the end of the last page

	problems []intake.Problem // what could not be read: it leaves the harvest incomplete
}

// A pager asks for the pages of a list, one after the other, while the harvest
// stores those before. Of h it uses only what a harvest does not change.
type pager struct {
	h    *Harvester
	run  progress
	out  chan<- *piece
	head oaipmh.Header
	date time.Time // that the server gave the response at hand
	page uint64    // which records it lists, in whatever order

	texts []byte // of records, the last of these buffers

	salvaged bool // a page was not well formed, each time it was asked for
}

// all asks for pages until there are no more.
func (p *pager) all(ctx context.Context) error {
	for empty := 0; ; {
		token, records, err := p.next(ctx)
		switch {
		case oaipmh.HasCode(err, oaipmh.CodeNoRecordsMatch):
			if err := p.noSuchSet(ctx); err != nil {
				return err
			}
			token = oaipmh.Token{Complete: -1, Cursor: -1}
		case oaipmh.HasCode(err, oaipmh.CodeBadResumptionToken) && p.run.Token != "":
			if err := p.restart(err); err != nil {
				return err
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
			endless = &endlessError{fmt.Sprintf("%d responses without a record, and a resumption token in each", empty)}
		}
		p.run.Token = token.Value
		if endless != nil {
			p.run.anew() // the next time
		}
		if err := p.send(ctx, &piece{end: true, run: p.run, over: token.Value == ""}); err != nil || token.Value == "" {
			return err
		}
		if endless != nil {
			return endless
		}
	}
}

// An endlessError reports a list without an end.
type endlessError struct{ text string }

func (e *endlessError) Error() string { return e.text }

// endless reports a list that repeats itself: token leads on, and records, if any,
// are those of page. To find that in flat memory, and over many stretches, one
// page is remembered, a later one each time as many have passed as were in front
// of it (the algorithm of Brent).
func (r *progress) endless(token string, page uint64, records int64) *endlessError {
	if token == "" {
		return nil
	}
	sum := sha256.Sum256([]byte(token))
	at := binary.BigEndian.Uint64(sum[:])
	if token == r.Token || at == r.MarkToken && r.Pages > 0 {
		return &endlessError{fmt.Sprintf("the repository gives the resumption token %.60q a second time: its list would have no end", token)}
	}
	if records > 0 && page == r.MarkPage && r.Pages > 0 {
		if r.Again++; r.Again > maxRelisted {
			return &endlessError{"the repository lists the same records again and again, each time with another resumption token: its list would have no end"}
		}
	}
	if r.Pages++; r.Pages&(r.Pages-1) == 0 {
		if r.MarkToken = at; r.MarkPage != page {
			r.MarkPage, r.Again = page, 0
		}
	}
	return nil
}

// anew has the list begin at its beginning.
func (r *progress) anew() {
	r.Token, r.Listed, r.Size = "", 0, 0
	r.Pages, r.MarkToken, r.MarkPage, r.Again = 0, 0, 0, 0
}

// next asks for the next page and hands its records on.
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
			p.head, _ = r.Header() // its error comes again
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
		if err := intake.Sleep(ctx, pagePause<<(try-1)); err != nil {
			return t, 0, err
		}
	}
	if err != nil {
		err = p.h.plainOAI(ctx, uri, err)
	}
	return t, records, err
}

// illegible reports whether err is of what was read, and not of asking for it, nor
// what the repository says.
func illegible(err error) bool {
	_, syntax := errors.AsType[*oaipmh.SyntaxError](err)
	return syntax || errors.Is(err, oaipmh.ErrNotOAI)
}

// began notes when the harvest was answered first: by the earlier of what the
// response and its server say, for some say their own local time.
func (p *pager) began() {
	t := p.head.ResponseDate
	if t.IsZero() || !p.date.IsZero() && p.date.Before(t) {
		t = p.date
	}
	if !p.run.Began.IsZero() {
		return
	}
	now := time.Now().UTC()
	if t.After(now.Add(future.TrustedSkew)) { // its clock may be corrected
		p.run.Ahead, t = t, now
	}
	p.run.Began = t
}

// count compares what the repository says of the size of its list with what came.
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

// records hands on the records of a page.
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

// copy copies b to where the texts of many records are together.
func (p *pager) copy(b []byte) []byte {
	if cap(p.texts)-len(p.texts) < len(b) {
		p.texts = make([]byte, 0, max(textBytes, len(b)))
	}
	from := len(p.texts)
	p.texts = append(p.texts, b...)
	return p.texts[from:len(p.texts):len(p.texts)]
}

// note notes of a record which page it is on, and whether datestamps rise. Those in
// the future say nothing of how far the list is.
func (p *pager) note(rec *oaipmh.Record) {
	h := fnv.New64a()
	_, _ = io.WriteString(h, rec.Identifier) // takes everything
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

// send hands on a piece. Its error is that of ctx.
func (p *pager) send(ctx context.Context, at *piece) error {
	select {
	case p.out <- at:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// restart begins the list anew after the repository refused a token with err: at
// first from where it began. If that happens again, and datestamps rose so far,
// from the latest of them, so that there is progress; but then nobody knows what
// was not listed.
func (p *pager) restart(err error) error {
	run := &p.run
	run.Restarts++
	if run.Stuck++; run.Latest.After(run.Restart) && run.Windowed {
		run.Stuck = 1
	}
	if run.Restarts > maxRestarts || run.Stuck > maxStuck {
		return fmt.Errorf("the list was begun %d times, and the repository refuses its own resumption tokens: %w", run.Restarts, err)
	}
	if run.Restarts > 1 && !run.Mixed && !run.Latest.IsZero() {
		run.From, run.Windowed = oaipmh.FormatDatestamp(run.Latest, p.h.granularity(run.Coarse)), true
	}
	run.Restart = run.Latest
	run.anew()
	if !run.Windowed {
		run.Latest = time.Time{}
	}
	return nil
}

// coarser reports whether err may be due to a datestamp that is finer than the
// repository takes, whatever it says, and makes it a day.
func (p *pager) coarser(err error) bool {
	if !oaipmh.HasCode(err, oaipmh.CodeBadArgument) || p.run.Token != "" || len(p.run.From) <= len("2024-05-17") {
		return false
	}
	p.run.From = p.run.From[:len("2024-05-17")]
	p.run.Coarse = true
	return true
}

// granularity is that of arguments; coarse if the repository refused one with a
// time.
func (h *Harvester) granularity(coarse bool) oaipmh.Granularity {
	if coarse {
		return oaipmh.Day
	}
	return h.server.Granularity
}

// plainOAI leaves the address out of err, as [fault.Plain], and says what can be
// done about what a repository reports.
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

// request is one for a response.
func (h *Harvester) request(uri string) fetch.Request {
	return fetch.Request{URI: uri, AcceptGzip: true, Document: true, MaxBytes: maxPageBytes, ErrorBody: errorBody}
}

// ask asks for a response and has use read it. It returns the time that the
// server gave it, zero if it gave none. If what was sent breaks off it is asked
// for again, and use called again.
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

// noteJunk reports what a response had in front of its XML document, once for
// each verb of a process.
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

// verbOf returns the verb that a request asks for.
func verbOf(uri string) string {
	u, err := url.Parse(uri)
	if err != nil {
		return ""
	}
	return u.Query().Get("verb")
}

// reported is what OAI-PMH says in the body of an answer whose status is an error;
// nil if it says nothing.
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
