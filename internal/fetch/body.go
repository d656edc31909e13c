package fetch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/klauspost/compress/gzip"

	"lockstep/internal/certerror"
	"lockstep/internal/fetch/http1"
	"lockstep/internal/fetch/requestlog"
)

const (
	// FloorRate is the minimum number of bytes a second in each FloorWindow of
	// waiting for the body: a server that drips would occupy a connection and one
	// of Jobs for next to nothing. Only time spent waiting counts, so a slow
	// reader, or a Bandwidth, does no harm; and a transfer that progresses has no
	// other time limit.
	FloorRate   = http1.LeastRate
	FloorWindow = 30 * time.Second

	drainBytes = 16 << 10 // of an unneeded answer: cheaper than a new connection
	drainTime  = time.Second
	leastChunk = 4 << 10 // read at a time under a Bandwidth
	leastPiece = 1 << 10 // read at a time, however short the Timeout

	// MaxVoid is how many bytes of a compressed body may be received from which no
	// content results: an endless series of empty parts would be read for ever.
	MaxVoid = 1 << 20
)

// An answer is a Response and its Body: it counts bytes, measures time, and
// releases its slot when the body is read or closed.
type answer struct {
	Response
	client *Client
	host   *host
	ended  func() error            // returns why the caller's context has ended, or nil
	pause  func(n int) error       // waits until Bandwidth allows n more bytes; nil: there is no limit
	cancel context.CancelCauseFunc // nil: http1 sent the request
	timer  *time.Timer             // nil likewise
	simple *http1.Response         // src, if http1 sent the request
	uri    string
	lane   lane
	doc    bool
	reply  reply
	got    time.Time            // when there was a connection
	log    *requestlog.Exchange // nil: it is not logged

	patience time.Duration // maximum pause

	src   io.ReadCloser
	zip   *gzip.Reader
	want  int64 // bytes announced
	wire  int64 // bytes received
	given int64 // bytes returned
	void  int   // bytes received since zip last returned one
	part  int   // bytes received since the last useful part
	max   int64
	err   error // sticky
	floor floor
	done  atomic.Bool
}

func (a *answer) expire() {
	a.cancel(fmt.Errorf("%w for %s", ErrTimeout, a.patience))
}

// finish releases what the request held. It may be called again.
func (a *answer) finish() {
	if a.done.Swap(true) {
		return
	}
	if a.timer != nil {
		a.timer.Stop()
		a.cancel(context.Canceled)
	}
	a.reply.Whole = time.Since(a.got)
	a.host.slots.release(a.lane, a.doc, &a.reply)
	if a.log != nil {
		a.log.End(a.Status, a.wire)
	}
}

// fail finishes a request to u that has no response because of err, and returns err.
func (a *answer) fail(err error, u *url.URL) error {
	err = certerror.Explain(plain(err), u.Host)
	if a.log != nil {
		a.log.Err = err
	}
	a.finish()
	return err
}

// Read implements [io.Reader]. Errors other than io.EOF are a [*BodyError].
func (a *answer) Read(p []byte) (int, error) {
	if a.err != nil {
		return 0, a.err
	}
	var n int
	var err error
	if a.zip != nil {
		if n, err = a.zip.Read(p); n > 0 {
			a.void = 0
		}
	} else {
		n, err = a.read(p)
	}
	if a.given += int64(n); a.max > 0 && a.given > a.max {
		n -= int(a.given - a.max)
		err = fmt.Errorf("%w of %d", ErrTooLarge, a.max)
	}
	if err == nil {
		return n, nil
	}
	if !errors.Is(err, io.EOF) {
		if a.log != nil {
			a.log.Err = err
		}
		err = &BodyError{URI: a.uri, Got: a.wire, Want: a.want, Err: err}
		a.reply.good = false
	} else if !a.doc {
		a.host.breaks.progressed()
	}
	a.err = err
	a.finish()
	return n, err
}

// Close implements [io.Closer].
func (a *answer) Close() error {
	a.finish()
	err := a.src.Close()
	if a.zip != nil && a.err != nil { // otherwise a caller might still be reading
		zippers.Put(a.zip)
		a.zip = nil
	}
	if a.err == nil {
		a.err = errors.New("read after close")
	}
	return err
}

