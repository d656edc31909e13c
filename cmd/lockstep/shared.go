package main

import (
	"context"
	"fmt"
	"net"
	"os"

	"github.com/spf13/pflag"

	"lockstep/cmd/lockstep/internal/listen"
	"lockstep/cmd/lockstep/internal/sdnotify"
	"lockstep/cmd/lockstep/internal/sharedserve"
	"lockstep/cmd/lockstep/internal/site"
	"lockstep/cmd/lockstep/internal/term"
)

// sharing are the flags of serve about other processes with the same state.
type sharing struct {
	shared   bool
	sharedAt string
}

func (o *sharing) declare(flags *pflag.FlagSet) {
	flags.BoolVar(&o.shared, "shared", false, "run as one of several processes with this state, in PostgreSQL, and these documents, in a bucket: one publishes, all serve")
	flags.StringVar(&o.sharedAt, "shared-at", "", "the other processes reach this one at `HOST:PORT` (default that of --listen, with the name of this host if it has none)")
}

// checkShared rejects what several processes cannot share.
func (o *serveOptions) checkShared(ctx context.Context, so *site.Options) error {
	if !o.shared {
		if o.sharedAt != "" {
			return term.Usagef("--shared-at needs --shared")
		}
		return nil
	}
	if o.sharedAt != "" {
		if _, _, err := net.SplitHostPort(o.sharedAt); err != nil {
			return term.Usage(fmt.Errorf("--shared-at %q: want HOST:PORT", o.sharedAt), "as 10.0.0.1:8080")
		}
	}
	return sharedserve.Check(ctx, so)
}

// address returns where other processes reach a listener.
func (o *sharing) address(l net.Listener) string {
	if o.sharedAt != "" {
		return o.sharedAt
	}
	host, port, err := net.SplitHostPort(l.Addr().String())
	if ip := net.ParseIP(host); err == nil && ip != nil && ip.IsUnspecified() {
		if name, err := os.Hostname(); err == nil {
			return net.JoinHostPort(name, port)
		}
	}
	return l.Addr().String()
}

// runShared serves at l until ctx ends, as one of several processes. stopStarting ends the
// answers to clients of a process that starts.
func (o *serveOptions) runShared(ctx context.Context, l net.Listener, run sharedserve.Options, stopStarting func(), signals hangups) error {
	io := run.Report.IO
	go refuseReloads(ctx, signals, io)
	run.Address, run.Watch = o.address(l), o.Watching()
	run.Start = func(s *site.Site, published *site.Publication, publisher string) error {
		stopStarting()
		if !o.out.Quiet && !o.out.JSON {
			io.Printf("  listening at     %s\n", l.Addr())
		}
		if published != nil {
			return o.announce(s, published, io)
		}
		return o.announceStandby(s, publisher, io)
	}
	return sharedserve.Run(ctx, l, run)
}

// announceStandby says on stdout that this process serves what another one publishes.
func (o *serveOptions) announceStandby(s *site.Site, publisher string, io term.IO) error {
	d := s.Describe()
	sdnotify.Send(io.LookupEnv, sdnotify.Status(listen.ReadyPrefix+d.BaseURL+" (standby)"))
	if o.out.JSON {
		return io.PrintJSON(serving{BaseURL: d.BaseURL, Listen: o.listen, CapabilityList: d.Lists, State: o.State.String(), Standby: publisher, Admin: d.Admin.Address(), AdminTokenFile: d.Admin.TokenFile})
	}
	if !o.out.Quiet {
		io.Printf("serving what another process publishes: %s\n", publisher)
		s.PrintSets(io)
		d.Admin.Print(io)
	}
	io.Printf("%s%s\n", listen.ReadyPrefix, d.BaseURL)
	return nil
}

// refuseReloads answers requests to read the configuration file again, until ctx ends.
func refuseReloads(ctx context.Context, signals hangups, io term.IO) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-signals:
			io.Errorf("warning: with --shared the configuration is not read again: restart one process after the other\n")
		}
	}
}
