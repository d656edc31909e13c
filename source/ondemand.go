package source

import "net/http"

// RelDemand is the relation by which a Capability List names the address that
// takes lists of URIs and answers with a package of what is there (an
// extension of ours; others ignore it, RS-LN-04).
const RelDemand = "urn:x-lockstep:dump"

// What an on-demand dump is limited to unless told otherwise.
const (
	defaultDemandResources = 10_000
	defaultDemandBytes     = 1 << 30
	defaultDemandAtOnce    = 4
)

// OnDemand limits dumps of what a client asks for.
type OnDemand struct {
	Resources int   // in one; default 10,000
	Bytes     int64 // of content in one; default 1 GiB
	AtOnce    int   // being made at a time, each of which may take Bytes in Options.Temp; default 4
}

func (d *OnDemand) withDefaults() *OnDemand {
	d = new(*d)
	if d.Resources <= 0 {
		d.Resources = defaultDemandResources
	}
	if d.Bytes <= 0 {
		d.Bytes = defaultDemandBytes
	}
	if d.AtOnce <= 0 {
		d.AtOnce = defaultDemandAtOnce
	}
	return d
}

// demandable reports whether packages of the set's resources can be asked for.
func (s *Source) demandable(set Set) bool { return s.opts.OnDemand != nil && set.Bitstream != nil }

// demand answers a request for a package, if it is one.
func (h *handler) demand(w http.ResponseWriter, r *http.Request) bool {
	return false
}
