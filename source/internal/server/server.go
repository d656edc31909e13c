// Package server is an HTTP server that no client can hold up.
package server

import (
	"bytes"
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"lockstep/internal/connlimit"
)

// What a server grants its clients; each says what it prevents.
const (
	HeaderTimeout  = 10 * time.Second // to send a request's header: slow or silent senders
	bodyTimeout    = 30 * time.Second // to send a request's body: the same
	IdleTimeout    = 2 * time.Minute  // between requests: connections that no client uses
	WriteTimeout   = 30 * time.Second // to take WriteChunk bytes: readers that have stopped
	maxHeaderBytes = 64 << 10         // memory filled by headers

	// Over HTTP/2, which is spoken over TLS only:
	maxStreams   = 100              // requests of one connection at a time: what is open for their answers
	pingAfter    = 30 * time.Second // without a frame, a client is asked whether it is there
	pingTimeout  = 15 * time.Second // to answer that
	streamBuffer = 256 << 10        // memory filled by the body of a request that its handler does not read
	connBuffer   = 1 << 20          // and by all those of a connection

	// WriteChunk is what must get through within WriteTimeout. Together they
	// are a floor of 2 kB/s, without any limit on how long a transfer takes
	// that moves.
	WriteChunk = 64 << 10
)

// A piece that a limited connection may be judged by is no larger than a chunk.
var _ [connlimit.Piece - WriteChunk]struct{}

// New returns a server for h that no client can hold up: each part of an exchange
// has its time, and a response may take as long as it moves. Listening and
// shutting down are the caller's.
func New(h http.Handler) *http.Server {
	end := make(chan struct{})
	srv := &http.Server{
		Handler:           patient(h),
		ReadHeaderTimeout: HeaderTimeout,
		IdleTimeout:       IdleTimeout,
		WriteTimeout:      WriteTimeout, // until the first write, and after the last
		MaxHeaderBytes:    maxHeaderBytes,
		HTTP2: &http.HTTP2Config{
			MaxConcurrentStreams: maxStreams, SendPingTimeout: pingAfter, PingTimeout: pingTimeout, WriteByteTimeout: WriteTimeout,
			MaxReceiveBufferPerStream: streamBuffer, MaxReceiveBufferPerConnection: connBuffer,
		},
		BaseContext: func(net.Listener) context.Context {
			return context.WithValue(context.Background(), endingKey{}, end)
		},
		ConnContext: func(ctx context.Context, c net.Conn) context.Context {
			if p := connlimit.Of(c); p != nil {
				ctx = context.WithValue(ctx, placeKey{}, &taken{Place: p})
			}
			return ctx
		},
		ConnState: func(c net.Conn, s http.ConnState) {
			if s == http.StateIdle {
				// Over HTTP/2 the end of the last answer is still to be sent: the connection
				// has the time of a new one before it makes room for another client.
				connlimit.Of(c).Waits(speaksHTTP2(c))
			}
		},
	}
	srv.RegisterOnShutdown(sync.OnceFunc(func() { close(end) }))
	return srv
}

// speaksHTTP2 reports whether HTTP/2 is spoken on a connection.
func speaksHTTP2(c net.Conn) bool {
	secure, ok := c.(*tls.Conn)
	return ok && secure.ConnectionState().NegotiatedProtocol == "h2"
}

type (
	endingKey struct{}
	placeKey  struct{}
)

// Ending returns what is closed when the server that a request came to shuts
// down: answers without an end should find one. Without such a server it is
// nil.
func Ending(ctx context.Context) <-chan struct{} {
	end, _ := ctx.Value(endingKey{}).(chan struct{})
	return end
}

// patient gives each write of a response a time of its own.
func patient(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c := http.NewResponseController(w)
		p, limited := r.Context().Value(placeKey{}).(*taken)
		if limited {
			p.begin()
			defer p.end()
			if p.Crowded() {
				w.Header().Set("Connection", "close")
			}
		}
		if len(r.TransferEncoding) > 0 {
			// With a Content-Length beside it, which net/http has removed, another
			// server on the way may see where the body ends elsewhere: what follows on
			// this connection is not to be trusted (RFC 9112, 6.3).
			w.Header().Set("Connection", "close")
		}
		if r.ContentLength != 0 {
			_ = c.SetReadDeadline(time.Now().Add(bodyTimeout)) // not every ResponseWriter can; net/http's does
			if limited {
				r.Body = &placedBody{ReadCloser: r.Body, place: p.Place}
			}
		}
		next.ServeHTTP(&patientWriter{w, c}, r)
	})
}

// A taken place is that of a connection with requests that are being answered: over
// HTTP/2 several at a time.
type taken struct {
	*connlimit.Place
	requests atomic.Int32
}

func (t *taken) begin() {
	t.requests.Add(1)
	t.Busy()
}

func (t *taken) end() {
	if t.requests.Add(-1) == 0 {
		t.Ending()
	}
}

// A placedBody is the body of a request on a connection that gives up its place if
// the client sends too slowly.
type placedBody struct {
	io.ReadCloser
	place  *connlimit.Place
	n      int           // bytes of the piece that have come
	waited time.Duration // for them
}

func (b *placedBody) Read(p []byte) (int, error) {
	b.place.Receiving(b.waited)
	start := time.Now()
	n, err := b.ReadCloser.Read(p)
	b.place.Moved()
	if b.n += n; b.n >= connlimit.Piece {
		b.n, b.waited = 0, 0
	} else {
		b.waited += time.Since(start)
	}
	return n, err
}

// A patientWriter moves the connection's deadline on as long as bytes get
// through.
type patientWriter struct {
	http.ResponseWriter
	control *http.ResponseController
}

func (w *patientWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w *patientWriter) extend() {
	_ = w.control.SetWriteDeadline(time.Now().Add(WriteTimeout)) // not every ResponseWriter can; net/http's does
}

func (w *patientWriter) Write(p []byte) (n int, err error) {
	for len(p) > WriteChunk {
		w.extend()
		m, err := w.ResponseWriter.Write(p[:WriteChunk])
		if n += m; err != nil {
			return n, err
		}
		p = p[WriteChunk:]
	}
	w.extend()
	m, err := w.ResponseWriter.Write(p)
	return n + m, err
}

// ReadFrom hands files to the system in chunks, so that it can send them
// without copying. What is in memory is written from where it is.
func (w *patientWriter) ReadFrom(src io.Reader) (n int64, err error) {
	if part, ok := src.(*io.LimitedReader); ok {
		if held, ok := part.R.(*bytes.Reader); ok && int64(held.Len()) <= part.N {
			n, err = held.WriteTo(struct{ io.Writer }{w})
			part.N -= n
			return n, err
		}
	}
	to, ok := w.ResponseWriter.(io.ReaderFrom)
	if !ok {
		return io.Copy(struct{ io.Writer }{w}, src)
	}
	chunk := &io.LimitedReader{}
	limited, ok := src.(*io.LimitedReader)
	if !ok {
		limited = &io.LimitedReader{R: src, N: 1<<63 - 1}
	}
	for limited.N > 0 {
		w.extend()
		chunk.R, chunk.N = limited.R, min(WriteChunk, limited.N)
		m, err := to.ReadFrom(chunk)
		limited.N -= m
		n += m
		if err != nil || chunk.N > 0 {
			return n, err
		}
	}
	return n, nil
}
