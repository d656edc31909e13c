package fetch

import (
	"context"
	"net"
)

// Dialer returns a dial function for an http.Transport that connects to addresses
// that strangers have named: every address is checked when it is dialled, after
// name resolution. It always refuses link-local, multicast and unspecified
// addresses, and private and loopback ones unless allowPrivate, each with an
// [AddressError]. The function is safe for concurrent use.
func Dialer(allowPrivate bool) func(ctx context.Context, network, address string) (net.Conn, error) {
	g := newGuard(nil, allowPrivate)
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		c, err := g.connect(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return promptIfNeeded(c), nil
	}
}
