package bulk

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"

	"lockstep/destination/internal/content"
	"lockstep/destination/internal/plan"
	"lockstep/destination/internal/transfer"
	"lockstep/internal/fetch"
	"lockstep/internal/unpack"
	"lockstep/resourcesync"
)

const (
	// DemandCount and demandBytes limit the resources requested at a time: enough
	// that the round trip matters little, and few enough that the response fits
	// into memory.
	DemandCount = 2000
	demandBytes = 2 << 20

	// demandAnswer is the longest response accepted, in bytes: it is held in
	// memory. If lengths are not stated, a longer response shows that a request
	// must name fewer resources.
	demandAnswer = 8 << 20

	// DemandLength is the length, in bytes, up to which a resource counts as small.
	DemandLength = 256 << 10

	// demandAtOnce is the number of packages requested or unpacked concurrently: a
	// Source has to make them, and each takes 12 MB of memory. Lockstep's own Source
	// makes four.
	demandAtOnce = 4

	// DemandLeast is the number of resources from which on requesting packages
	// pays, and demandRest the number from which on it pays for the resources left
	// over.
	DemandLeast = 32
	demandRest  = 4

	// demandFew is the least number of resources per request when a batch is
	// divided in order to use several requests concurrently.
	demandFew = 500
)

// A Demand requests packages of many resources from a Source, each with one
// request, and takes the resources' content from them. It passes resources that it
// cannot get to single: no response makes a run fail.
type Demand struct {
	uri    string
	fetch  *transfer.Fetcher
	done   func(transfer.Outcome)
	single func(*plan.Action)
	warn   func(uri, text string)
	Insist bool // also if a single request would do

	batch []*plan.Action // batch being collected
	bytes int64
	queue chan []*plan.Action
	wg    sync.WaitGroup

	mu     sync.Mutex // guards the fields below
	Most   int        // resources per request
	off    bool       // not used for the rest of the run
	failed int        // useless responses in a row
}

// NewDemand returns a Demand for approximately the given number of resources and
// total bytes. It sizes the batches so that as many packages are requested
// concurrently at the end as at the beginning.
func NewDemand(uri string, expected, bytes int64) *Demand {
	parts := max((expected+DemandCount-1)/DemandCount, (bytes+demandBytes-1)/demandBytes)
	parts = (parts + demandAtOnce - 1) / demandAtOnce * demandAtOnce
	most := expected/max(parts, 1) + 1
	return &Demand{uri: uri, Most: int(min(max(most, demandFew), DemandCount))}
}

// start starts the requests. Until finish, one goroutine may call add.
func (d *Demand) start(ctx context.Context) {
	d.batch, d.bytes = nil, 0
	d.queue = make(chan []*plan.Action)
	for range demandAtOnce {
		d.wg.Go(func() {
			var answer bytes.Buffer // reused for every response
			for batch := range d.queue {
				d.get(ctx, batch, &answer)
			}
		})
	}
}

// wants reports whether the content of a is requested on demand.
func (d *Demand) wants(a *plan.Action) bool {
	return !a.Conditional && a.From == "" && content.HasKnown(a.Hashes) && a.Length <= DemandLength && len(a.URI) < 2048 &&
		!strings.ContainsAny(a.URI, "\r\n") && d.isOn()
}

func (d *Demand) isOn() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return !d.off
}

// add queues a. It blocks while many requests are in progress.
func (d *Demand) add(a *plan.Action) {
	length := max(a.Length, 0)
	if len(d.batch) > 0 && d.bytes+length > demandBytes {
		d.send()
	}
	d.batch, d.bytes = append(d.batch, a), d.bytes+length
	d.mu.Lock()
	most := d.Most
	d.mu.Unlock()
	if len(d.batch) >= most {
		d.send()
	}
}

func (d *Demand) send() {
	d.queue <- d.batch
	d.batch, d.bytes = nil, 0
}

