package fetch

import (
	"context"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"

	"lockstep/internal/fetch/netrc"
	"lockstep/internal/ondemand"
)

// What tests control: the network below the guard, and the resolver.

func (c *Client) SetDial(dial func(ctx context.Context, network, address string) (net.Conn, error)) {
	c.adjust(func(t *http.Transport) { t.DialContext = dial })
}

// adjust changes all transports except those for Do.
func (c *Client) adjust(change func(*http.Transport)) {
	pool := c.pool
	c.pool = ondemand.New(c.opts.Idle, func() *transports {
		defer pool.Done()
		ts := pool.Use()
		for _, t := range slices.Concat(ts.lanes[:], ts.streams[:]) {
			if t != nil {
				change(t)
			}
		}
		if c.simple != nil {
			change(ts.single)
			if dial := ts.single.DialContext; dial != nil {
				ts.simple.Dial = dial
			}
		}
		return ts
	}, (*transports).closeIdle)
}

func (c *Client) SetLookup(lookup func(host string) []netip.Addr) {
	c.guard.lookup = func(_ context.Context, _, host string) ([]netip.Addr, error) { return lookup(host), nil }
}

func (c *Client) CheckAddress(ctx context.Context, host, address string) error {
	limit, err := c.guard.limit(ctx, host, address)
	if err != nil {
		return err
	}
	return check(host, address, limit)
}

// SetProxy makes proxy choose, like the environment would.
func (c *Client) SetProxy(proxy func(*http.Request) (*url.URL, error)) {
	OnlyGeneral(c)
	c.adjust(func(t *http.Transport) { t.Proxy = c.guard.behind(proxy) })
}

// IsSimple reports whether http1 would send r.
func (c *Client) IsSimple(r Request) bool {
	u, err := parse(r.URI)
	if err != nil {
		return false
	}
	h := c.hosts.get(hostOf(u))
	_, ok := simpleRequest(c, h, &r, u)
	return ok && !h.simple.record.Unusual()
}

func Trusts(home, uri string) bool {
	h, _ := url.Parse(home)
	u, _ := url.Parse(uri)
	return originOf(h).trusts(originOf(u))
}

const MaxHosts = maxHosts

var (
	NetrcEntry        = netrc.Entry
	RetryAfter        = retryAfter
	ParseContentRange = parseContentRange
	ParseURI          = parse
	Backoff           = backoff
)

func AcceptRange(r *Request, contentRange string, length int64) (Range, error) {
	a := &answer{Response: Response{Header: http.Header{"Content-Range": {contentRange}}, Length: length}}
	err := a.acceptRange(r)
	return a.Range, err
}

// Next is the first redirect from u.
func Next(r *Request, u *url.URL, location string) (*url.URL, error) {
	return next(r, u, nil, http.StatusFound, location)
}

// Hosts returns how many hosts are remembered.
func (c *Client) Hosts() int { return len(c.hosts.all()) }

// HasTransports reports whether there are transports.
func (c *Client) HasTransports() bool {
	return c.pool.Now() != nil
}

// Room returns how many more requests a host can take before one has to wait; if negative,
// how many are waiting. A host that has deferred requests has none.
func (c *Client) Room(host string) int {
	h := c.hosts.get(host)
	if h.rate.Paused() > 0 {
		return 0
	}
	s := &h.slots
	s.mu.Lock()
	defer s.mu.Unlock()
	return max(s.jobs()-s.docs, 1) - s.held - len(s.waiting)
}
