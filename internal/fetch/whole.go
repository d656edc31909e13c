package fetch

import (
	"context"
	"errors"
	"hash/maphash"
	"io"
)

// ErrChanged reports a body that broke off and was different when it was
// requested again.
var ErrChanged = errors.New("changed while it was read")

// GetWhole is Get with a Body that recovers from broken connections: it sends
// the request again, compares and skips the part already read, and continues.
// It suits documents, which are read as a stream; the attempts count together
// with those of Get.
func (c *Client) GetWhole(ctx context.Context, r Request) (*Response, error) {
	var at attempts
	resp, err := c.get(ctx, &r, &at)
	if err != nil {
		return nil, err
	}
	r.IfNoneMatch, r.IfModifiedSince, r.Tentative = "", "", false
	w := &whole{uri: r.URI, body: resp.Body, from: resp.URI, seed: maphash.MakeSeed()}
	w.again = func(broken error) (*Response, error) {
		f := c.booked(w.from, broken)
		if !at.helps(c, &r, &f) || c.pauseBefore(ctx, at.tries, f) != nil {
			return nil, broken
		}
		_ = w.body.Close() // no longer usable
		return c.get(ctx, &r, &at)
	}
	w.sum.SetSeed(w.seed)
	out := *resp
	out.Body = w
	return &out, nil
}

// A whole is the Body of GetWhole.
type whole struct {
	uri   string
	again func(broken error) (*Response, error) // sends the request again after broken, or returns it if that cannot help
	body  io.ReadCloser
	from  string // the URI that answered
	seed  maphash.Seed
	sum   maphash.Hash // of the returned bytes
	given int64
}

func (w *whole) Read(p []byte) (int, error) {
	n, err := w.body.Read(p)
	if n > 0 || err == nil || err == io.EOF {
		_, _ = w.sum.Write(p[:n]) // never fails
		w.given += int64(n)
		if n > 0 && err != io.EOF {
			err = nil // the next Read returns it again
		}
		return n, err
	}
	if err := w.mend(err); err != nil {
		return 0, err
	}
	return 0, nil
}

func (w *whole) Close() error { return w.body.Close() }

// mend replaces the body after err, so that the next Read continues after the
// bytes already returned; or returns the error that prevents it.
func (w *whole) mend(err error) error {
	for {
		var body *BodyError
		if !errors.As(err, &body) || !body.Retryable() {
			return err
		}
		resp, aerr := w.again(err)
		if aerr != nil {
			return aerr
		}
		w.body, w.from = resp.Body, resp.URI
		if err = w.skip(); err == nil {
			return nil
		}
	}
}

// skip skips the bytes already returned, and checks that they are the same.
func (w *whole) skip() error {
	var sum maphash.Hash
	sum.SetSeed(w.seed)
	if _, err := io.CopyN(&sum, w.body, w.given); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if sum.Sum64() != w.sum.Sum64() {
		return &BodyError{URI: w.uri, Got: w.given, Want: -1, Err: ErrChanged}
	}
	return nil
}
