package fetch

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"syscall"
	"time"

	"lockstep/internal/fetch/dialerror"
	"lockstep/internal/fetch/ipclass"
)

// An AddressError reports a connection that was refused because strangers may
// not name that address.
type AddressError struct {
	Host  string // as in the URI
	Addr  netip.Addr
	Class string // "loopback", "private", "link-local", "multicast", "unspecified", "reserved"
}

func (e *AddressError) Error() string {
	s := fmt.Sprintf("%s is at %s, a %s address: not contacted", Printable(e.Host), e.Addr, e.Class)
	if e.Host == e.Addr.String() {
		s = fmt.Sprintf("%s is a %s address: not contacted", e.Addr, e.Class)
	}
	if e.Class == "loopback" || e.Class == "private" {
		s += " (--allow-private permits it)"
	}
	return s
}

// CheckHost returns an [*AddressError] for a host written as an address that
// strangers may not name, or as a name that always means one; with allowPrivate
// it accepts private and loopback ones. It accepts all other names: their
// addresses are checked when they are dialled.
func CheckHost(host string, allowPrivate bool) error {
	limit := ipclass.Public
	if allowPrivate {
		limit = ipclass.Loopback
	}
	a, ok := ipclass.Literal(host)
	if !ok {
		return nil
	}
	if c, name := ipclass.Of(a); c > limit {
		return &AddressError{Host: host, Addr: a.Unmap(), Class: name}
	}
	return nil
}

// A guard checks every address when it is dialled, after name resolution, so
// that no name and no spelling bypasses it. It always refuses link-local,
// multicast and unspecified addresses. It allows private ones if the user's own
// address of the Source is private, loopback ones if that is on loopback (which
// also allows private ones), and all of them with AllowPrivate.
type guard struct {
	home    string        // host of the Source
	allow   ipclass.Class // the most restricted class that is always allowed
	proxies sync.Map      // host:port of the user's proxies
	dialer  net.Dialer
	lookup  func(ctx context.Context, network, host string) ([]netip.Addr, error)

	mu      sync.Mutex // guards settled and homeIs
	settled bool
	homeIs  ipclass.Class
}

func newGuard(home *url.URL, allowPrivate bool) *guard {
	g := &guard{lookup: net.DefaultResolver.LookupNetIP}
	if home != nil {
		g.home = strings.TrimSuffix(home.Hostname(), ".")
	}
	if allowPrivate {
		g.allow = ipclass.Loopback
	}
	g.dialer = net.Dialer{Timeout: dialTimeout, KeepAlive: 30 * time.Second}
	return g
}

// dial connects to an address, if that is allowed.
func (g *guard) dial(ctx context.Context, network, address string) (net.Conn, error) {
	c, err := g.connect(ctx, network, address)
	if err != nil {
		return nil, err
	}
	return prompt(c), nil
}

// connect is dial without [prompt].
func (g *guard) connect(ctx context.Context, network, address string) (net.Conn, error) {
	c, err := g.connectTo(ctx, network, address)
	return c, dialerror.NotCanceled(ctx, err)
}

func (g *guard) connectTo(ctx context.Context, network, address string) (net.Conn, error) {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	limit, err := g.limit(ctx, host, address)
	if err != nil {
		return nil, err
	}
	d := g.dialer
	d.ControlContext = func(_ context.Context, _, address string, _ syscall.RawConn) error {
		return check(host, address, limit)
	}
	return d.DialContext(ctx, network, address)
}

// limit returns the most restricted class that host may have.
func (g *guard) limit(ctx context.Context, host, address string) (ipclass.Class, error) {
	if _, ok := g.proxies.Load(address); ok {
		return ipclass.Loopback, nil // the user has chosen the proxy
	}
	if g.allow == ipclass.Loopback {
		return ipclass.Loopback, nil
	}
	is, err := g.homeClass(ctx)
	if err != nil && strings.EqualFold(host, g.home) {
		return ipclass.Public, err
	}
	return is, nil
}

// check refuses address if its class is more restricted than limit.
func check(host, address string, limit ipclass.Class) error {
	ap, err := netip.ParseAddrPort(address)
	if err != nil {
		return fmt.Errorf("dial %s: not an internet address", Printable(address))
	}
	if c, name := ipclass.Of(ap.Addr()); c > limit {
		return &AddressError{Host: host, Addr: ap.Addr().Unmap(), Class: name}
	}
	return nil
}

// behind wraps proxy, which chooses proxies: it records which addresses are
// proxies, and refuses a URI whose host is written as a forbidden address. No
// other check is possible when a proxy connects.
func (g *guard) behind(proxy func(*http.Request) (*url.URL, error)) func(*http.Request) (*url.URL, error) {
	if proxy == nil {
		return nil
	}
	return func(r *http.Request) (*url.URL, error) {
		u, err := proxy(r)
		if u == nil || err != nil {
			return u, err
		}
		port := u.Port()
		if port == "" {
			port = defaultPort(u.Scheme)
		}
		g.proxies.Store(net.JoinHostPort(u.Hostname(), port), nil)
		return u, g.checkLiteral(r.Context(), r.URL.Hostname())
	}
}

func (g *guard) checkLiteral(ctx context.Context, host string) error {
	host = ipclass.Fold(host)
	a, ok := ipclass.Literal(host)
	switch {
	case !ok && ipclass.EndsInNumber(host):
		return &uriError{"host " + Printable(host) + " ends in a number, but is not an address"}
	case !ok:
		return nil
	}
	limit := g.allow
	if is, err := g.homeClass(ctx); err == nil {
		limit = max(limit, is) // otherwise only the proxy can resolve Home
	}
	if c, name := ipclass.Of(a); c > limit {
		return &AddressError{Host: host, Addr: a.Unmap(), Class: name}
	}
	return nil
}

// homeClass determines the class of Home's address once, before the first
// connection, so that a name cannot change to an internal address later. A name
// with any public address is public.
func (g *guard) homeClass(ctx context.Context) (ipclass.Class, error) {
	g.mu.Lock()
	settled, is := g.settled, g.homeIs
	g.mu.Unlock()
	if settled || g.home == "" {
		return is, nil
	}
	addrs := []netip.Addr{}
	if a, err := netip.ParseAddr(g.home); err == nil {
		addrs = append(addrs, a)
	} else if addrs, err = g.lookup(ctx, "ip", g.home); err != nil {
		return ipclass.Public, err
	}
	is = ipclass.Loopback
	for _, a := range addrs {
		c, _ := ipclass.Of(a)
		if c == ipclass.Never {
			c = ipclass.Public // allows nothing
		}
		is = min(is, c)
	}
	if len(addrs) == 0 {
		return ipclass.Public, errors.New("no address")
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.settled {
		g.settled, g.homeIs = true, is
	}
	return g.homeIs, nil
}
