package main

import (
	"context"
	"net"

	"lockstep/cmd/lockstep/internal/hangup"
	"lockstep/cmd/lockstep/internal/listen"
	"lockstep/cmd/lockstep/internal/sdnotify"
	"lockstep/cmd/lockstep/internal/sharedserve"
	"lockstep/cmd/lockstep/internal/site"
	"lockstep/cmd/lockstep/internal/term"
)

// runShared serves at l until ctx ends, as one of several processes. stopStarting ends the
// answers to clients of a process that starts.
func (o *serveOptions) runShared(ctx context.Context, l net.Listener, run sharedserve.Options, stopStarting func(), signals hangup.Signals) error {
	io := run.Report.IO
	go refuseReloads(ctx, signals, io)
	run.Address, run.Watch = o.sharing.Address(l), o.Watching()
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
func refuseReloads(ctx context.Context, signals hangup.Signals, io term.IO) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-signals:
			io.Errorf("warning: with --shared the configuration is not read again: restart one process after the other\n")
		}
	}
}
