// Package demand answers requests for packages of the resources that a client
// names.
package demand

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"mime"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"lockstep/catalog"
	"lockstep/internal/hangup"
	"lockstep/resourcesync"
	"lockstep/source/internal/describe"
	"lockstep/source/internal/document"
	"lockstep/source/internal/names"
	"lockstep/source/internal/pack"
	"lockstep/source/internal/server"
)

// The default limits of a package on demand.
const (
	defaultResources = 10_000
	defaultBytes     = 1 << 30
	defaultAtOnce    = 4

	// demandURI is the room for one URI in a request: memory filled by a body
	// without end. Sitemaps allow 2,048 characters (RS-XML-10).
	demandURI = 2_100

	// Clients that were notified of the same changes ask for the same package at the same
	// time: so many wait in line for so long, instead of being sent away for
	// seconds.
	demandWaiting  = 256
	demandPatience = 2 * time.Second

	demandRetry = "5" // seconds until there may be a place
)

// Limits limit packages that clients ask for.
type Limits struct {
	Resources int   // in one; default 10,000, at most 50,000
	Bytes     int64 // of content in one; default 1 GiB
	AtOnce    int   // being made at a time, and four times as many being sent; default 4
}

// WithDefaults returns the limits with a default for each that is not set.
func (d Limits) WithDefaults() Limits {
	if d.Resources <= 0 {
		d.Resources = defaultResources
	}
	d.Resources = min(d.Resources, resourcesync.MaxEntries)
	if d.Bytes <= 0 {
		d.Bytes = defaultBytes
	}
	if d.AtOnce <= 0 {
		d.AtOnce = defaultAtOnce
	}
	return d
}

// A Set is a set of resources of which clients can ask for packages.
type Set struct {
	Name  string
	Rules describe.Rules

	// Bitstream opens the present representation of a resource.
	Bitstream func(ctx context.Context, r *catalog.Record) (io.ReadCloser, error)
}

// Options are what packages on demand depend on.
type Options struct {
	Docs    *document.Store
	Catalog catalog.Catalog
	Workers int    // how many bitstreams are read at a time
	Temp    string // directory for temporary files
	Limits  Limits
}

// A Handler answers requests for packages.
type Handler struct {
	opts    Options
	docs    *document.Store
	catalog catalog.Catalog
	demands chan struct{} // held while a package that was asked for is made
	waiting atomic.Int64  // requests for one that wait for their turn
	bodies  atomic.Int64  // bytes of such requests that are held, see demandBody
	senders senders       // of packages that have been made
}

// New returns a Handler.
func New(o Options) *Handler {
	return &Handler{opts: o, docs: o.Docs, catalog: o.Catalog, demands: make(chan struct{}, o.Limits.AtOnce)}
}

// place waits for a place among the packages that are being made, and reports
// whether it has one.
func (h *Handler) place(ctx context.Context) bool {
	select {
	case h.demands <- struct{}{}:
		return true
	default:
	}
	defer h.waiting.Add(-1)
	if h.waiting.Add(1) > demandWaiting {
		return false
	}
	patience := time.NewTimer(demandPatience)
	defer patience.Stop()
	select {
	case h.demands <- struct{}{}:
		return true
	case <-patience.C:
	case <-ctx.Done():
	}
	return false
}

