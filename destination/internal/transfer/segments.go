package transfer

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"lockstep/destination/internal/content"
	"lockstep/internal/fetch"
)

// Limits of segmented downloads, which fetch large content over several
// connections. They pay only if each connection is slowed down by latency or by the
// server. So the rate of one connection is measured first, and connections are
// added for as long as they increase it.
const (
	segmentedAfter     = 500 * time.Millisecond // time to measure the rate
	segmentedBelow     = 48 << 20               // bytes per second: a faster server does not limit connections
	segmentedLeast     = 4 << 20                // bytes that must still be missing
	segmentedTime      = 2 * time.Second        // time that the missing bytes must take at the measured rate
	segmentedFirst     = 2                      // initial connections
	segmentedMost      = 8
	segmentedGain      = 1.3 // factor by which twice the connections must increase the rate
	segmentedTransfers = 2   // concurrent segmented downloads: each holds up to segmentedMost segments in memory
	segmentedBusy      = 4   // with this many large downloads in progress none is segmented: they use several connections together

	segmentLeast = 512 << 10
	segmentMost  = 4 << 20
)

// errNoGain ends a body for which several connections brought no gain: the rest is
// requested over one connection.
var errNoGain = errors.New("several connections brought no more than one")

// A segmentedBody is a body whose rest is fetched in segments over several connections, if
// that pays. Reading it yields the same bytes as the body.
type segmentedBody struct {
	t       *transfer
	send    func(*fetch.Request, func(*fetch.Response) error) error
	cause   func() error  // why the transfer was canceled; nil: it was not
	request fetch.Request // for a segment, without the range
	body    *fetch.Response

	first int64 // offset at which body begins
	at    int64 // offset of the next read
	end   int64 // length of the whole content
	start time.Time

	cut    int64 // offset at which the segments begin; 0: there are none
	past   bool  // segments are no longer considered
	next   int64 // offset of the next segment
	size   int64 // of one segment
	width  int   // concurrent segments
	stop   bool  // no more segments are started
	steady bool  // width no longer changes
	base   float64
	mark   time.Time // start of the rate measurement
	since  int64     // offset at that time

	cancel   context.CancelFunc
	work     sync.WaitGroup
	segments []*segment // in order
	spare    [][]byte
}

// A segment is a part of the content that is fetched by a request of its own.
type segment struct {
	from int64
	room []byte
	buf  []byte // in room; grows up to its capacity, the segment's size
	read int
	err  error
	done chan struct{} // closed when buf and err no longer change
}

// segmentBody returns body, which is that of resp, or a reader of the same bytes that may
// be faster. The caller calls release when it no longer reads.
func (t *transfer) segmentBody(ctx context.Context, r *fetch.Request, resp *fetch.Response, body io.Reader) (faster io.Reader, release func()) {
	nothing := func() {}
	etag := resp.Header.Get("ETag")
	if strings.HasPrefix(etag, "W/") {
		etag = ""
	}
	first := int64(0)
	if resp.Status == http.StatusPartialContent {
		first = resp.Range.First
	}
	switch {
	case t.narrow || resp.Length < segmentedLeast || body != io.Reader(resp.Body):
		return body, nothing
	case etag == "" && !content.HasKnown(t.a.Hashes): // nothing shows that the parts fit
		return body, nothing
	case !strings.Contains(resp.Header.Get("Accept-Ranges"), "bytes") && resp.Status != http.StatusPartialContent:
		return body, nothing
	case resp.Header.Get("Content-Encoding") != "" || t.Client.Jobs() < 2*segmentedFirst:
		return body, nothing
	}
	w := &segmentedBody{t: t, body: resp, first: first, at: first, end: first + resp.Length, start: time.Now()}
	w.request = fetch.Request{URI: r.URI, IfRange: etag, NoCache: r.NoCache, Header: r.Header, Redirect: r.Redirect}
	ctx, cancel := context.WithCancel(ctx)
	w.cancel = cancel
	w.cause = func() error { return context.Cause(ctx) }
	w.send = func(r *fetch.Request, read func(*fetch.Response) error) error { return t.Client.Fetch(ctx, r, read) }
	t.Shared.large.Add(1)
	return w, w.release
}

func (w *segmentedBody) release() {
	w.cancel()
	w.work.Wait()
	w.t.Shared.large.Add(-1)
	if w.cut > 0 {
		w.drop()
	}
}

// Read implements [io.Reader].
func (w *segmentedBody) Read(p []byte) (int, error) {
	if w.cut > 0 && w.at >= w.cut {
		return w.readSegment(p)
	}
	if w.cut > 0 {
		p = p[:min(int64(len(p)), w.cut-w.at)]
	}
	n, err := w.body.Body.Read(p)
	w.at += int64(n)
	switch {
	case w.cut > 0 && w.at == w.cut && err == nil:
		w.turn()
	case err == nil && !w.past:
		w.consider()
	}
	return n, err
}

// turn switches from the body to the segments if the first of them is valid;
// otherwise the body is read further.
func (w *segmentedBody) turn() {
	<-w.segments[0].done // ends with the context
	if w.segments[0].err != nil {
		w.drop()
		return
	}
	_ = w.body.Body.Close() // the segments contain the rest
	w.mark, w.since = time.Now(), w.at
}

