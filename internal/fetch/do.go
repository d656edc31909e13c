package fetch

import "net/http"

// Do sends r as it is: once, and without following redirects. It is for what
// asks for no document or resource, as requests to hubs and streams of events,
// which may be open for days, and counts against no limit. Credentials go to
// Home alone, and the guard knows no exception. The header of the answer has to
// come within [Options.Timeout]; how long the body may take, r's context says.
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
	resp, err := c.sends.RoundTrip(own)
	if err != nil {
		return nil, plain(err)
	}
	return resp, nil
}
