package mirror

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

// ParseForeign returns what an address says by its prefix that it is, without asking
// anybody; ok is false for one without a prefix.
func ParseForeign(address string) (f discover.Foreign, ok bool) {
	kind, uri := discover.Prefix(address)
	if kind == "" || uri == "" {
		return f, false
	}
	if !strings.Contains(uri, "://") {
		uri = "https://" + uri // as people write addresses
	}
	return discover.Foreign{Kind: kind, URI: uri}, true
}
