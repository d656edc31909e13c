package intake

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"

	"lockstep/catalog"
	"lockstep/internal/fetch"
)

// A Web opens representations where their URIs say they are, by HTTP. It is
// safe for concurrent use.
type Web struct{ client *fetch.Client }

// NewWeb returns a Web that asks through c, whose guard, limits and credentials
// hold. A Web without client opens nothing.
func NewWeb(c *fetch.Client) *Web { return &Web{c} }

var errNoClient = errors.New("there is no client to fetch it with")

// Bitstream opens the representation of r as it is served now, byte for byte:
// no content coding is asked for, and none is undone (RS-HASH-07). Whether it is
// the one r describes is the caller's to verify. What breaks off is asked for
// again and goes on where it was.
//
// The error matches [fs.ErrNotExist] if the server says that there is no such
// resource; others are an [*fetch.Error] and name the address and the cause.
func (w *Web) Bitstream(ctx context.Context, r *catalog.Record) (io.ReadCloser, error) {
	if w.client == nil {
		return nil, fmt.Errorf("get %s: %w", fetch.Printable(r.URI), errNoClient)
	}
	resp, err := w.client.GetWhole(ctx, fetch.Request{URI: r.URI})
	if err != nil {
		return nil, notThere(err)
	}
	return resp.Body, nil
}

// notThere makes the error of a resource that is not there match fs.ErrNotExist.
func notThere(err error) error {
	status, ok := errors.AsType[*fetch.StatusError](err)
	if !ok || status.Status != http.StatusNotFound && status.Status != http.StatusGone {
		return err
	}
	return &missingError{err}
}

type missingError struct{ err error }

func (e *missingError) Error() string        { return e.err.Error() }
func (e *missingError) Unwrap() error        { return e.err }
func (e *missingError) Is(target error) bool { return target == fs.ErrNotExist }
