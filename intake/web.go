package intake

import (
	"context"
	"fmt"
	"io"

	"lockstep/catalog"
	"lockstep/intake/internal/fault"
	"lockstep/internal/fetch"
)

// A Web opens representations where their URIs say they are, by HTTP. It is
// safe for concurrent use.
type Web struct{ client *fetch.Client }

// NewWeb returns a Web that asks through c, whose guard, limits and credentials
// hold. A Web without client opens nothing.
func NewWeb(c *fetch.Client) *Web { return &Web{c} }

// Bitstream opens the representation of r as it is served now, byte for byte:
// no content coding is asked for, and none is undone (RS-HASH-07). Whether it is
// the one r describes is the caller's to verify. What breaks off is asked for
// again and goes on where it was.
//
// The error matches [fs.ErrNotExist] if the server says that there is no such
// resource; others are an [*fetch.Error] and name the address and the cause.
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
