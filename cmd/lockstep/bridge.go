package main

import (
	"log/slog"
	"path/filepath"
	"strings"

	"lockstep/bridge"
	"lockstep/destination"
	"lockstep/discover"
	"lockstep/internal/fetch"
)

// bridged has a Destination follow what has to be harvested. What it remembers
// of it is beside its Journal, in the directory state; "" is nowhere.
func bridged(do *destination.Options, state string, client *fetch.Client, log *slog.Logger) {
	o := bridge.Options{AllowHosts: do.AllowHosts, Logger: log}
	if state != "" {
		o.Dir = filepath.Join(state, filepath.Dir(filepath.FromSlash(destination.StateFile)))
	}
	do.Bridge = bridge.New(client, o).Open
}

// harvested returns what an address says by its prefix that it is, without
// asking anybody; ok is false for one without a prefix.
func harvested(address string) (f discover.Foreign, ok bool) {
	for _, kind := range []string{discover.AtomPMH, discover.OAIPMH} {
		if n := len(kind) + 1; len(address) > n && strings.EqualFold(address[:n], kind+":") {
			f = discover.Foreign{Kind: kind, URI: address[n:]}
			if !strings.Contains(f.URI, "://") {
				f.URI = "https://" + f.URI // as people write addresses
			}
			return f, true
		}
	}
	return f, false
}
