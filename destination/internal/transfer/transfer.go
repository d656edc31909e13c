package transfer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"lockstep/blob"
	"lockstep/destination/internal/coding"
	"lockstep/destination/internal/content"
	"lockstep/destination/internal/filetime"
	"lockstep/destination/internal/plan"
	"lockstep/destination/internal/turns"
	"lockstep/destination/journal"
	"lockstep/internal/fetch"
	"lockstep/resourcesync"
)

// A transfer gets the content of one resource.
type transfer struct {
	*Fetcher
	a    *plan.Action
	path string

	given bool // nothing had the path when it was given to the resource

	w       blob.Writer
	hasher  *resourcesync.Hasher
	algs    uint8
	n       int64               // bytes in w
	total   int64               // length of the content that they begin, as the response stated it; 0 if unknown
	sums    resourcesync.Hashes // of these bytes, if they match the description; otherwise nil
	warning string              // about them
	resumed bool                // some of the bytes come from an earlier run, or from another location
	picked  bool                // the unfinished download of an earlier run was looked for
	at      location            // current location
	own     [1]location         // its own address
	request fetch.Request       // the current one
	limited io.LimitedReader    // reads its body
	header  http.Header
	undo    bool   // undo the content codings that were not requested
	kept    bool   // the server responded that the content is unchanged
	narrow  bool   // use one connection
	whole   bool   // fetch from the beginning
	doubted string // address that responded, if the request was pipelined: the body may be that of another resource

	vet func(*fetch.Response) error // rejects a response before its content is read; may be nil
}

// run gets the content from the first of its locations that has it. If the
// resource's own address has other content, the description may be out of date: the
// outcome is stale.
func (t *transfer) run(ctx context.Context) Outcome {
	t.algs = t.Hashers.Algorithms(t.a.Hashes)
	if t.a.Conditional && len(t.a.Held.Hashes) > 0 {
		t.algs |= content.Strongest(t.a.Held.Hashes) // to see whether it is the version held
	}
	t.hasher = t.Hashers.Get(t.algs)
	defer func() { t.Hashers.Put(t.algs, t.hasher) }()

	var own, elsewhere error
	mirrors := 0
	for _, p := range t.locations() {
		err := t.from(ctx, p)
		if err == nil {
			return t.finish()
		}
		if !p.mirror {
			own = err
		} else {
			mirrors, elsewhere = mirrors+1, err
		}
		if ctx.Err() != nil || content.IsLocal(err) {
			t.leave(err)
			return Outcome{Err: err}
		}
	}
	if o, ok := t.fromMemento(ctx, own); ok {
		return o
	}
	t.leave(own)
	if stale := IsStale(own); mirrors > 0 {
		return Outcome{Err: fmt.Errorf("%w; nor was it available from %d mirrors, the last: %v", own, mirrors, elsewhere), Stale: stale}
	}
	return Outcome{Err: own, Stale: IsStale(own)}
}

// from gets the content from one location. If the content at the resource's own
// address does not match, it is requested once more, bypassing all caches
// (RS-HASH-08).
func (t *transfer) from(ctx context.Context, p location) error {
	t.at = p
	if t.n > 0 && !content.HasKnown(t.a.Hashes) {
		t.drop() // nothing shows that the parts belong together
	}
	err := t.attempt(ctx, fetch.Request{Once: p.mirror, Verified: !p.mirror && content.HasKnown(t.a.Hashes), Expected: t.a.Length, Still: t.Still}, true)
	if p.mirror && ctx.Err() == nil {
		t.Shared.hosts.note(p.host, err)
	}
	if _, wrong := errors.AsType[*content.Error](err); wrong && ctx.Err() == nil {
		t.drop()
		if !p.mirror {
			doubted := t.doubted
			if err = t.attempt(ctx, fetch.Request{NoCache: true}, false); err == nil && doubted != "" {
				fetch.NoPipelining(t.Client, doubted)
			}
		}
		if _, wrong := errors.AsType[*content.Error](err); wrong {
			t.drop()
		}
	}
	return err
}

// copy takes the content from r.
func (t *transfer) copy(ctx context.Context, r io.Reader) Outcome {
	t.algs = t.Hashers.Algorithms(t.a.Hashes)
	t.hasher = t.Hashers.Get(t.algs)
	defer func() { t.Hashers.Put(t.algs, t.hasher) }()
	if limit := lengthLimit(t.a.Length); limit > 0 {
		r = io.LimitReader(r, limit)
	}
	var err error
	if t.n, err = content.CopyNew(ctx, t, t.hasher, content.WithContext(ctx, r)); err == nil {
		err = t.check()
	}
	if err != nil {
		t.drop()
		return Outcome{Err: err}
	}
	return t.finish()
}