// finish requests the queued resources, if goOn is set, and returns when no request
// is in progress.
func (d *Demand) finish(goOn bool) {
	if goOn && len(d.batch) > 0 {
		d.send()
	}
	close(d.queue)
	d.wg.Wait()
}

// get requests a package of batch.
func (d *Demand) get(ctx context.Context, batch []*plan.Action, answer *bytes.Buffer) {
	if ctx.Err() != nil {
		return
	}
	d.mu.Lock()
	off, most := d.off, d.Most
	d.mu.Unlock()
	if off || len(batch) < demandRest && !d.Insist {
		d.alone(batch)
		return
	}
	if len(batch) > most {
		d.halve(ctx, batch, answer)
		return
	}
	err := d.ask(ctx, batch, answer)
	if err == nil {
		err = d.unpack(ctx, batch, answer.Bytes())
	}
	if err != nil && ctx.Err() == nil {
		d.refused(ctx, batch, answer, err)
	}
}

func (d *Demand) alone(batch []*plan.Action) {
	for _, a := range batch {
		d.single(a)
	}
}

func (d *Demand) halve(ctx context.Context, batch []*plan.Action, answer *bytes.Buffer) {
	d.get(ctx, batch[:len(batch)/2], answer)
	d.get(ctx, batch[len(batch)/2:], answer)
}

// ask reads the Source's response into answer.
func (d *Demand) ask(ctx context.Context, batch []*plan.Action, answer *bytes.Buffer) error {
	var body bytes.Buffer
	expected := int64(bytes.MinRead)
	for _, a := range batch {
		// The package contains the URI twice, and again in its compressed manifest,
		// with the description of the resource.
		expected += max(a.Length, 0) + int64(2*len(a.URI)) + 300
		uri, _, _ := strings.Cut(a.URI, "#") // RS-AMB-22
		body.WriteString(uri)
		body.WriteByte('\n')
	}
	r := fetch.Request{URI: d.uri, Post: body.Bytes(), PostType: "text/plain; charset=utf-8", MaxBytes: demandAnswer}
	return d.fetch.Client.Fetch(ctx, &r, func(resp *fetch.Response) error {
		answer.Reset()
		if resp.Length > 0 {
			expected = resp.Length + bytes.MinRead
		}
		answer.Grow(int(min(expected, demandAnswer+bytes.MinRead))) // growing step by step would leave twice as much
		_, err := io.Copy(answer, resp.Body)
		return err
	})
}

// refused handles a Source that returned no package for batch.
func (d *Demand) refused(ctx context.Context, batch []*plan.Action, answer *bytes.Buffer, err error) {
	var status *fetch.StatusError
	tooMuch := errors.Is(err, fetch.ErrTooLarge) ||
		errors.As(err, &status) && status.Status == http.StatusRequestEntityTooLarge
	if tooMuch && len(batch) > 1 {
		d.mu.Lock()
		d.Most = max(1, min(d.Most, len(batch)/2))
		d.off = d.off || d.Most < DemandLeast && !d.Insist // fewer resources per request do not pay
		d.mu.Unlock()
		d.halve(ctx, batch, answer)
		return
	}
	d.mu.Lock()
	d.failed++
	// A response predicts the next one; a broken connection does not.
	stop := !tooMuch && !d.off && (status != nil || isNoPackage(err) || d.failed > 2)
	d.off = d.off || stop
	d.mu.Unlock()
	if stop {
		d.warn(d.uri, fmt.Sprintf("no packages on demand: %v; its resources are fetched one by one", err))
	}
	d.alone(batch)
}

// errNoPackage reports a response that is not the requested package.
var errNoPackage = errors.New("the answer is no package with a manifest of what was asked for")

func isNoPackage(err error) bool { return errors.Is(err, errNoPackage) }