// Serve answers a request for a package: a POST of URIs, as lines of text or as a
// JSON array of strings. The answer is a package whose Resource Dump Manifest
// names what is in it: those of the URIs that are in the set and can be read.
func (h *Handler) Serve(w http.ResponseWriter, r *http.Request, set *Set) {
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		demandError(w, http.StatusMethodNotAllowed, "only POST is possible here, of the URIs wanted")
		return
	}
	// The request is read before it takes a place, and the place is given back
	// before the answer is sent: no client holds it.
	limits := h.opts.Limits
	body := &demandBody{Reader: http.MaxBytesReader(w, r.Body, int64(limits.Resources)*demandURI), all: &h.bodies}
	defer body.done()
	uris, err := parseDemand(r.Header.Get("Content-Type"), body, limits.Resources)
	if hangup.IsBody(r.Context(), err) {
		panic(http.ErrAbortHandler) // the client is gone
	}
	if err != nil {
		h.refuseDemand(w, r, set, err)
		return
	}
	if !h.place(r.Context()) {
		if r.Context().Err() != nil {
			panic(http.ErrAbortHandler) // the client is gone
		}
		h.refuseDemand(w, r, set, errDemandsFull)
		return
	}
	leave := sync.OnceFunc(func() { <-h.demands })
	defer leave()
	_ = http.NewResponseController(w).SetWriteDeadline(time.Time{}) // until there is something to write; not every ResponseWriter can
	p, err := h.demanded(r.Context(), set, uris)
	if err != nil {
		h.refuseDemand(w, r, set, err)
		return
	}
	content, err := p.Gather(r.Context(), limits.Bytes)
	if err != nil {
		h.refuseDemand(w, r, set, err)
		return
	}
	defer content.Close()
	to := h.senders.enter(r.Context(), w, demandSending*limits.AtOnce)
	if to == nil {
		h.refuseDemand(w, r, set, errDemandsFull)
		return
	}
	defer h.senders.leave(to)
	leave()
	header := w.Header()
	header.Set("Content-Type", pack.MediaType)
	header.Set("Content-Disposition", `attachment; filename="`+set.Name+names.PackageSuffix+`"`)
	header.Set("Cache-Control", "no-store")
	out := bufio.NewWriterSize(to, server.WriteChunk)
	if err = content.Write(out); err == nil {
		err = out.Flush()
	}
	if err != nil {
		panic(http.ErrAbortHandler) // no client may take it for whole
	}
}

// demanded returns a packing of those URIs that are in the set.
func (h *Handler) demanded(ctx context.Context, set *Set, uris []string) (*pack.Packing, error) {
	key := h.docs.CapabilityList(set.Name)
	status, err := h.catalog.Status(ctx, key)
	if err != nil {
		return nil, err
	}
	// All up to the newest event is in what is read from now on (RS-MD-02), and
	// nothing needs to be written to say so.
	at := status.LastTime
	if at.IsZero() {
		at = h.docs.Now()
	}
	head := h.docs.Header(set.Name, resourcesync.ResourceDumpManifest)
	head.At = resourcesync.NewDatetime(at)
	p, err := pack.New(pack.Options{
		Docs: h.docs, Set: set.Name, Describe: set.Rules.Describer(), Header: head, Entries: h.opts.Limits.Resources, Bytes: h.opts.Limits.Bytes,
		Workers: h.opts.Workers, Temp: h.opts.Temp, Stamp: h.docs.Now(), Lenient: true,
		Open: func(ctx context.Context, it *pack.Item) (io.ReadCloser, error) {
			return set.Bitstream(ctx, &it.Change.Record)
		},
	})
	if err != nil {
		return nil, err
	}
	docNames := names.NewMembers(set.Rules.Below)
	for rec, err := range h.among(ctx, key, uris) {
		if err != nil {
			return nil, err
		}
		if err := p.Add(&catalog.Change{Record: rec}, docNames.Name(rec.URI)); err != nil {
			return nil, err
		}
	}
	if p.Content > h.opts.Limits.Bytes {
		return nil, resourcesync.ErrTooLarge
	}
	return p, nil
}

// amongSkip is how many resources that were not asked for are read over before it is
// cheaper to look for the next.
const amongSkip = 32

// among yields those resources of a set that have one of the URIs, which are
// in order. Clients that ask for many mostly ask for neighbours: they are read in one
// go, for a reading of its own for each takes longer than all the rest.
func (h *Handler) among(ctx context.Context, set string, uris []string) iter.Seq2[catalog.Record, error] {
	return func(yield func(catalog.Record, error) bool) {
		for len(uris) > 0 {
			skipped := 0
			// No URI has a NUL byte, so none lies between the last and the bound.
			for rec, err := range h.catalog.Resources(ctx, set, catalog.Range{From: uris[0], To: uris[len(uris)-1] + "\x01"}) {
				if err != nil {
					yield(catalog.Record{}, err)
					return
				}
				for len(uris) > 0 && uris[0] < rec.URI {
					uris = uris[1:] // there is none
				}
				if len(uris) == 0 {
					return
				}
				if uris[0] != rec.URI {
					if skipped++; skipped > amongSkip {
						break
					}
					continue
				}
				if uris, skipped = uris[1:], 0; !yield(rec, nil) || len(uris) == 0 {
					return
				}
			}
			if skipped <= amongSkip {
				return // it came to the end
			}
		}
	}
}

