package fetch

import (
	"net/http"

	"lockstep/internal/certerror"
	"lockstep/internal/fetch/requestlog"
)

// Do sends r unchanged: once, and without following redirects. It is for
// requests other than those for documents and resources, such as requests to
// hubs and event streams, which may be open for days; it counts against no
// limit. It sends credentials only to Home, and its address check has no
// exceptions. The header of the answer must arrive within [Options.Timeout];
// r's context limits the body.
func (c *Client) Do(r *http.Request) (*http.Response, error) {
	u, err := c.secured(r.Context(), r.URL)
	if err != nil {
		return nil, err
	}
	head := c.plainHead
	if c.trusted(u) {
		head = c.homeHead
	}
	own := r.Clone(r.Context())
	if u != r.URL {
		own.URL, own.Host = u, u.Host
	}
	if own.Header == nil {
		own.Header = http.Header{}
	}
	for k, vs := range head {
		if own.Header[k] == nil {
			own.Header[k] = vs
		}
	}
	c.requests.Add(1)
	defer c.pool.Done()
	resp, err := requestlog.Transport(c.pool.Use().sends, c.opts.Logger, nil).RoundTrip(own)
	if err != nil {
		return nil, certerror.Explain(plain(err), u.Host)
	}
	return resp, nil
}
