package http1

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httputil"
	"net/textproto"
	"sync"
	"time"
)

var (
	errReadClosed  = errors.New("read from a closed response")
	errTrailer     = errors.New("chunked body without its end")
	errTrailerSize = errors.New("trailer of a chunked body is too long")
)

// ErrHeaderSize reports a header of more than 64 KiB.
var ErrHeaderSize = errors.New("the header of the response is too large")

// A malformedError reports a response that is none of HTTP.
type malformedError struct{ line string }

func (e *malformedError) Error() string { return fmt.Sprintf("malformed HTTP response %q", e.line) }

// A Response is a response with a final status. It is the [io.ReadCloser] of its
// body. Closing it before its end closes the connection.
type Response struct {
	Status    int
	Header    http.Header   // without those for the connection alone
	Length    int64         // of the body; -1 if unknown
	Reused    bool          // the connection had served another request
	Closes    bool          // the connection serves no other
	Shared    bool          // the request was sent before the responses to others had arrived
	Pipelined bool          // so was this or an earlier one on the connection: it may be the response to another
	Began     time.Time     // when there was a connection
	Patience  time.Duration // for each pause within the body

	pool    *Pool
	left    int64     // bytes of the body; -1: until the connection ends
	chunks  io.Reader // decodes a chunked body
	trailer bool      // there were fields after the body
	drained bool      // Drain was called: the time for the rest is fixed

	mu      sync.Mutex    // guards the rest; the fields above belong to the reader
	body    *bodyBuffer   // storage of ahead; nil: none
	ahead   []byte        // of the body, read already
	buf     *bufio.Reader // nil: the response has ended
	conn    *conn         // nil likewise
	reading bool
	closed  bool
	err     error // of reading once it has ended
}

// Read implements [io.Reader]. It returns io.EOF with the last bytes. One
// goroutine reads at a time; another may call Close.
func (r *Response) Read(p []byte) (int, error) {
	r.mu.Lock()
	if r.body != nil && !r.closed {
		defer r.mu.Unlock()
		return r.readAhead(p)
	}
	if r.buf == nil || r.closed {
		defer r.mu.Unlock()
		if r.err == nil {
			return 0, errReadClosed
		}
		return 0, r.err
	}
	r.reading = true
	r.mu.Unlock()
	n, err := r.readBody(p)
	if err != nil {
		r.end(err == io.EOF, err)
		return n, err
	}
	r.mu.Lock()
	r.reading = false
	closed := r.closed
	r.mu.Unlock()
	if closed {
		r.end(false, errReadClosed)
	}
	return n, nil
}

// readAhead reads what was read already. The caller holds the lock.
func (r *Response) readAhead(p []byte) (n int, err error) {
	n = copy(p, r.ahead)
	if r.ahead = r.ahead[n:]; len(r.ahead) > 0 {
		return n, nil
	}
	r.body.release()
	r.body = nil
	if r.buf == nil && (n == 0 || r.err == io.EOF) {
		err = r.err
	}
	return n, err
}

// readBody reads the body. Its error is io.EOF after all of it.
func (r *Response) readBody(p []byte) (int, error) {
	if !r.drained {
		r.conn.socket.untilPause(r.Patience)
	}
	if r.chunks != nil {
		n, err := r.chunks.Read(p)
		if err == io.EOF {
			if terr := r.readTrailer(); terr != nil {
				err = terr
			}
		}
		return n, r.cause(err)
	}
	if r.left >= 0 && int64(len(p)) > r.left {
		p = p[:r.left]
	}
	n, err := r.buf.Read(p)
	if r.left < 0 {
		return n, r.cause(err)
	}
	r.left -= int64(n)
	switch {
	case r.left == 0:
		return n, io.EOF
	case err == io.EOF:
		return n, io.ErrUnexpectedEOF
	}
	return n, r.cause(err)
}

// Drain reads the rest of the body, up to n bytes and for that long, so that the connection
// can be kept. What it has not read then is not available any more: the caller calls Close.
func (r *Response) Drain(n int64, d time.Duration) {
	r.mu.Lock()
	if r.drained = true; r.conn != nil {
		r.conn.socket.until(time.Now().Add(d))
	}
	r.mu.Unlock()
	_, _ = io.CopyN(io.Discard, r, n) // after an error Close closes the connection
}

// cause replaces the error of a read that took too long.
func (r *Response) cause(err error) error {
	if err != nil && r.conn.socket.expired {
		return ErrTimeout
	}
	return err
}

// Close implements [io.Closer].
func (r *Response) Close() error {
	r.mu.Lock()
	r.closed = true
	if r.body != nil {
		r.body.release()
		r.body, r.ahead, r.err = nil, nil, errReadClosed
	}
	ended := r.buf == nil
	if !ended && r.reading {
		r.conn.interrupt() // then Read fails, and ends the response
		ended = true
	}
	r.mu.Unlock()
	if !ended {
		r.end(false, errReadClosed)
	}
	return nil
}

