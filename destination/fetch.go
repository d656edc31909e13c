package destination

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"lockstep/blob"
	"lockstep/internal/fetch"
	"lockstep/resourcesync"
)

// An outcome is what became of an action.
type outcome struct {
	action  *action
	writer  blob.Writer // content to be committed; nil if there is none
	held    Held        // the row to record once it is
	same    bool        // the content turned out to be what is held
	adopted bool        // the file was there, and is right
	by      byWay       // which way the content came
	later   bool        // something that may go stands in its way
	err     error       // it failed; nothing is to be recorded
	stale   bool        // the description may be out of date: read it again
	warning string
}

// A fetcher gets content into the store, up to but not including Commit. It is
// safe for concurrent use.
type fetcher struct {
	d      *Destination
	set    int
	names  *names
	resume bool                    // an earlier run may have left unfinished downloads
	first  bool                    // deletions are still to come: what stands in the way may go
	refuse func(uri string) string // says why content must not be fetched from there
	hashers
}

// do carries out a verbFetch with requests of its own. The path it settles on
// stays kept in f.names.
func (f *fetcher) do(ctx context.Context, a *action) outcome {
	return f.with(ctx, a, func(t *transfer) outcome { return t.run(ctx) })
}

// take carries out a verbFetch with content that came another way: from a
// package, or as the result of a patch. It is verified like any other; what is
// not what was asked for is an outcome whose error is a [ContentError], and
// can be had another way.
func (f *fetcher) take(ctx context.Context, a *action, content io.Reader) outcome {
	return f.with(ctx, a, func(t *transfer) outcome { return t.copy(ctx, content) })
}

// with gives a its place and lets get fill it.
func (f *fetcher) with(ctx context.Context, a *action, get func(*transfer) outcome) outcome {
	path := a.held.Path
	if a.isHeld() {
		f.names.take(a.URI, path)
	} else {
		var err error
		path, err = f.names.give(a.URI)
		if f.first && (err != nil && isTaken(err) || err == nil && !f.names.isFirst(a.URI, path)) {
			if err == nil {
				f.names.release(path)
			}
			return outcome{action: a, later: true}
		}
		if err != nil {
			return f.taken(ctx, a, err)
		}
	}
	o := get(&transfer{fetcher: f, a: a, path: path})
	o.action, o.held.Path = a, path
	if o.err != nil {
		f.names.release(path)
		o.held = Held{}
	}
	return o
}

func isTaken(err error) bool {
	var taken *TakenError
	return errors.As(err, &taken)
}

// taken deals with something in the place of a resource that is new here.
func (f *fetcher) taken(ctx context.Context, a *action, err error) outcome {
	var taken *TakenError
	if !errors.As(err, &taken) {
		return outcome{action: a, err: err}
	}
	if other := f.names.owner(taken.Path); other != "" {
		return outcome{action: a, err: fmt.Errorf("%w: the resource %s has this file", err, fetch.Printable(other))}
	}
	if uri, perr := f.names.paths.URI(taken.Path); perr == nil && uri != a.URI {
		if hs, lerr := f.d.journal.Lookup(ctx, []string{uri}); lerr == nil && hs[0].Path == taken.Path {
			return outcome{action: a, err: fmt.Errorf("%w: the resource %s has this file", err, fetch.Printable(uri))}
		}
	}
	if !f.d.opts.Adopt {
		return outcome{action: a, err: fmt.Errorf("%w, which is not from here and was left alone; --adopt takes over what is right", err)}
	}
	if len(a.Hashes) == 0 {
		return outcome{action: a, err: fmt.Errorf("%w, and without a hash from the Source there is no telling whether it is right", err)}
	}
	length, got, herr := f.hashBlob(ctx, f.d.store, taken.Path, algorithmsOf(a.Hashes))
	if herr != nil {
		return outcome{action: a, err: fmt.Errorf("%w: %w", err, herr)}
	}
	if _, verr := verify(&a.want, length, got); verr != nil {
		return outcome{action: a, err: fmt.Errorf("%w, which is not from here and was left alone: %w", err, verr)}
	}
	f.names.take(a.URI, taken.Path)
	h := heldFrom(a, f.set, taken.Path)
	h.Length, h.Hashes = length, got
	return outcome{action: a, held: h, adopted: true}
}

// hashBlob reads a committed blob.
func (p *hashers) hashBlob(ctx context.Context, s blob.Store, path string, algs uint8) (int64, resourcesync.Hashes, error) {
	r, err := s.Open(ctx, path)
	if err != nil {
		return 0, nil, err
	}
	defer r.Close()
	h := p.get(algs)
	defer p.put(algs, h)
	n, err := copyHashing(nil, h, ctxReader{ctx, r})
	if err != nil {
		return 0, nil, err
	}
	return n, h.Sum(), nil
}

// ctxReader ends when its context does.
type ctxReader struct {
	ctx context.Context
	io.Reader
}

func (r ctxReader) Read(p []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	return r.Reader.Read(p)
}

