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

// class is the distance of an address from the public internet.
type class uint8

const (
	public class = iota
	private
	loopback
	never
)

// Ranges net/netip has no method for.
var (
	thisNetwork = netip.MustParsePrefix("0.0.0.0/8")      // RFC 1122: this host
	sharedNAT   = netip.MustParsePrefix("100.64.0.0/10")  // RFC 6598: behind a carrier's NAT
	ietf        = netip.MustParsePrefix("192.0.0.0/24")   // RFC 6890
	benchmark   = netip.MustParsePrefix("198.18.0.0/15")  // RFC 2544
	reserved    = netip.MustParsePrefix("240.0.0.0/4")    // RFC 1112, with broadcast
	nat64       = netip.MustParsePrefix("64:ff9b::/96")   // RFC 6052: IPv4 in the last four bytes
	nat64local  = netip.MustParsePrefix("64:ff9b:1::/48") // RFC 8215
	sixToFour   = netip.MustParsePrefix("2002::/16")      // RFC 3056: IPv4 in bytes 2 to 5
	teredo      = netip.MustParsePrefix("2001::/32")      // RFC 4380: IPv4 inverted in the last four
	compatible  = netip.MustParsePrefix("::/96")          // RFC 4291: IPv4 in the last four, obsolete
	siteLocal   = netip.MustParsePrefix("fec0::/10")      // RFC 3879, obsolete
)

// classify returns the class of a; IPv4 within IPv6 counts as IPv4.
func classify(a netip.Addr) (class, string) {
	a = a.Unmap().WithZone("")
	switch {
	case !a.IsValid() || a.IsUnspecified():
		return never, "unspecified"
	case a.IsLoopback():
		return loopback, "loopback"
	case a.IsMulticast():
		return never, "multicast"
	case a.IsLinkLocalUnicast():
		return never, "link-local"
	case thisNetwork.Contains(a):
		return never, "unspecified"
	case reserved.Contains(a):
		return never, "reserved"
	case a.IsPrivate(), sharedNAT.Contains(a), ietf.Contains(a), benchmark.Contains(a),
		siteLocal.Contains(a), nat64local.Contains(a):
		return private, "private"
	}
	if v4, ok := embedded(a); ok {
		return classify(v4)
	}
	return public, ""
}

// CheckHost returns an [*AddressError] for a host written as an address that
// strangers may not name, or as a name that always means one; with allowPrivate
// it accepts private and loopback ones. It accepts all other names: their
// addresses are checked when they are dialled.
func CheckHost(host string, allowPrivate bool) error {
	limit := public
	if allowPrivate {
		limit = loopback
	}
	a, err := netip.ParseAddr(host)
	if err != nil {
		name := strings.ToLower(strings.TrimSuffix(host, "."))
		if name != "localhost" && !strings.HasSuffix(name, ".localhost") { // RFC 6761, 6.3
			return nil
		}
		a = netip.AddrFrom4([4]byte{127, 0, 0, 1})
	}
	if c, name := classify(a); c > limit {
		return &AddressError{Host: host, Addr: a.Unmap(), Class: name}
	}
	return nil
}

// embedded returns the IPv4 address to which a translator would send a's
// packets.
func embedded(a netip.Addr) (netip.Addr, bool) {
	b := a.As16()
	switch {
	case !a.Is6():
		return netip.Addr{}, false
	case nat64.Contains(a), compatible.Contains(a):
		return netip.AddrFrom4([4]byte(b[12:])), true
	case sixToFour.Contains(a):
		return netip.AddrFrom4([4]byte(b[2:6])), true
	case teredo.Contains(a):
		return netip.AddrFrom4([4]byte{^b[12], ^b[13], ^b[14], ^b[15]}), true
	}
	return netip.Addr{}, false
}

// A guard checks every address when it is dialled, after name resolution, so
// that no name and no spelling bypasses it. It always refuses link-local,
// multicast and unspecified addresses. It allows private ones if the user's own
// address of the Source is private, loopback ones if that is on loopback (which
// also allows private ones), and all of them with AllowPrivate.
type guard struct {
	home    string   // host of the Source
	allow   class    // the most restricted class that is always allowed
	proxies sync.Map // host:port of the user's proxies
	dialer  net.Dialer
	lookup  func(ctx context.Context, network, host string) ([]netip.Addr, error)

	mu      sync.Mutex // guards settled and homeIs
	settled bool
	homeIs  class
}

func newGuard(home *url.URL, allowPrivate bool) *guard {
	g := &guard{lookup: net.DefaultResolver.LookupNetIP}
	if home != nil {
		g.home = strings.TrimSuffix(home.Hostname(), ".")
	}
	if allowPrivate {
		g.allow = loopback
	}
	g.dialer = net.Dialer{Timeout: dialTimeout, KeepAlive: 30 * time.Second}
	return g
}

func (g *guard) dial(ctx context.Context, network, address string) (net.Conn, error) {
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
	c, err := d.DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	return prompt(c), nil
}

// limit returns the most restricted class that host may have.
func (g *guard) limit(ctx context.Context, host, address string) (class, error) {
	if _, ok := g.proxies.Load(address); ok {
		return loopback, nil // the user has chosen the proxy
	}
	if g.allow == loopback {
		return loopback, nil
	}
	is, err := g.homeClass(ctx)
	if err != nil && strings.EqualFold(host, g.home) {
		return public, err
	}
	return is, nil
}

// check refuses address if its class is more restricted than limit.
func check(host, address string, limit class) error {
	ap, err := netip.ParseAddrPort(address)
	if err != nil {
		return fmt.Errorf("dial %s: not an internet address", Printable(address))
	}
	if c, name := classify(ap.Addr()); c > limit {
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
	a, err := netip.ParseAddr(host)
	if err != nil {
		return nil
	}
	limit := g.allow
	if is, err := g.homeClass(ctx); err == nil {
		limit = max(limit, is) // otherwise only the proxy can resolve Home
	}
	if c, name := classify(a); c > limit {
		return &AddressError{Host: host, Addr: a.Unmap(), Class: name}
	}
	return nil
}

// homeClass determines the class of Home's address once, before the first
// connection, so that a name cannot change to an internal address later. A name
// with any public address is public.
func (g *guard) homeClass(ctx context.Context) (class, error) {
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
		return public, err
	}
	is = loopback
	for _, a := range addrs {
		c, _ := classify(a)
		if c == never {
			c = public // allows nothing
		}
		is = min(is, c)
	}
	if len(addrs) == 0 {
		return public, errors.New("no address")
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.settled {
		g.settled, g.homeIs = true, is
	}
	return g.homeIs, nil
}