// A demandProblem is what is wrong with a request.
type demandProblem struct {
	status int
	text   string
}

func (p *demandProblem) Error() string { return p.text }

var errDemandsFull = &demandProblem{http.StatusServiceUnavailable, "too many packages are being made at the moment"}

func (h *Handler) refuseDemand(w http.ResponseWriter, r *http.Request, set *Set, err error) {
	limits := h.opts.Limits
	if p, ok := errors.AsType[*demandProblem](err); ok {
		if p.status == http.StatusServiceUnavailable {
			w.Header().Set("Retry-After", demandRetry)
		}
		demandError(w, p.status, p.text)
		return
	}
	if _, tooLong := errors.AsType[*http.MaxBytesError](err); tooLong || errors.Is(err, resourcesync.ErrTooLarge) {
		demandError(w, http.StatusRequestEntityTooLarge,
			fmt.Sprintf("one package has at most %d resources and %d bytes: ask for less", limits.Resources, limits.Bytes))
		return
	}
	if hangup.Is(r.Context(), err) {
		panic(http.ErrAbortHandler) // the client is gone
	}
	h.docs.Log.ErrorContext(r.Context(), "cannot make a package", slog.String("set", set.Name), slog.Any("err", err))
	demandError(w, http.StatusInternalServerError, "the package cannot be made just now")
}

// demandError answers in plain words: programs ask here, not people.
func demandError(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Cache-Control", "no-store")
	http.Error(w, text, status)
}

// parseDemand reads the URIs a client asks for, up to most of them, and returns
// them in order, each once. It takes lines of text or a JSON array of strings.
func parseDemand(contentType string, body io.Reader, most int) ([]string, error) {
	typ := "text/plain"
	if contentType != "" {
		var err error
		if typ, _, err = mime.ParseMediaType(contentType); err != nil {
			typ = contentType
		}
	}
	var uris []string
	add := func(uri string) error {
		if uri = strings.TrimSpace(uri); uri == "" || strings.IndexByte(uri, 0) >= 0 {
			return nil // no resource is called so
		}
		if len(uris) == most {
			return &demandProblem{http.StatusRequestEntityTooLarge, fmt.Sprintf("one package has at most %d resources: ask for less", most)}
		}
		uris = append(uris, uri)
		return nil
	}
	var err error
	switch typ {
	case "text/plain", "application/x-www-form-urlencoded": // the latter is what curl says of anything
		err = demandLines(body, add)
	case "application/json":
		err = demandArray(body, add)
	default:
		err = &demandProblem{http.StatusUnsupportedMediaType, "want URIs as lines of text/plain or as an array of strings in application/json"}
	}
	if err != nil {
		_, known := errors.AsType[*demandProblem](err)
		_, tooLong := errors.AsType[*http.MaxBytesError](err)
		if !known && !tooLong {
			err = &demandProblem{http.StatusBadRequest, "the body cannot be read to its end"}
		}
		return nil, err
	}
	slices.Sort(uris)
	return slices.Compact(uris), nil
}

func demandLines(body io.Reader, add func(string) error) error {
	lines := bufio.NewScanner(body)
	lines.Buffer(make([]byte, 0, 4096), 64<<10)
	for lines.Scan() {
		if err := add(lines.Text()); err != nil {
			return err
		}
	}
	if errors.Is(lines.Err(), bufio.ErrTooLong) {
		return &demandProblem{http.StatusBadRequest, "a line is too long to be a URI"}
	}
	return lines.Err()
}

func demandArray(body io.Reader, add func(string) error) error {
	malformed := func(err error) error {
		if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
			return err
		}
		return &demandProblem{http.StatusBadRequest, "the body is no JSON array of strings"}
	}
	d := json.NewDecoder(body)
	if t, err := d.Token(); err != nil || t != json.Delim('[') {
		return malformed(err)
	}
	for d.More() {
		t, err := d.Token()
		uri, ok := t.(string)
		if err != nil || !ok {
			return malformed(err)
		}
		if err := add(uri); err != nil {
			return err
		}
	}
	if _, err := d.Token(); err != nil {
		return malformed(err)
	}
	if _, err := d.Token(); err != io.EOF {
		return malformed(err)
	}
	return nil
}
