package sharedserve

import (
	"context"
	"fmt"
	"net"
	"os"

	"github.com/spf13/pflag"

	"lockstep/cmd/lockstep/internal/site"
	"lockstep/cmd/lockstep/internal/term"
)

// Flags are the flags of serve about other processes with the same state.
type Flags struct {
	Shared bool   // there may be others
	at     string // where they reach this one, HOST:PORT; "" if that follows from its listener
}

// Declare declares the flags.
func (f *Flags) Declare(flags *pflag.FlagSet) {
	flags.BoolVar(&f.Shared, "shared", false, "run as one of several processes with this state, in PostgreSQL, and these documents, in a bucket: one publishes, all serve")
	flags.StringVar(&f.at, "shared-at", "", "the other processes reach this one at `HOST:PORT` (default that of --listen, with the name of this host if it has none)")
}

// Check rejects flags that contradict each other, and what several processes cannot share.
func (f *Flags) Check(ctx context.Context, so *site.Options) error {
	if !f.Shared {
		if f.at != "" {
			return term.Usagef("--shared-at needs --shared")
		}
		return nil
	}
	if f.at != "" {
		if _, port, _ := net.SplitHostPort(f.at); !term.IsHostPort(f.at) || port == "" || port == "0" {
			return term.Usage(fmt.Errorf("--shared-at %q: want HOST:PORT", f.at), "as 10.0.0.1:8080")
		}
	}
	return checkSite(ctx, so)
}

// Address returns where other processes reach a listener.
func (f *Flags) Address(l net.Listener) string {
	if f.at != "" {
		return f.at
	}
	host, port, err := net.SplitHostPort(l.Addr().String())
	if ip := net.ParseIP(host); err == nil && ip != nil && ip.IsUnspecified() {
		if name, err := os.Hostname(); err == nil {
			return net.JoinHostPort(name, port)
		}
	}
	return l.Addr().String()
}