// end releases the connection; whole means that the response is complete. Then the
// connection is kept, unless anything came after the response.
func (r *Response) end(whole bool, err error) {
	r.mu.Lock()
	buf, c := r.buf, r.conn
	if buf == nil {
		r.mu.Unlock()
		return
	}
	r.buf, r.conn, r.chunks, r.reading, r.err = nil, nil, nil, false, err
	r.mu.Unlock()
	keep := whole && !r.Closes && !r.trailer && buf.Buffered() == 0
	putBuffer(buf)
	if keep && c.rest() {
		r.pool.put(c)
		return
	}
	c.close()
}

// readHeader reads up to the header of the final response.
func (r *Response) readHeader() error {
	for interim := 0; ; interim++ {
		block, err := r.readBlock()
		if err != nil {
			return r.headerError(err, interim > 0)
		}
		var h header
		if err := h.parse(block); err != nil {
			return err
		}
		if h.status >= 200 {
			return r.use(&h, len(block))
		}
		if interim >= maxInterim {
			return &UnusualError{"too many interim responses"}
		}
		_, _ = r.buf.Discard(len(block)) // is in the buffer
	}
}

// headerError returns the error of a header that cannot be read.
func (r *Response) headerError(err error, interim bool) error {
	var none *noResponseError
	switch {
	case r.conn.socket.expired:
		return ErrTimeout
	case errors.Is(err, errUnusable):
		return errUnusable
	case interim && errors.As(err, &none):
		return unexpected(none.err)
	}
	return err
}

// unexpected returns the error of a header that ends early because of err.
func unexpected(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}

// readBlock returns the next header, up to and including its empty line, which stays
// in the buffer. Before its first byte, its error is a noResponseError.
func (r *Response) readBlock() ([]byte, error) {
	line := 0 // where the current line begins
	for {
		b, _ := r.buf.Peek(r.buf.Buffered()) // cannot fail
		for {
			i := bytes.IndexByte(b[line:], '\n')
			if i < 0 {
				break
			}
			if line == 0 && !bytes.HasPrefix(b, []byte("HTTP/")) {
				return nil, &malformedError{string(b[:min(i, 80)])}
			}
			if i == 0 || b[line+i-1] != '\r' {
				return nil, &UnusualError{"a line of the header ends without CR"}
			}
			line += i + 1
			if i == 1 && line <= bufferSize {
				return b[:line], nil
			}
		}
		if len(b) >= bufferSize {
			return nil, r.skipLarge()
		}
		if _, err := r.buf.Peek(len(b) + 1); err != nil && len(b) == 0 {
			return nil, &noResponseError{err}
		} else if err != nil {
			return nil, unexpected(err)
		}
	}
}

// skipLarge reads the rest of a header that does not fit into the buffer. Its error
// is an UnusualError, unless the header is larger than maxHeader.
func (r *Response) skipLarge() error {
	var last [4]byte
	for n := 0; n < maxHeader; n++ {
		c, err := r.buf.ReadByte()
		if err != nil {
			return unexpected(err)
		}
		last = [4]byte{last[1], last[2], last[3], c}
		if string(last[:]) == "\r\n\r\n" || string(last[2:]) == "\n\n" {
			return &UnusualError{"large header"}
		}
	}
	return ErrHeaderSize
}

// use makes r the response with that header, of size bytes.
func (r *Response) use(h *header, size int) error {
	r.Status, r.Header, r.Closes, r.Length = h.status, h.fields, h.closes, h.length
	_, _ = r.buf.Discard(size) // is in the buffer
	switch {
	case h.status == http.StatusNoContent || h.status == http.StatusNotModified:
		if h.chunked {
			return &UnusualError{"chunked body where none is allowed"}
		}
		r.Length = 0
	case h.chunked:
		r.Length, r.chunks = -1, httputil.NewChunkedReader(r.buf)
	case h.length < 0:
		r.Closes = true
	}
	r.left = r.Length
	return nil
}

// readTrailer reads what follows the last chunk, as net/http does.
func (r *Response) readTrailer() error {
	b, err := r.buf.Peek(2)
	switch {
	case string(b) == "\r\n":
		_, _ = r.buf.Discard(2) // is in the buffer
		return nil
	case len(b) < 2 && (err == nil || err == io.EOF):
		return errTrailer
	case err != nil:
		return err
	}
	for n := 4; ; n++ {
		b, err := r.buf.Peek(n)
		if bytes.HasSuffix(b, []byte("\r\n\r\n")) {
			break
		}
		if errors.Is(err, bufio.ErrBufferFull) {
			return errTrailerSize
		}
		if err != nil {
			return errTrailer
		}
	}
	r.trailer = true
	_, err = textproto.NewReader(r.buf).ReadMIMEHeader()
	if err == io.EOF {
		return errTrailer
	}
	return err
}
