package atompmh

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"lockstep/atompmh"
	"lockstep/intake"
	"lockstep/intake/harvest/ledger"
	"lockstep/intake/internal/entry"
	"lockstep/intake/internal/fault"
	"lockstep/intake/internal/listed"
	"lockstep/internal/fetch"
	"lockstep/resourcesync"
)

// A feedPart is one reading of a document.
type feedPart struct {
	updated time.Time // updated time of the feed in the document
	depth   int       // number of documents between it and now: 0 for the subscription document
	broken  bool      // it was not read to its end
}

// known returns what is remembered of the document at uri if it may be used in a
// conditional request: in a full harvest only if the document was read in it.
func (h *harvest) known(uri string) *feedDoc {
	if d := h.docs[uri]; d != nil {
		return d
	}
	if d, ok := h.old.Docs[uri]; ok && !h.full {
		return &d
	}
	return nil
}

// feedAccept requests Atom where an address offers several formats.
const feedAccept = "application/atom+xml, application/xml;q=0.9, text/xml;q=0.9, */*;q=0.1"

// read reads the document at uri and sorts its entries. The error of a document that
// is not available or not readable omits the address.
func (h *harvest) read(ctx context.Context, uri string) (*feedDoc, atompmh.Feed, error) {
	known := h.known(uri)
	sub := uri == h.sub
	if known != nil && !sub && h.a.o.TrustArchives {
		if h.docs[uri] == nil { // as if it had been requested, and were unchanged
			known.final, known.same = uri, true
			h.docs[uri] = known
		}
		return known, atompmh.Feed{}, nil // AP-HV-07: not requested, as configured
	}
	left := h.a.o.MaxBytes - h.list.Tally.Bytes.Load()
	if left <= 0 {
		return nil, atompmh.Feed{}, fmt.Errorf("the documents of the feed have more than %d bytes", h.a.o.MaxBytes)
	}
	q := fetch.Request{
		URI: uri, AcceptGzip: true, Document: true, MaxBytes: min(left, atompmh.DefaultReadBytes),
		Header: http.Header{"Accept": {feedAccept}},
	}
	if known != nil { // AP-HTTP-05; without a copy no conditional request, AP-HTTP-07
		q.IfNoneMatch, q.IfModifiedSince = known.ETag, known.Modified
	}
	if !sub {
		q.Redirect = func(_, to *url.URL) error { return mayRead(to.String(), h.home, h.a.o.AllowHosts) }
	}
	for try := 1; ; try++ {
		d, feed, err := h.readOnce(ctx, &q, known)
		switch {
		case err == nil:
			if known := h.docs[uri] != nil; known || sub || len(h.docs) < maxWalkDocs {
				h.docs[uri] = d
			}
			return d, feed, nil
		case ctx.Err() != nil:
			return nil, feed, context.Cause(ctx)
		case try == feedTries || !errors.Is(err, fetch.ErrChanged) && !isStatus(err, http.StatusNotModified):
			return nil, feed, err
		}
		q.IfNoneMatch, q.IfModifiedSince, q.NoCache = "", "", true
	}
}

// maxWalkDocs is how many documents of a walk are remembered when it is restarted:
// the nearest to the subscription document. Others are requested unconditionally.
const maxWalkDocs = 4 << 10

// feedTries is how often a document that changes during the walk is read.
const feedTries = 3

func (h *harvest) readOnce(ctx context.Context, q *fetch.Request, known *feedDoc) (*feedDoc, atompmh.Feed, error) {
	resp, err := h.a.client.GetWhole(ctx, *q)
	if err != nil {
		return nil, atompmh.Feed{}, err
	}
	defer func() { _ = resp.Body.Close() }() // only read from
	if q.URI == h.sub {
		h.answered(resp)
	}
	if resp.Status == http.StatusNotModified {
		d := *known
		d.same, d.final = true, resp.URI
		return &d, atompmh.Feed{}, nil
	}
	h.list.Tally.Hashed.Add(1)
	part := uint32(len(h.parts))
	h.parts = append(h.parts, feedPart{broken: true, depth: h.depth})
	sum := sha256.New()
	rd := atompmh.NewReader(io.TeeReader(resp.Body, sum), atompmh.ReaderOptions{
		Base: resp.URI, MaxBytes: q.MaxBytes,
		OnWarning: func(w atompmh.Warning) { warned(h.list, q.URI, &w) },
	})
	d := &feedDoc{final: resp.URI}
	err = h.collect(rd, d, part)
	h.list.Tally.Bytes.Add(rd.Stats().Bytes)
	if err == nil {
		_, err = io.Copy(io.Discard, resp.Body) // bytes after the end of the document, for the digest
	}
	if err != nil {
		return nil, atompmh.Feed{}, err
	}
	feed, err := rd.Feed()
	if err != nil {
		return nil, feed, err
	}
	h.parts[part] = feedPart{updated: feed.Updated, depth: h.depth}
	h.future.Note(q.URI, feed.Updated)
	h.describe(q.URI, d, &feed, resp.Header, rd.Stats())
	d.Digest = base64.RawURLEncoding.EncodeToString(sum.Sum(nil)[:18])
	d.same = known != nil && known.Digest == d.Digest // AP-HTTP-07
	return d, feed, nil
}

