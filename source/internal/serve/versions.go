package serve

import (
	"context"
	"log/slog"
	"net/http"
	"strings"

	"lockstep/internal/hangup"
	"lockstep/internal/reader"
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
func (h *handler) versionLinks(links []string, rel string, v view, uri string) []string {
	if !h.keepsVersions(rel, v) {
		return links
	}
	return append(links[:len(links):len(links)], memento.Base(h.docs.Base.Prefix).Links(uri))
}

// goneLinks returns the Link field of a resource that is not there, if it was
// once (ME-LK-07).
func (h *handler) goneLinks(r *http.Request, rel string) []string {
	var v view
	if len(h.gate.privateAt(rel)) > 0 { // the client is one of their readers
		v = reader.Of(r.Context()).Sets
	}
	if names.Reserved(rel) || !h.keepsVersions(rel, v) {
		return nil
	}
	uri := h.docs.Base.Origin() + sentPath(r.URL)
	switch known, err := h.knowsVersions(r.Context(), uri, v); {
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

// knowsVersions reports whether a resource has or had a version that the client may see.
func (h *handler) knowsVersions(ctx context.Context, uri string, v view) (bool, error) {
	if !h.opts.OnlySets {
		return h.versions.Knows(ctx, uri)
	}
	public, private, hidden, err := h.gate.versionsIn(ctx, v, []string{uri})
	return (public || private) && !hidden, err
}

// keepsVersions reports whether resources at rel are led from to their
// versions.
func (h *handler) keepsVersions(rel string, v view) bool {
	if h.versions == nil {
		return false
	}
	for i := range h.opts.Sets {
		if set := &h.opts.Sets[i]; set.Versions && set.covers(rel) && v.sees(set) {
			return true
		}
	}
	return false
}
