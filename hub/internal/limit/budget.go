// Package limit bounds how much memory the requests of clients may use in a hub.
package limit

import (
	"errors"
	"io"
	"net/http"
	"os"
	"sync"
	"time"

	"lockstep/hub/internal/refusal"
)

// A Budget bounds the bytes of all bodies held at a time, of all clients
// together. The first firstRead bytes of each are free: a connection costs more
// than that anyway, and ordinary requests pass when strangers have used up the
// rest.
type Budget struct {
	mu   sync.Mutex // guards left
	left int64
}

// NewBudget returns a Budget of so many bytes.
func NewBudget(bytes int64) *Budget { return &Budget{left: bytes} }

func (b *Budget) take(n int64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if n > b.left {
		return false
	}
	b.left -= n
	return true
}

func (b *Budget) give(n int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.left += n
}

const firstRead = 4 << 10

// Read returns a body of at most most bytes, and a function to call when the body
// is released. Memory grows with the bytes received, not with the announced
// length, which is -1 if unknown.
func (b *Budget) Read(r io.Reader, announced, most int64) (body []byte, done func(), err error) {
	if announced > most {
		return nil, nil, tooLarge(most)
	}
	taken := int64(firstRead)
	done = func() { b.give(taken - firstRead) }
	buf := make([]byte, 0, firstRead)
	if announced >= 0 && announced < firstRead {
		buf = make([]byte, 0, announced+1)
	}
	for {
		if int64(cap(buf)) > taken {
			grown := int64(cap(buf)) - taken
			if !b.take(grown) {
				done()
				return nil, nil, full()
			}
			taken += grown
		}
		n, err := r.Read(buf[len(buf):cap(buf)])
		buf = buf[:len(buf)+n]
		switch {
		case int64(len(buf)) > most:
			done()
			return nil, nil, tooLarge(most)
		case err == io.EOF:
			return buf, done, nil
		case errors.Is(err, os.ErrDeadlineExceeded):
			done()
			return nil, nil, refusal.New(http.StatusRequestTimeout, "the body took too long to come")
		case err != nil:
			done()
			return nil, nil, refusal.New(http.StatusBadRequest, "the body broke off")
		}
		if len(buf) == cap(buf) {
			grown := make([]byte, len(buf), min(2*int64(len(buf))+firstRead, max(most, int64(len(buf)))+1))
			copy(grown, buf)
			buf = grown
		}
	}
}

// Count returns r, of which the bytes that were read count until it is closed. Read fails when
// the budget is used up.
func (b *Budget) Count(r io.ReadCloser) io.ReadCloser { return &counted{ReadCloser: r, budget: b} }

type counted struct {
	io.ReadCloser
	budget *Budget
	read   int64
	taken  int64
}

// Read implements [io.Reader].
func (c *counted) Read(p []byte) (int, error) {
	n, err := c.ReadCloser.Read(p)
	c.read += int64(n)
	if more := c.read - firstRead - c.taken; more > 0 {
		if !c.budget.take(more) {
			return 0, full()
		}
		c.taken += more
	}
	return n, err
}

// Close implements [io.Closer].
func (c *counted) Close() error {
	c.budget.give(c.taken)
	c.taken = 0
	return c.ReadCloser.Close()
}

func full() error {
	return refusal.Later(http.StatusServiceUnavailable, time.Second, "the hub has as many requests in hand as it has memory for")
}

func tooLarge(most int64) error {
	return refusal.New(http.StatusRequestEntityTooLarge, "the body is larger than %d bytes", most)
}