// documentError returns the reason why the document at uri could not be read,
// without the address, which is reported beside it. If a body broke off, the line
// number is omitted, as it does not matter.
func documentError(uri string, err error) error {
	if e, ok := errors.AsType[*fetch.BodyError](err); ok {
		return &fault.Reworded{Text: strings.TrimPrefix(e.Error(), "get "+fetch.Printable(uri)+": "), Err: err}
	}
	return fault.Plain(uri, err)
}

// warned reports a deviation from the format that was tolerated in a document.
func warned(list *intake.Listing, uri string, w *atompmh.Warning) {
	list.Skipped(fetch.Printable(uri), &intake.LineError{Line: int64(w.Line), Err: fmt.Errorf("%s: %s", w.Rule, fetch.Printable(w.Message))})
}

// answered evaluates the header of a response to the request for the subscription
// document.
func (h *harvest) answered(resp *fetch.Response) {
	if resp.Moved != "" { // AP-HV-15
		h.now.At = resp.Moved
	}
	if u, err := url.Parse(resp.URI); err == nil && len(h.home) < maxHomes {
		h.home = append(h.home, u)
	}
	if !h.date.IsZero() {
		return // later responses may cover entries that earlier documents could not contain
	}
	h.date = time.Now() // RFC 9110, 6.6.1: when it was received
	if t, err := http.ParseTime(resp.Header.Get("Date")); err == nil {
		h.date = t
	}
	h.date = h.date.UTC()
}

// maxHomes is the maximum number of addresses at which a subscription document may be found.
const maxHomes = 8

// collect sorts the entries of a document, including those before the watermark: a
// producer may have published one late, or dated it before a watermark that is later
// than it should be.
func (h *harvest) collect(rd *atompmh.Reader, d *feedDoc, part uint32) error {
	var print maphash.Hash
	print.SetSeed(h.seed)
	for {
		var e atompmh.Entry
		switch err := rd.Read(&e); {
		case errors.Is(err, io.EOF):
			d.print = print.Sum64()
			return nil
		case err != nil:
			return err
		}
		if d.Entries == 0 || e.Updated.Before(d.Min.Time) {
			d.Min.Time = e.Updated
		}
		if d.Entries == 0 || e.Updated.After(d.Max.Time) {
			d.Max.Time = e.Updated
		}
		d.Entries++
		h.future.Note(e.ID, e.Updated)
		if err := h.add(&e, part); err != nil {
			return &fault.StopError{Err: err}
		}
		_, _ = print.WriteString(e.ID) // never fails
		_, _ = print.Write(appendTime(h.said, e.Updated))
	}
}

// maxValidator is the maximum length of a validator that is remembered: longer ones
// would fill the memory and serve no purpose.
const maxValidator = 1 << 10

// describe completes the remembered state of a document.
func (h *harvest) describe(uri string, d *feedDoc, feed *atompmh.Feed, head http.Header, st atompmh.Stats) {
	d.Updated.Time, d.Complete = feed.Updated, feed.Complete
	d.Prev, _, _ = strings.Cut(feed.PrevArchive, "#")
	d.Prev = d.Prev[:min(len(d.Prev), maxFeedURI+1)] // mayRead refuses a longer one
	d.ETag, d.Modified = fetch.Validators(head)
	if len(d.ETag) > maxValidator {
		d.ETag = ""
	}
	if len(d.Modified) > maxValidator {
		d.Modified = ""
	}
	if feed.Complete && st.Skipped > 0 {
		h.unreadable = true
	}
	if n := st.Nameless; n == 1 {
		h.list.Illegible(uri, errors.New("an entry cannot be read: it lacks its id, its time or a usable link"))
	} else if n > 1 {
		h.list.Illegible(uri, fmt.Errorf("%d entries cannot be read: they lack their id, their time or a usable link", n))
	}
}

// add sorts an entry by its record, and within that by time.
func (h *harvest) add(e *atompmh.Entry, part uint32) error {
	id := ledgerID(e.ID)
	if id == "" {
		return nil // unreachable: the Reader returns no entry without one
	}
	key := append(h.key[:0], id...)
	key = append(key, 0)
	key = appendTime(key, e.Updated)
	key = binary.BigEndian.AppendUint32(key, part)
	key = binary.BigEndian.AppendUint32(key, h.count)
	h.count++
	h.key = key
	said := statement{deleted: e.Kind == atompmh.Deletion}
	if id != e.ID {
		said.id = e.ID
	}
	if !said.deleted {
		said.resources = h.a.resources(h.list, e)
	}
	h.said = said.append(h.said[:0])
	return h.list.Sorter.Add(key, part, false, h.said)
}