// drop stops and discards the segments.
func (w *segmentedBody) drop() {
	w.cancel()
	w.work.Wait()
	w.cut, w.segments, w.spare = 0, nil, nil
	w.t.Shared.segmented.Add(-1)
}

// consider starts segments if the rate of the body turns out to be limited.
func (w *segmentedBody) consider() {
	took := time.Since(w.start)
	if took < segmentedAfter {
		return
	}
	w.past = true
	rate := float64(w.at-w.first) / took.Seconds()
	ahead := max(int64(rate/4), 64<<10) // bytes that arrive while the segments start
	left := w.end - w.at - ahead
	if rate > segmentedBelow || left < segmentedLeast || float64(left) < rate*segmentedTime.Seconds() || w.t.Shared.large.Load() >= segmentedBusy {
		return
	}
	if w.t.Shared.segmented.Add(1) > segmentedTransfers {
		w.t.Shared.segmented.Add(-1)
		return
	}
	w.cut = w.at + ahead
	w.next, w.width, w.base = w.cut, segmentedFirst, rate
	w.size = min(max(int64(rate/2), segmentLeast), segmentMost)
	w.begin()
}

// begin starts segments up to the current width.
func (w *segmentedBody) begin() {
	for len(w.segments) < w.width && w.next < w.end && !w.stop {
		size := min(w.size, w.end-w.next)
		var buf []byte
		if n := len(w.spare); n > 0 {
			buf, w.spare = w.spare[n-1], w.spare[:n-1]
		} else {
			buf = make([]byte, w.size)
		}
		s := &segment{from: w.next, room: buf, buf: buf[:0:size], done: make(chan struct{})}
		w.next += size
		w.segments = append(w.segments, s)
		w.work.Go(func() {
			defer close(s.done)
			s.err = w.get(s)
		})
	}
}

// get fetches a segment.
func (w *segmentedBody) get(s *segment) error {
	for len(s.buf) < cap(s.buf) {
		r, before := w.request, len(s.buf)
		r.RangeFrom, r.RangeTo = s.from+int64(before), s.from+int64(cap(s.buf))-1
		err := w.send(&r, func(resp *fetch.Response) error {
			return w.fill(s, &r, resp)
		})
		if err == nil && len(s.buf) == before {
			err = io.ErrUnexpectedEOF
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// fill reads a response into s, and sets the range of r to the bytes that are still
// missing.
func (w *segmentedBody) fill(s *segment, r *fetch.Request, resp *fetch.Response) error {
	if resp.Status != http.StatusPartialContent || resp.Range.Total >= 0 && resp.Range.Total != w.end {
		return &fetch.RangeError{From: r.RangeFrom, ContentRange: resp.Header.Get("Content-Range"), Reason: "the content is another one now"}
	}
	if err := fits(w.t, r, resp); err != nil {
		return err
	}
	n, err := io.ReadFull(resp.Body, s.buf[len(s.buf):cap(s.buf)])
	s.buf = s.buf[:len(s.buf)+n]
	r.RangeFrom = s.from + int64(len(s.buf))
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		return nil // fewer bytes than requested
	}
	return err
}

func (w *segmentedBody) readSegment(p []byte) (int, error) {
	if w.at >= w.end {
		return 0, io.EOF
	}
	if len(w.segments) == 0 {
		return 0, w.fail(errNoGain)
	}
	s := w.segments[0]
	<-s.done // ends with the context
	n := copy(p, s.buf[s.read:])
	s.read += n
	w.at += int64(n)
	switch {
	case s.read < len(s.buf):
	case s.err != nil:
		return n, w.fail(s.err)
	default:
		w.segments = w.segments[1:]
		w.spare = append(w.spare, s.room)
		w.adapt()
		w.begin()
	}
	return n, nil
}

// adapt adjusts the number of concurrent segments: it is doubled for as long as
// that increases the rate.
func (w *segmentedBody) adapt() {
	took := time.Since(w.mark)
	if w.steady || w.at-w.since < int64(w.width)*w.size || took < segmentedAfter/2 {
		return
	}
	rate := float64(w.at-w.since) / took.Seconds()
	switch {
	case rate < w.base*segmentedGain:
		w.stop, w.steady = w.width == segmentedFirst, true
		w.width = max(w.width/2, segmentedFirst)
	case w.width == segmentedMost:
		w.steady = true
	default:
		w.width *= 2
	}
	w.base, w.mark, w.since = rate, time.Now(), w.at
}

// fail ends the body so that the rest is requested over one connection, or all of
// it if parts are no longer available.
func (w *segmentedBody) fail(err error) error {
	w.t.narrow = true
	var body *fetch.BodyError
	if !errors.Is(err, errNoGain) && !errors.As(err, &body) {
		w.t.whole = true
	}
	if cause := w.cause(); cause != nil {
		err = cause
	}
	return &fetch.BodyError{URI: w.t.a.URI, Got: w.at - w.first, Want: w.end - w.first, Err: err}
}
