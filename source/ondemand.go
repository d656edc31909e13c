package source

import (
	"net/http"

	"lockstep/source/internal/demand"
	"lockstep/source/internal/names"
)

// RelDemand is the relation by which a Capability List names the address that
// takes lists of URIs and answers with a package of what is there (an
// extension of ours; others ignore it, RS-LN-04).
const RelDemand = "urn:x-lockstep:dump"

// OnDemand limits dumps of what a client asks for.
type OnDemand struct {
	Resources int   // in one; default 10,000, at most 50,000
	Bytes     int64 // of content in one; default 1 GiB
	AtOnce    int   // being made at a time, and four times as many being sent, each of which may take Bytes in Options.Temp; default 4
}

// demandable reports whether packages of the set's resources can be asked for.
func (s *Source) demandable(set Set) bool { return s.opts.OnDemand != nil && set.Bitstream != nil }

// newDemand returns what answers requests for packages on demand; nil if there
// are none.
func (s *Source) newDemand() *demand.Handler {
	if s.opts.OnDemand == nil {
		return nil
	}
	return demand.New(demand.Options{Docs: s.docs, Catalog: s.catalog, Workers: s.opts.Workers, Temp: s.opts.Temp, Limits: demand.Limits(*s.opts.OnDemand)})
}

// demand answers a request for a package, if it is one.
func (h *handler) demand(w http.ResponseWriter, r *http.Request) bool {
	if h.packages == nil {
		return false
	}
	rel, ok := h.docs.Base.Locate(sentPath(r.URL))
	if !ok {
		return false
	}
	for i := range h.opts.Sets {
		if set := &h.opts.Sets[i]; rel == names.Demand(set.Name) && h.demandable(*set) {
			h.packages.Serve(w, r, &demand.Set{Name: set.Name, Rules: h.rules[set.Name], Bitstream: set.Bitstream})
			return true
		}
	}
	return false
}
