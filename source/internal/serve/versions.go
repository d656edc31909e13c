package serve

import (
	"log/slog"
	"net/http"
	"strings"

	"lockstep/internal/hangup"
	"lockstep/memento"
	"lockstep/source/internal/names"
)

// versionTarget returns what a request asks of the past: all behind the base URL as
// it was sent, query and all (ME-TG-08). It is not ok if it asks for something
// else.
func (h *handler) versionTarget(r *http.Request) (target string, ok bool) {
	if h.versions == nil {
		return "", false
	}
	rest, ok := h.docs.Base.Below(memento.Target(r))
	if !ok {
		return "", false
	}
	prefix, rest, _ := strings.Cut(rest, "/")
	prefix, ok = names.DecodeSegment(prefix)
	return prefix + "/" + rest, ok && memento.Contains(prefix)
}

// versionLinks adds to the Link field of a resource where its versions are
// (ME-LK-02).
func (h *handler) versionLinks(links []string, rel, uri string) []string {
	if !h.keepsVersions(rel) {
		return links
	}
	return append(links[:len(links):len(links)], memento.Base(h.docs.Base.Prefix).Links(uri))
}

// goneLinks returns the Link field of a resource that is not there, if it was
// once (ME-LK-07).
func (h *handler) goneLinks(r *http.Request, rel string) []string {
	if names.Reserved(rel) || !h.keepsVersions(rel) {
		return nil
	}
	uri := h.docs.Base.Origin() + sentPath(r.URL)
	switch known, err := h.versions.Knows(r.Context(), uri); {
	case hangup.Is(r.Context(), err):
		panic(http.ErrAbortHandler) // the client is gone
	case err != nil:
		h.docs.Log.WarnContext(r.Context(), "cannot find out whether there was a resource", slog.String("uri", uri), slog.Any("err", err))
		return nil
	case !known:
		return nil
	}
	return []string{memento.Base(h.docs.Base.Prefix).Links(uri)}
}

// keepsVersions reports whether resources at rel are led from to their
// versions.
func (h *handler) keepsVersions(rel string) bool {
	if h.versions == nil {
		return false
	}
	for i := range h.opts.Sets {
		if set := &h.opts.Sets[i]; set.Versions && set.covers(rel) {
			return true
		}
	}
	return false
}
