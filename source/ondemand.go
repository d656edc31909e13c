package source

import (
	"lockstep/source/internal/demand"
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

// newDemand returns what answers requests for packages on demand; nil if there
// are none.
func (s *Source) newDemand() *demand.Handler {
	if s.opts.OnDemand == nil {
		return nil
	}
	return demand.New(demand.Options{Docs: s.docs, Catalog: s.catalog, Workers: s.opts.Workers, Temp: s.opts.Temp, Limits: demand.Limits(*s.opts.OnDemand)})
}