// IsStale reports whether err may be due to an outdated description, which should
// then be read again.
func IsStale(err error) bool {
	if _, wrong := errors.AsType[*content.Error](err); wrong {
		return true
	}
	status, ok := errors.AsType[*fetch.StatusError](err)
	return ok && (status.Status == http.StatusNotFound || status.Status == http.StatusGone)
}

// attempt gets the content and verifies it.
func (t *transfer) attempt(ctx context.Context, request fetch.Request, first bool) error {
	t.request = request
	r := &t.request
	r.URI, _, _ = strings.Cut(t.at.uri, "#") // RS-AMB-22
	if accept := coding.Accept(t.a.Coding); accept != "" {
		if r.Header = r.Header.Clone(); r.Header == nil {
			r.Header = http.Header{}
		}
		r.Header.Set("Accept-Encoding", accept) // RS-HASH-07
	}
	if first && t.a.Conditional && !t.at.mirror {
		if err := t.condition(ctx, r); err != nil {
			return err
		}
	}
	if first && t.Resume && !t.a.Conditional && !t.picked {
		t.picked = true
		done, err := t.pickUp(ctx)
		if done || err != nil {
			return err
		}
	}
	if t.n > 0 {
		r.RangeFrom, t.resumed = t.n, true
	}
	err := t.getAll(ctx, r)
	if t.n > 0 && fetch.IsRange(err) || t.resumed && err == nil && t.check() != nil {
		// The rest is unavailable, or does not match the bytes already written.
		t.drop()
		r.RangeFrom, r.IfRange = 0, ""
		err = t.getAll(ctx, r)
	}
	if err != nil || t.kept {
		return err
	}
	err = t.check()
	if t.isCoded(err) {
		return t.decoded(ctx, *r, err)
	}
	return err
}

// leastProgress is the number of bytes that each attempt must add for an
// interrupted transfer to be resumed without limit: large resources may take any
// number of attempts.
const leastProgress = 1 << 20

// getAll resumes an interrupted body as long as each response adds enough bytes.
func (t *transfer) getAll(ctx context.Context, r *fetch.Request) error {
	for {
		before := t.n
		err := t.get(ctx, r)
		body, interrupted := errors.AsType[*fetch.BodyError](err)
		if !interrupted || !body.Retryable() || ctx.Err() != nil || r.Once || r.RangeFrom == 0 || t.n-before < leastProgress {
			return err
		}
	}
}

// condition makes r conditional if the file that is held still exists.
func (t *transfer) condition(ctx context.Context, r *fetch.Request) error {
	there, err := t.OnDisk(ctx, &t.a.Held)
	if err != nil {
		return err
	}
	etag := t.a.Held.ETag
	// If a change was announced, only a validator that distinguishes all versions
	// can disprove it.
	announced := t.a.Change != 0
	if there && etag != "" && !(announced && strings.HasPrefix(etag, "W/")) {
		r.IfNoneMatch = etag
	}
	if there && !announced {
		r.IfModifiedSince = t.a.Held.Modified
	}
	return nil
}

// pickUp continues an unfinished download of an earlier run or turn. It reports whether the
// content is complete.
func (t *transfer) pickUp(ctx context.Context) (done bool, err error) {
	store, ok := t.Store.(blob.Resumer)
	known := content.HasKnown(t.a.Hashes)
	begun, _ := t.Shared.rests.LoadAndDelete(t.path)
	missing, _ := begun.(rest)
	if !ok || !known && (missing.etag == "" || missing.uri != t.request.URI) { // nothing proves that the two parts belong together
		return false, nil
	}
	w, part, err := store.Resume(ctx, t.path)
	if err != nil {
		return false, nil // there is none, or it cannot be used: start over
	}
	t.w, t.resumed = w, true
	exclude(t, w)
	if t.n, err = content.Copy(nil, t.hasher, content.WithContext(ctx, part)); err != nil {
		t.drop()
		return false, ctx.Err()
	}
	if !known && t.n == missing.from {
		t.request.IfRange, t.total = missing.etag, missing.total
		return false, nil
	}
	if known && t.check() == nil {
		t.at.mirror = false // where it came from is not recorded
		return true, nil
	}
	if !known || t.n == 0 || t.a.Length >= 0 && t.n >= t.a.Length {
		t.drop()
	}
	return false, nil
}

