package serve

import (
	"net/http"

	"lockstep/source/internal/demand"
	"lockstep/source/internal/names"
)

// demand answers a request for a package, if it is one.
func (h *handler) demand(w http.ResponseWriter, r *http.Request) bool {
	if h.opts.Packages == nil {
		return false
	}
	rel, ok := h.docs.Base.Locate(sentPath(r.URL))
	if !ok {
		return false
	}
	for i := range h.opts.Sets {
		if set := &h.opts.Sets[i]; rel == names.Set(set.Name).Demand() && set.Bitstream != nil {
			h.opts.Packages.Serve(w, r, &demand.Set{Name: set.Name, Rules: set.Rules, Bitstream: set.Bitstream})
			return true
		}
	}
	return false
}
