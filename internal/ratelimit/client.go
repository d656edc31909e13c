package ratelimit

import (
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// ClientOf returns the client that rate limits count a request for: its [AddressOf].
// For IPv6 it is the network, because hosts choose their own addresses within it.
func ClientOf(r *http.Request, proxies []netip.Prefix) netip.Prefix {
	client := AddressOf(r, proxies)
	bits := 32
	if client.Is6() {
		bits = 64
	}
	p, _ := client.Prefix(bits) // fails only for lengths that an address cannot have
	return p
}

// AddressOf returns the address of the client of a request: the remote address of the
// connection or, if that is a trusted proxy, the client it names in X-Forwarded-For.
// It is the zero Addr if the connection is not one over IP. Only limits and logs may
// depend on the result.
//
// The header is read from its end: every trusted proxy appends the address that
// it saw. Everything before the first address that is not a trusted proxy was
// written by the client and is ignored.
func AddressOf(r *http.Request, proxies []netip.Prefix) netip.Addr {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return netip.Addr{}
	}
	client, err := netip.ParseAddr(host)
	if err != nil {
		return netip.Addr{}
	}
	client = client.Unmap().WithZone("")
	if len(proxies) > 0 {
		chain := strings.Join(r.Header.Values("X-Forwarded-For"), ",")
		for chain != "" && trustedProxy(proxies, client) {
			i := strings.LastIndexByte(chain, ',')
			next, err := parseForwarded(chain[i+1:])
			if err != nil {
				break // the proxy has named no client: it is the client
			}
			client, chain = next, chain[:max(i, 0)]
		}
	}
	return client
}

func trustedProxy(proxies []netip.Prefix, a netip.Addr) bool {
	return slices.ContainsFunc(proxies, func(p netip.Prefix) bool { return p.Contains(a) })
}

// parseForwarded reads one address of X-Forwarded-For; some proxies add the port.
func parseForwarded(s string) (netip.Addr, error) {
	s = strings.TrimSpace(s)
	if a, err := netip.ParseAddrPort(s); err == nil {
		return a.Addr().Unmap().WithZone(""), nil
	}
	a, err := netip.ParseAddr(strings.Trim(s, "[]"))
	return a.Unmap().WithZone(""), err
}
