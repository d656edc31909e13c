package accesslog

import (
	"errors"
	"io"
	"net/http"
	"time"
)

// A recorder is a ResponseWriter that notes what is sent. It has the optional methods that
// handlers here use: files are sent without copying them, streams are flushed, and
// http.ResponseController reaches the deadlines of the one below.
type recorder struct {
	http.ResponseWriter
	began  time.Time     // the request
	status int           // 0: none was sent
	first  time.Duration // until it was sent
	bytes  int64
}

// answer notes the status that is sent, unless one was sent before.
func (r *recorder) answer(status int) {
	if r.status == 0 {
		r.status, r.first = status, time.Since(r.began)
	}
}

// WriteHeader implements [http.ResponseWriter].
func (r *recorder) WriteHeader(status int) {
	if status >= http.StatusOK {
		r.answer(status)
	}
	r.ResponseWriter.WriteHeader(status)
}

// Write implements [io.Writer].
func (r *recorder) Write(p []byte) (int, error) {
	n, err := r.ResponseWriter.Write(p)
	r.sent(int64(n))
	return n, err
}

// ReadFrom implements [io.ReaderFrom].
func (r *recorder) ReadFrom(from io.Reader) (int64, error) {
	to, ok := r.ResponseWriter.(io.ReaderFrom)
	if !ok {
		return io.Copy(struct{ io.Writer }{r}, from)
	}
	n, err := to.ReadFrom(from)
	r.sent(n)
	return n, err
}

// sent notes that part of a body was sent.
func (r *recorder) sent(n int64) {
	r.answer(http.StatusOK)
	r.bytes += n
}

// Flush implements [http.Flusher].
func (r *recorder) Flush() { _ = r.FlushError() } // a Flusher has no place for an error

// FlushError is the Flush of http.ResponseController.
func (r *recorder) FlushError() error {
	err := http.NewResponseController(r.ResponseWriter).Flush()
	if !errors.Is(err, http.ErrNotSupported) {
		r.answer(http.StatusOK)
	}
	return err
}

// Unwrap returns the ResponseWriter below, for http.ResponseController.
func (r *recorder) Unwrap() http.ResponseWriter { return r.ResponseWriter }