// A transfer gets one resource.
type transfer struct {
	*fetcher
	a    *action
	path string

	w       blob.Writer
	hasher  *resourcesync.Hasher
	algs    uint8
	n       int64 // bytes in w
	resumed bool  // some of them are from an earlier run
	header  http.Header
	kept    bool // the answer was: as we hold it
}

// run gets the content, and once more past all caches if it is not as stated
// (RS-HASH-08). What is wrong after that may be so because the description is
// old: the outcome is stale.
func (t *transfer) run(ctx context.Context) outcome {
	t.algs = algorithmsOf(t.a.Hashes)
	if t.a.conditional && len(t.a.held.Hashes) > 0 {
		t.algs |= algorithmsOf(t.a.held.Hashes) // to see whether it is what we hold
	}
	t.hasher = t.hashers.get(t.algs)
	defer func() { t.hashers.put(t.algs, t.hasher) }()

	err := t.attempt(ctx, fetch.Request{}, true)
	var wrong *ContentError
	if errors.As(err, &wrong) && ctx.Err() == nil {
		t.drop()
		err = t.attempt(ctx, fetch.Request{NoCache: true}, false)
	}
	if err != nil {
		t.leave(err)
		return outcome{err: err, stale: isStale(err)}
	}
	return t.finish()
}

// copy takes the content from r.
func (t *transfer) copy(ctx context.Context, r io.Reader) outcome {
	t.algs = algorithmsOf(t.a.Hashes)
	t.hasher = t.hashers.get(t.algs)
	defer func() { t.hashers.put(t.algs, t.hasher) }()
	w, err := t.d.store.Create(ctx, t.path)
	if err != nil {
		return outcome{err: &localError{err}}
	}
	t.w = w
	if limit := t.limit(); limit > 0 {
		r = io.LimitReader(r, limit)
	}
	if t.n, err = copyHashing(t.w, t.hasher, ctxReader{ctx, r}); err == nil {
		err = t.check()
	}
	if err != nil {
		t.drop()
		return outcome{err: err}
	}
	return t.finish()
}

// isStale reports whether reading the description again may explain err.
func isStale(err error) bool {
	var wrong *ContentError
	var status *fetch.StatusError
	return errors.As(err, &wrong) ||
		errors.As(err, &status) && (status.Status == http.StatusNotFound || status.Status == http.StatusGone)
}

// attempt gets the content and verifies it.
func (t *transfer) attempt(ctx context.Context, r fetch.Request, first bool) error {
	r.URI, _, _ = strings.Cut(t.a.address(), "#") // RS-AMB-22
	if t.a.Coding != "" {
		r.Header = http.Header{"Accept-Encoding": {t.a.Coding}} // RS-HASH-07
	}
	if first && t.a.conditional {
		if err := t.condition(ctx, &r); err != nil {
			return err
		}
	}
	if first && t.resume && !t.a.conditional {
		done, err := t.pickUp(ctx)
		if done || err != nil {
			return err
		}
		r.RangeFrom = t.n
	}
	err := t.get(ctx, &r)
	if t.resumed && (isRangeError(err) || err == nil && t.check() != nil) {
		// What an earlier run left does not fit what there is now.
		t.drop()
		r.RangeFrom, r.IfRange = 0, ""
		err = t.get(ctx, &r)
	}
	if err != nil || t.kept {
		return err
	}
	err = t.check()
	if coding := t.coding(); coding != "" && (err != nil || len(t.a.Hashes) == 0) {
		return t.decoded(ctx, r, coding)
	}
	return err
}

// condition makes r conditional, if what we hold is still there to be kept.
func (t *transfer) condition(ctx context.Context, r *fetch.Request) error {
	there, err := t.d.onDisk(ctx, &t.a.held)
	if err != nil {
		return err
	}
	etag := t.a.held.ETag
	// A change was announced: then only a validator that tells all contents
	// apart can deny it.
	announced := t.a.Change != 0
	if there && etag != "" && !(announced && strings.HasPrefix(etag, "W/")) {
		r.IfNoneMatch = etag
	}
	if there && !announced {
		r.IfModifiedSince = t.a.held.Modified
	}
	return nil
}

// pickUp goes on with what an earlier run left. It reports whether that is all
// there is to get.
func (t *transfer) pickUp(ctx context.Context) (done bool, err error) {
	store, ok := t.d.store.(blob.Resumer)
	if !ok || len(t.a.Hashes) == 0 { // without a hash the two parts cannot be known to fit
		return false, nil
	}
	w, part, err := store.Resume(ctx, t.path)
	if err != nil {
		return false, nil // there is none, or it cannot be used: begin anew
	}
	t.w, t.resumed = w, true
	if t.n, err = copyHashing(nil, t.hasher, ctxReader{ctx, part}); err != nil {
		t.drop()
		return false, ctx.Err()
	}
	if t.check() == nil {
		return true, nil
	}
	if t.n == 0 || t.a.Length >= 0 && t.n >= t.a.Length {
		t.drop()
	}
	return false, nil
}

