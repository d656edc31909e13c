package intake

import (
	"context"
	"fmt"
	"io"

	"lockstep/catalog"
	"lockstep/intake/internal/fault"
	"lockstep/internal/fetch"
)

// A Web opens representations at their URIs, by HTTP. It is safe for concurrent use.
type Web struct{ client *fetch.Client }

// NewWeb returns a Web that sends its requests through c, with its address guard,
// limits and credentials. A Web without a client cannot open anything.
func NewWeb(c *fetch.Client) *Web { return &Web{c} }

// Bitstream opens the present representation of r, byte for byte: no content coding
// is requested, and none is decoded (RS-HASH-07). The caller verifies that it is the
// one that r describes. A transfer that breaks off is resumed at the same offset.
//
// The error matches [fs.ErrNotExist] if the server says that there is no such
// resource; other errors are [*fetch.Error] and name the address and the cause.
func (w *Web) Bitstream(ctx context.Context, r *catalog.Record) (io.ReadCloser, error) {
	if w.client == nil {
		return nil, fmt.Errorf("get %s: %w", fetch.Printable(r.URI), fault.ErrNoClient)
	}
	resp, err := w.client.GetWhole(ctx, fetch.Request{URI: r.URI})
	if err != nil {
		return nil, fault.NotThere(err)
	}
	return resp.Body, nil
}