// read reads from the wire.
func (a *answer) read(p []byte) (int, error) {
	if b := a.client.bandwidth.limit(); b > 0 {
		p = p[:min(len(p), max(int(b/8), leastChunk))]
	}
	if a.timer != nil {
		a.timer.Reset(a.patience)
		if a.Length < 0 && a.reply.major == 1 { // net/http returns when p is full, or at the end of a chunk
			p = p[:min(len(p), max(FloorRate*int(a.patience/time.Second), leastPiece))]
		}
	}
	start := time.Now()
	n, err := a.src.Read(p)
	if a.timer != nil {
		a.timer.Stop()
	}
	a.wire += int64(n)
	a.client.bytes.Add(int64(n))
	switch {
	case a.Status == http.StatusPartialContent && a.wire > a.want:
		return n - int(a.wire-a.want), &RangeError{From: a.Range.First, ContentRange: a.Header.Get("Content-Range"), Reason: "more bytes than that"}
	case err == io.EOF && a.want >= 0 && a.wire < a.want:
		return n, io.ErrUnexpectedEOF // of a range of unknown length
	case err == io.EOF:
		if n > 0 && a.pause != nil { // most small bodies arrive with their end
			if perr := a.pause(n); perr != nil {
				return n, perr
			}
		}
		return n, err
	case err != nil:
		return n, a.cause(err)
	}
	if a.part += n; a.part >= leastPart && !a.doc {
		a.part = 0
		a.host.breaks.progressed()
	}
	if err := a.floor.pass(n, time.Since(start)); err != nil {
		return n, err
	}
	if a.pause != nil {
		return n, a.pause(n)
	}
	return n, nil
}

// cause determines why the transport failed.
func (a *answer) cause(err error) error {
	if why := a.ended(); why != nil {
		return why
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, http1.ErrTimeout) {
		return fmt.Errorf("%w for %s", ErrTimeout, a.patience)
	}
	return plain(err)
}

// discard ends an unneeded answer, keeping its connection if that is cheap.
func (a *answer) discard() {
	if a.done.Load() {
		return
	}
	if a.simple != nil {
		a.simple.Drain(drainBytes, drainTime)
	} else {
		a.timer.Reset(drainTime)
		_, _ = io.CopyN(io.Discard, a.src, drainBytes) // best effort: on failure the connection is closed
	}
	_ = a.Close()
}

// decode decodes a content coding that was requested.
func (a *answer) decode() error {
	switch coding := strings.ToLower(strings.TrimSpace(a.Header.Get("Content-Encoding"))); coding {
	case "", "identity":
		return nil
	case "gzip", "x-gzip":
		a.Length = -1
		a.zip = zippers.Get().(*gzip.Reader)
		switch err := a.zip.Reset(wire{a}); {
		case err == nil:
			return nil
		case errors.Is(err, io.EOF) && a.wire == 0: // an empty body, which some servers send without encoding it
			a.zip = nil
			return nil
		default:
			return fmt.Errorf("read gzip: %w", err)
		}
	default:
		return fmt.Errorf("%w: %s", ErrEncoding, Printable(coding))
	}
}

// zippers are pooled: each holds 40 KB and takes longer to create than to use.
var zippers = sync.Pool{New: func() any { return new(gzip.Reader) }}

// wire reads the answer as received, before decompression.
type wire struct{ a *answer }

func (w wire) Read(p []byte) (int, error) {
	n, err := w.a.read(p)
	if w.a.void += n; w.a.void > MaxVoid {
		return n, fmt.Errorf("%w of %d bytes that contain nothing", ErrTooLarge, MaxVoid)
	}
	return n, err
}

// A floor measures the bytes received in the time spent waiting for them.
type floor struct {
	spent time.Duration
	bytes int
}

func (f *floor) pass(n int, d time.Duration) error {
	f.bytes += n
	if f.spent += d; f.spent < FloorWindow {
		return nil
	}
	if float64(f.bytes) < FloorRate*f.spent.Seconds() {
		return fmt.Errorf("%w of %d bytes a second", ErrTooSlow, FloorRate)
	}
	*f = floor{}
	return nil
}