// get sends r and writes the body. Where it breaks off, the rest is asked for.
func (t *transfer) get(ctx context.Context, r *fetch.Request) error {
	return t.d.client.Fetch(ctx, r, func(resp *fetch.Response) error {
		if resp.Status == http.StatusNotModified {
			t.kept = true
			return nil
		}
		t.header = resp.Header
		if resp.Status != http.StatusPartialContent && t.n > 0 {
			t.drop()
		}
		if t.w == nil {
			w, err := t.d.store.Create(ctx, t.path)
			if err != nil {
				return &localError{err}
			}
			t.w = w
		}
		body := io.Reader(resp.Body)
		limit := t.limit()
		if limit > 0 {
			body = io.LimitReader(body, limit-t.n)
		}
		n, err := copyHashing(t.w, t.hasher, body)
		if t.n += n; err == nil && limit > 0 && t.n >= limit {
			return &ContentError{t.a.URI, "length", fmt.Sprint(t.a.Length), fmt.Sprintf("more than %d", limit-1)}
		}
		if err != nil {
			r.RangeFrom, r.IfRange = t.n, resp.Header.Get("ETag")
			if strings.HasPrefix(r.IfRange, "W/") || r.IfRange == "" {
				r.IfRange = ""
				if len(t.a.Hashes) == 0 {
					r.RangeFrom = 0 // nothing tells that the parts fit
				}
			}
		}
		return err
	})
}

// limit is how many bytes are taken of a body whose length is stated: more
// than that by far is not what was described, and may never end. Zero is none.
func (t *transfer) limit() int64 {
	const slack = 16 << 20
	if t.a.Length < 0 || t.a.Length > 1<<60 {
		return 0
	}
	return 2*t.a.Length + slack
}

func (t *transfer) check() error {
	_, err := verify(&t.a.want, t.n, t.hasher.Sum())
	return err
}

// coding is the content coding of the answer, unless it is the one described.
func (t *transfer) coding() string {
	c := strings.ToLower(strings.TrimSpace(t.header.Get("Content-Encoding")))
	if c == "identity" || strings.EqualFold(c, t.a.Coding) {
		return ""
	}
	return c
}

// decoded gets the content again, with the coding undone that the Source
// applied without being asked.
func (t *transfer) decoded(ctx context.Context, r fetch.Request, coding string) error {
	if coding != "gzip" && coding != "x-gzip" {
		return fmt.Errorf("get %s: content coding %s: %w", fetch.Printable(t.a.URI), fetch.Printable(coding), fetch.ErrEncoding)
	}
	t.drop()
	err := t.get(ctx, &fetch.Request{URI: r.URI, NoCache: r.NoCache, AcceptGzip: true})
	if err == nil && !t.kept {
		err = t.check()
	}
	return err
}

// drop throws away what was written.
func (t *transfer) drop() {
	if t.w != nil {
		_ = t.w.Close() // not wanted
	}
	t.w, t.n, t.resumed = nil, 0, false
	t.hasher.Reset()
}

// leave ends a transfer that failed: what came over a network that broke, or
// before we were interrupted, is left for the next run.
func (t *transfer) leave(err error) {
	var wrong *ContentError
	var local *localError
	keeper, ok := t.w.(blob.Keeper)
	if ok && t.n > 0 && len(t.a.Hashes) > 0 && !errors.As(err, &wrong) && !errors.As(err, &local) && keeper.Keep() == nil {
		t.w = nil
		return
	}
	t.drop()
}

// finish makes the row for content that is right.
func (t *transfer) finish() outcome {
	a := t.a
	if t.kept {
		h := heldFrom(a, t.set, t.path)
		h.Length, h.Hashes, h.ETag, h.Modified = a.held.Length, a.held.Hashes, a.held.ETag, a.held.Modified
		t.drop()
		return outcome{held: h, same: true}
	}
	h := heldFrom(a, t.set, t.path)
	h.Length, h.Hashes = t.n, t.hasher.Sum()
	if t.header != nil {
		h.ETag, h.Modified = t.header.Get("ETag"), t.header.Get("Last-Modified")
	}
	warning, _ := verify(&a.want, t.n, h.Hashes) // has no error any more
	if a.isHeld() && !a.gone && len(a.held.Hashes) > 0 && sameContent(&a.held, &h) {
		if there, err := t.d.onDisk(context.Background(), &a.held); err == nil && there {
			t.drop()
			return outcome{held: h, same: true, warning: warning}
		}
	}
	if !a.Lastmod.IsZero() {
		t.w.SetModTime(a.Lastmod.Time())
	}
	w := t.w
	t.w = nil
	return outcome{held: h, writer: w, warning: warning}
}

// sameContent reports whether two rows are of the same bytes.
func sameContent(a, b *Held) bool {
	common := false
	for _, h := range a.Hashes {
		if digest := b.Hashes.Get(h.Algorithm); digest != "" {
			if digest != h.Digest {
				return false
			}
			common = true
		}
	}
	return common && a.Length == b.Length
}

func isRangeError(err error) bool {
	var rng *fetch.RangeError
	var status *fetch.StatusError
	return errors.As(err, &rng) || errors.As(err, &status) && status.Status == http.StatusRequestedRangeNotSatisfiable
}