// get sends r and writes the body. If the body is interrupted, r becomes a request
// for the rest.
func (t *transfer) get(ctx context.Context, r *fetch.Request) error {
	return t.Client.Fetch(ctx, r, func(resp *fetch.Response) error {
		if resp.Status == http.StatusNotModified {
			t.kept = true
			return nil
		}
		if err := fits(t, r, resp); err != nil {
			return err
		}
		if err := continues(t, r, resp); err != nil {
			return err
		}
		t.header, t.doubted = resp.Header, ""
		if resp.Pipelined {
			t.doubted = resp.URI
		}
		if t.vet != nil {
			if err := t.vet(resp); err != nil {
				return err
			}
		}
		if resp.Status != http.StatusPartialContent {
			if t.total = 0; t.n > 0 {
				t.drop()
			}
		}
		t.total = max(lengthOfAll(resp), t.total, 0)
		body, err := t.plain(resp)
		if err != nil {
			return err
		}
		decoded := body != io.Reader(resp.Body)
		body, release := t.segmentBody(ctx, r, resp, body)
		defer release()
		limit := lengthLimit(t.a.Length)
		if limit > 0 {
			t.limited = io.LimitedReader{R: body, N: limit - t.n}
			body = &t.limited
		}
		n, err := write(ctx, t, body)
		if t.n += n; err == nil && limit > 0 && t.n >= limit {
			return &content.Error{URI: t.a.URI, What: "length", Want: fmt.Sprint(t.a.Length), Got: fmt.Sprintf("more than %d", limit-1)}
		}
		if err != nil {
			t.goOn(r, resp, decoded)
		}
		return err
	})
}

// write adds body to the file.
func write(ctx context.Context, t *transfer, body io.Reader) (int64, error) {
	if t.w == nil {
		return content.CopyNew(ctx, t, t.hasher, body)
	}
	return content.Copy(t.w, t.hasher, body)
}

// fits checks that a partial response is a part of the version that If-Range of r
// names. RFC 9110, section 15.3.7, requires such a response to have an ETag; without
// one, only a hash of the whole can show that the parts belong together.
func fits(t *transfer, r *fetch.Request, resp *fetch.Response) error {
	if resp.Status != http.StatusPartialContent || r.IfRange == "" {
		return nil
	}
	etag := resp.Header.Get("ETag")
	switch {
	case etag == "" && !content.HasKnown(t.a.Hashes):
		return rangeError(r, resp, "it has no ETag, so it may be a part of something else")
	case etag != "" && etag != r.IfRange:
		return rangeError(r, resp, "it is a part of something else: "+fetch.Printable(etag))
	}
	return nil
}

// continues checks that a partial response ends where the content ends of which t has
// the beginning, as far as its length is known.
func continues(t *transfer, r *fetch.Request, resp *fetch.Response) error {
	if resp.Status != http.StatusPartialContent || t.total == 0 {
		return nil
	}
	end := lengthOfAll(resp)
	if end < 0 {
		end = resp.Range.Last + 1 // the rest was requested
	}
	if end != t.total {
		return rangeError(r, resp, fmt.Sprintf("the content that it should continue has %d bytes", t.total))
	}
	return nil
}

// lengthOfAll returns the length of the whole content of which resp has all or a part,
// before its codings are undone; -1 if unknown.
func lengthOfAll(resp *fetch.Response) int64 {
	if resp.Status == http.StatusPartialContent {
		return resp.Range.Total
	}
	return resp.Length
}

func rangeError(r *fetch.Request, resp *fetch.Response, reason string) error {
	return &fetch.RangeError{From: r.RangeFrom, ContentRange: resp.Header.Get("Content-Range"), Reason: reason}
}

// goOn makes r a request for the missing rest. decoded says that codings of the body
// were undone: then the bytes written are not the beginning of those that are sent.
func (t *transfer) goOn(r *fetch.Request, resp *fetch.Response, decoded bool) {
	r.RangeFrom, r.IfRange = t.n, resp.Header.Get("ETag")
	if strings.HasPrefix(r.IfRange, "W/") {
		r.IfRange = ""
	}
	if t.undo || decoded || t.whole || r.IfRange == "" && !content.HasKnown(t.a.Hashes) {
		r.RangeFrom, r.IfRange = 0, "" // nothing shows that the parts belong together
	}
}