// resources returns the usable representations of a record, each URI once.
func (a *Harvester) resources(list *intake.Listing, e *atompmh.Entry) []ledger.Resource {
	var rs []ledger.Resource
	for _, l := range e.Alternates() {
		typ := strings.TrimSpace(l.Type)
		if typ != "" && !entry.Listable(resourcesync.Metadata{Type: typ}) {
			list.Skipped(fetch.Printable(l.Href), fmt.Errorf("record %s: %q is no media type", fetch.Printable(e.ID), fetch.Printable(typ)))
			typ = ""
		}
		if !a.acceptsType(typ) {
			continue
		}
		if err := usable(l.Href); err != nil {
			list.Skipped(fetch.Printable(l.Href), fmt.Errorf("record %s: %w", fetch.Printable(e.ID), err))
			continue
		}
		uri, _, _ := strings.Cut(l.Href, "#") // servers cannot be asked for a fragment
		same := func(r ledger.Resource) bool { return r.URI == uri }
		if !slices.ContainsFunc(rs, same) {
			rs = append(rs, ledger.Resource{URI: uri, Type: typ})
		}
	}
	return rs
}

// usable returns the reason why uri cannot be that of a resource. AP-GEN-06: HTTP only.
func usable(uri string) error {
	u, err := url.Parse(uri)
	if err != nil || u.Host == "" || !strings.EqualFold(u.Scheme, "http") && !strings.EqualFold(u.Scheme, "https") {
		return errors.New("it is no http or https URI")
	}
	whole, _, _ := strings.Cut(uri, "#") // see resources
	if err := entry.CheckFetchable(whole); err != nil {
		return err
	}
	return entry.CheckListed(&resourcesync.Entry{Loc: uri})
}

// acceptsType reports whether a representation of this type is requested.
func (a *Harvester) acceptsType(typ string) bool {
	if len(a.types) == 0 {
		return true
	}
	typ, _, _ = strings.Cut(strings.ToLower(typ), ";")
	typ = strings.TrimSpace(typ)
	main, _, _ := strings.Cut(typ, "/")
	return slices.ContainsFunc(a.types, func(t string) bool { return t == typ || t == "*/*" || typ != "" && t == main+"/*" })
}

// maxLedgerID is the maximum length of the identifier of a row: a database has to
// store it in an index, together with a URI.
const maxLedgerID = 400

// hashedID begins the replacement of an id that is too long. No id can begin with it.
const hashedID = "\x01"

// ledgerID returns the identifier of a record in the ledger: its id, unless that is
// too long.
func ledgerID(id string) string {
	if len(id) <= maxLedgerID {
		return id
	}
	sum := sha256.Sum256([]byte(id))
	return hashedID + base64.RawURLEncoding.EncodeToString(sum[:])
}

// timeSize is the number of bytes that appendTime appends.
const timeSize = 12

// appendTime appends t so that the byte order is the order of time.
func appendTime(b []byte, t time.Time) []byte {
	b = binary.BigEndian.AppendUint64(b, uint64(t.Unix())^1<<63)
	return binary.BigEndian.AppendUint32(b, uint32(t.Nanosecond()))
}

func parseTime(b []byte) time.Time {
	return time.Unix(int64(binary.BigEndian.Uint64(b)^1<<63), int64(binary.BigEndian.Uint32(b[8:]))).UTC()
}

// statement is what an entry states of its record; append packs it.
type statement struct {
	id        string // set if the ledger has another identifier for the record
	deleted   bool
	tied      bool // another entry of the same instant states the opposite
	resources []ledger.Resource
}

// Flags of the first byte.
const (
	statesDeleted = 1 << iota
	statesTied
)

func (t *statement) append(b []byte) []byte {
	flags := byte(0)
	if t.deleted {
		flags |= statesDeleted
	}
	if t.tied {
		flags |= statesTied
	}
	b = listed.AppendText(append(b, flags), t.id)
	for _, r := range t.resources {
		b = listed.AppendText(listed.AppendText(b, r.URI), r.Type)
	}
	return b
}

// parseStatement is the inverse of told.append.
func parseStatement(b []byte) (t statement) {
	text := func() (s string) {
		n, k := binary.Uvarint(b)
		s, b = string(b[k:k+int(n)]), b[k+int(n):]
		return s
	}
	t.deleted, t.tied, b = b[0]&statesDeleted != 0, b[0]&statesTied != 0, b[1:]
	t.id = text()
	for len(b) > 0 {
		t.resources = append(t.resources, ledger.Resource{URI: text(), Type: text()})
	}
	return t
}

func isStatus(err error, statuses ...int) bool {
	e, ok := errors.AsType[*fetch.StatusError](err)
	return ok && slices.Contains(statuses, e.Status)
}