// unpack takes the content of batch out of a response. It returns an error if the
// response contains none of it.
func (d *Demand) unpack(ctx context.Context, batch []*plan.Action, answer []byte) error {
	noPackage := func(err error) error {
		return fmt.Errorf("post %s: %w: %w", fetch.Printable(d.uri), errNoPackage, err)
	}
	dir, err := unpack.Read(bytes.NewReader(answer), int64(len(answer)), unpack.Limits{Members: 2*len(batch) + 100})
	if err != nil {
		return noPackage(err)
	}
	left := make(map[string][]*plan.Action, len(batch))
	for _, a := range batch {
		uri, _, _ := strings.Cut(a.URI, "#")
		left[uri] = append(left[uri], a)
	}
	entries, err := manifestOf(dir, answer, d.uri, left)
	if err != nil {
		return noPackage(err)
	}
	var buf []byte
	taken := 0
	for i := range entries {
		e := &entries[i]
		as := left[e.Loc]
		m, ok := dir.Find(e.Path)
		if len(as) == 0 || !ok || m.Size > maxDemanded(as[0]) || ctx.Err() != nil {
			continue
		}
		delete(left, e.Loc)
		content, err := m.Bytes(answer[m.Offset:], buf)
		if m.Method != 0 && cap(content) > cap(buf) {
			buf = content // the buffer that it was inflated to
		}
		for _, a := range as {
			if err == nil && d.take(ctx, a, content) {
				taken++
			} else if ctx.Err() == nil {
				d.single(a)
			}
		}
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if taken > 0 {
		d.mu.Lock()
		d.failed = 0
		d.mu.Unlock()
	} else if len(entries) == 0 {
		return noPackage(errors.New("its manifest names none"))
	}
	for _, as := range left {
		d.alone(as)
	}
	return nil
}

// maxDemanded is the largest size of the packed data for a: longer data is not what
// was requested, and might fill the memory.
func maxDemanded(a *plan.Action) int64 {
	if a.Length < 0 {
		return demandAnswer
	}
	return 2*a.Length + 64<<10
}

// manifestOf reads the entries for wanted resources from the manifest of a package
// that is in memory.
func manifestOf[T any](dir *unpack.Directory, b []byte, base string, wanted map[string]T) ([]resourcesync.Entry, error) {
	m, _ := dir.Manifest()
	if m == nil {
		return nil, errors.New("it has no manifest")
	}
	if m.Size > 4*demandAnswer {
		return nil, fmt.Errorf("manifest of %d bytes: %w", m.Size, fetch.ErrTooLarge)
	}
	text, err := m.Bytes(b[m.Offset:], nil)
	if err != nil {
		return nil, err
	}
	r := resourcesync.NewReader(bytes.NewReader(text), resourcesync.ReaderOptions{Base: base, MaxBytes: 4 * demandAnswer})
	h, err := r.Header()
	if err != nil {
		return nil, err
	}
	if h.Index || h.Capability != "" && h.Capability != resourcesync.ResourceDumpManifest {
		kind := "a " + fetch.Printable(string(h.Capability))
		if h.Capability == "" {
			kind = "a plain Sitemap"
		}
		return nil, fmt.Errorf("read %s: it is %s, not a %s", fetch.Printable(base), kind, resourcesync.ResourceDumpManifest)
	}
	var entries []resourcesync.Entry
	for e, err := range r.Entries() {
		if err != nil {
			return nil, err
		}
		if _, ok := wanted[e.Loc]; ok && e.Path != "" && len(entries) < 2*len(wanted) {
			entries = append(entries, e)
		}
	}
	return entries, nil
}

// take stores data as content of a if it matches the Source's list: the manifest in
// the response is not verified and proves nothing. It reports whether a is
// finished.
func (d *Demand) take(ctx context.Context, a *plan.Action, data []byte) bool {
	o := d.fetch.Take(ctx, a, bytes.NewReader(data))
	o.By = transfer.ByOnDemand
	if o.Err != nil && !content.IsLocal(o.Err) && !content.IsCanceled(ctx, o.Err) {
		return false
	}
	d.done(o)
	return true
}
