package source

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"net/http"
	"strings"

	"lockstep/internal/hangup"
	"lockstep/memento"
	"lockstep/source/internal/names"
)

// Versions are the prior versions a set keeps. The Handler offers them below
// the base URL, where no resource can be published then (memento.Contains); its
// documents, and its resources' answers, say where.
//
// A record says itself which version it is, by a link of relation memento to
// what [memento.Base] makes of it.
type Versions struct {
	Store memento.Store

	// Open opens the bytes of a version. It fails with fs.ErrNotExist if they
	// are not kept.
	Open func(ctx context.Context, v memento.Version) (memento.Content, error)

	// Ending says that no more versions are kept. Those there are, are still
	// offered, for published documents may name them (ME-RET-01), but resources
	// and new entries no longer lead to them.
	Ending bool

	// Earlier says that a TimeGate that is asked for an instant at which the
	// resource was deleted leads to the version before. Without it there is
	// none then (ME-DEL-01).
	Earlier bool
}

// errStores reports sets whose versions no one Handler can offer.
var errStores = errors.New("sets that keep versions must keep them in one store")

// checkVersions checks what the sets say of versions.
func checkVersions(sets []Set) error {
	var store memento.Store
	for i := range sets {
		v := sets[i].Versions
		switch {
		case v == nil:
		case v.Store == nil || v.Open == nil:
			return errors.New("set " + sets[i].Name + ": versions need a store, and what opens them")
		case store == nil:
			store = v.Store
		case store != v.Store:
			return errStores
		}
	}
	return nil
}

// past returns what offers the versions of the sets; nil if none keeps any.
func (s *Source) past() *memento.Handler {
	var all []*Versions
	o := memento.Options{Base: memento.Base(s.docs.Base.Prefix), Logger: s.docs.Log}
	for i := range s.opts.Sets {
		if v := s.opts.Sets[i].Versions; v != nil {
			all = append(all, v)
			o.Earlier = o.Earlier || v.Earlier
		}
	}
	if len(all) == 0 {
		return nil
	}
	o.Open = func(ctx context.Context, v memento.Version) (memento.Content, error) {
		err := error(fs.ErrNotExist)
		for _, set := range all { // the version does not say whose it is
			var content memento.Content
			if content, err = set.Open(ctx, v); !errors.Is(err, fs.ErrNotExist) {
				return content, err
			}
		}
		return nil, err
	}
	return memento.NewHandler(all[0].Store, o)
}

// pastTarget returns what a request asks of the past: all behind the base URL as
// it was sent, query and all (ME-TG-08). It is not ok if it asks for something
// else.
func (h *handler) pastTarget(r *http.Request) (target string, ok bool) {
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

// pastLinks adds to the Link field of a resource where its versions are
// (ME-LK-02).
func (h *handler) pastLinks(links []string, rel, uri string) []string {
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
		if set := &h.opts.Sets[i]; set.Versions.kept() && covers(set, rel) {
			return true
		}
	}
	return false
}

// kept reports whether new versions are kept.
func (v *Versions) kept() bool { return v != nil && !v.Ending }
