package fetch

import (
	"context"
	"net"
)

// Dialer returns a function that connects for an http.Transport, to addresses
// strangers have named: every address is checked at the moment of dialling, after
// the resolver has spoken. Link-local, multicast and unspecified addresses are
// refused always, private and loopback ones unless allowPrivate, each with an
// [AddressError]. It is safe for concurrent use.
func Dialer(allowPrivate bool) func(ctx context.Context, network, address string) (net.Conn, error) {
	return newGuard(nil, allowPrivate).dial
}
