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
	// DemandCount and demandBytes are how much is requested at a time: enough
	// that the round trip matters little, and an answer fits into memory.
	DemandCount = 2000
	demandBytes = 2 << 20

	// demandAnswer is the longest answer accepted: it is held in memory. If
	// lengths are not stated, a longer answer shows that a request must ask for
	// less.
	demandAnswer = 8 << 20

	// DemandLength is up to which length a resource is small.
	DemandLength = 256 << 10

	// demandAtOnce is how many packages are asked for at a time: a Source makes
	// them for us. Ours makes four.
	demandAtOnce = 4

	// demandUnpacking is how many more may be unpacked meanwhile.
	demandUnpacking = 2

	// DemandLeast is from how many resources on asking for packages pays, and
	// demandRest from how many on it does for what is left over.
	DemandLeast = 32
	demandRest  = 4

	// demandFew is how much is asked for at least before it is parted for the
	// sake of doing several at a time.
	demandFew = 500
)

// A Demand asks a Source for packages of many resources, each with one request,
// and takes their content from there. Resources that it cannot get are passed
// to single: no answer makes a run fail.
type Demand struct {
	uri    string
	fetch  *transfer.Fetcher
	done   func(transfer.Outcome)
	single func(*plan.Action)
	warn   func(uri, text string)
	Insist bool // also where a single request would do

	batch []*plan.Action // being gathered
	bytes int64
	queue chan []*plan.Action
	asked chan struct{} // holds one for every package asked for
	wg    sync.WaitGroup

	mu     sync.Mutex // guards what follows
	Most   int        // to ask for at a time
	off    bool       // for the rest of the run
	failed int        // answers of no use, in a row
}

// NewDemand returns a demand for about so many resources, of so many bytes in
// all. They are parted so that as many packages are asked for at the end as at
// the beginning.
func NewDemand(uri string, expected, bytes int64) *Demand {
	parts := max((expected+DemandCount-1)/DemandCount, (bytes+demandBytes-1)/demandBytes)
	parts = (parts + demandAtOnce - 1) / demandAtOnce * demandAtOnce
	most := expected/max(parts, 1) + 1
	return &Demand{uri: uri, Most: int(min(max(most, demandFew), DemandCount))}
}

// Start begins. Until finish, add may be called, by one goroutine.
func (d *Demand) start(ctx context.Context) {
	d.batch, d.bytes = nil, 0
	d.queue = make(chan []*plan.Action)
	d.asked = make(chan struct{}, demandAtOnce)
	for range demandAtOnce + demandUnpacking {
		d.wg.Go(func() {
			var answer bytes.Buffer // used again and again
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

// Finish requests what is queued, and returns when nothing is in progress.
func (d *Demand) finish(goOn bool) {
	if goOn && len(d.batch) > 0 {
		d.send()
	}
	close(d.queue)
	d.wg.Wait()
}

// get asks for a package of batch.
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
	d.asked <- struct{}{}
	err := d.ask(ctx, batch, answer)
	<-d.asked
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

// ask puts the Source's answer into answer.
func (d *Demand) ask(ctx context.Context, batch []*plan.Action, answer *bytes.Buffer) error {
	var body bytes.Buffer
	expected := int64(bytes.MinRead)
	for _, a := range batch {
		// Its name is in the package twice, and in the manifest with what is
		// known of it, which is compressed.
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
		answer.Grow(int(min(expected, demandAnswer+bytes.MinRead))) // growing by and by leaves twice as much
		_, err := io.Copy(answer, resp.Body)
		return err
	})
}

// refused deals with a Source that gave no package for batch.
func (d *Demand) refused(ctx context.Context, batch []*plan.Action, answer *bytes.Buffer, err error) {
	var status *fetch.StatusError
	tooMuch := errors.Is(err, fetch.ErrTooLarge) ||
		errors.As(err, &status) && status.Status == http.StatusRequestEntityTooLarge
	if tooMuch && len(batch) > 1 {
		d.mu.Lock()
		d.Most = max(1, min(d.Most, len(batch)/2))
		d.off = d.off || d.Most < DemandLeast && !d.Insist // it is not worth it
		d.mu.Unlock()
		d.halve(ctx, batch, answer)
		return
	}
	d.mu.Lock()
	d.failed++
	// An answer predicts the next one; a broken connection does not.
	stop := !tooMuch && !d.off && (status != nil || isNoPackage(err) || d.failed > 2)
	d.off = d.off || stop
	d.mu.Unlock()
	if stop {
		d.warn(d.uri, fmt.Sprintf("no packages on demand: %v; its resources are fetched one by one", err))
	}
	d.alone(batch)
}

// errNoPackage reports an answer that is not the requested package.
var errNoPackage = errors.New("the answer is no package with a manifest of what was asked for")

func isNoPackage(err error) bool { return errors.Is(err, errNoPackage) }

// unpack takes the content of batch out of an answer. It fails if there is
// none in it.
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
			buf = content // where it was inflated to
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

// maxDemanded is how long the packed data for a may be: longer data is not what
// was requested, and might fill the memory.
func maxDemanded(a *plan.Action) int64 {
	if a.Length < 0 {
		return demandAnswer
	}
	return 2*a.Length + 64<<10
}

// manifestOf reads the manifest of a package that is in memory, as far as it
// is of what was wanted.
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

// take takes content for a, which the Source's list vouches for: the manifest in
// the answer is not verified, and vouches for nothing. It reports whether a is
// dealt with.
func (d *Demand) take(ctx context.Context, a *plan.Action, data []byte) bool {
	o := d.fetch.Take(ctx, a, bytes.NewReader(data))
	o.By = transfer.ByOnDemand
	if o.Err != nil && !content.IsLocal(o.Err) && !wasCanceled(o.Err) {
		return false
	}
	d.done(o)
	return true
}

// wasCanceled reports whether err says only that the caller canceled the run.
func wasCanceled(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}