// lengthLimit returns how many bytes are read of a body whose length is stated:
// much more than that is not the content described, and may never end. Zero means
// no limit.
func lengthLimit(stated int64) int64 {
	const slack = 16 << 20
	if stated < 0 || stated > 1<<60 {
		return 0
	}
	return 2*stated + slack
}

// check compares the bytes with their description.
func (t *transfer) check() error {
	sums := t.hasher.Sum()
	warning, err := content.Verify(t.a.Description(), t.n, sums)
	if err != nil {
		t.sums, t.warning = nil, ""
		return err
	}
	t.sums, t.warning = sums, warning
	return nil
}

// drop discards the bytes written.
func (t *transfer) drop() {
	if t.w != nil {
		_ = t.w.Close() // its content is discarded
	}
	t.w, t.n, t.total, t.resumed = nil, 0, 0, false
	t.sums, t.warning = nil, ""
	t.hasher.Reset()
}

// leave ends a transfer that failed: bytes received before a network failure or an
// interruption are kept for the next run, or without a hash for another turn in this one, in
// which the ETag shows whether they are still the beginning.
func (t *transfer) leave(err error) {
	var wrong *content.Error
	var local *content.LocalError
	keeper, ok := t.w.(blob.Keeper)
	r := &t.request
	continues := r.IfRange != "" && r.RangeFrom == t.n && !t.at.mirror && errors.Is(err, turns.ErrSlow)
	if continues && !content.HasKnown(t.a.Hashes) {
		t.Shared.rests.Store(t.path, rest{r.URI, r.IfRange, t.n, t.total})
	}
	if ok && t.n > 0 && (len(t.a.Hashes) > 0 || continues) && !errors.As(err, &wrong) && !errors.As(err, &local) && keeper.Keep() == nil {
		t.w = nil
		return
	}
	t.drop()
}

// finish returns the outcome for content that matches its description.
func (t *transfer) finish() Outcome {
	a := t.a
	if t.kept {
		h := plan.NewHeld(a, t.Set, t.path)
		h.Length, h.Hashes, h.ETag, h.Modified = a.Held.Length, a.Held.Hashes, a.Held.ETag, a.Held.Modified
		h.Written, h.Tag = a.Held.Written, a.Held.Tag
		t.drop()
		retime(t, &h)
		return Outcome{Held: h, Unchanged: true}
	}
	h := plan.NewHeld(a, t.Set, t.path)
	h.Length, h.Hashes = t.n, t.sums
	if t.header != nil && !t.at.mirror { // a mirror's headers are not the resource's
		h.ETag, h.Modified = fetch.Validators(t.header)
	}
	if a.IsHeld() && !a.FileMissing && len(a.Held.Hashes) > 0 && plan.SameContent(&a.Held, &h) {
		if there, err := t.OnDisk(context.Background(), &a.Held); err == nil && there {
			t.drop()
			h.Written, h.Tag = a.Held.Written, a.Held.Tag
			retime(t, &h)
			return Outcome{Held: h, Unchanged: true, Warning: t.warning}
		}
	}
	h.Written = t.stamp()
	w := t.w
	t.w = nil
	by := ByRequest
	if t.at.mirror {
		by = ByMirror
	}
	return Outcome{Held: h, Writer: w, Warning: t.warning, By: by}
}

// stamp returns the modification time for the file, and sets it before the commit:
// the one that is known of the resource, otherwise the current time.
func (t *transfer) stamp() time.Time {
	at := modified(t)
	if at.IsZero() {
		if _, tagged := t.w.(blob.Versioned); tagged {
			return time.Time{}
		}
		at = t.Clock()
	}
	t.w.SetModTime(at)
	return at.Truncate(time.Microsecond).UTC()
}

// modified returns when the resource was last modified: as the Source states it, otherwise
// as the response does that has the content; zero if neither does. A time in the future is
// that of a server which states the time of the response, by a clock that is ahead.
func modified(t *transfer) time.Time {
	if !t.a.Lastmod.IsZero() {
		return t.a.Lastmod.Time()
	}
	if t.header == nil || t.at.mirror {
		return time.Time{}
	}
	at, err := http.ParseTime(t.header.Get("Last-Modified"))
	if err != nil || at.Unix() <= 0 || at.After(t.Clock()) {
		return time.Time{}
	}
	return at
}

// retime gives the file of h, which stays, the time that the Source now states.
func retime(t *transfer, h *journal.Held) {
	if !t.a.Held.Lastmod.Equal(h.Lastmod) {
		filetime.Set(context.Background(), t.Store, h)
	}
}
