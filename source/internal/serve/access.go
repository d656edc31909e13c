package serve

import (
	"context"
	"errors"
	"io/fs"
	"net/http"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"lockstep/blob"
	"lockstep/catalog"
	"lockstep/internal/reader"
	"lockstep/memento"
	"lockstep/source/internal/document"
	"lockstep/source/internal/names"
)

// A view is what a request may see: public sets, and the private sets with these names.
type view []string

func (v view) sees(set *Set) bool { return !set.Private || slices.Contains(v, set.Name) }

// admit answers a request with serve if its client may see what it asks for. Other
// clients get the same answer for what exists and what does not.
func (h *handler) admit(w http.ResponseWriter, r *http.Request, serve func(http.ResponseWriter, *http.Request, view)) {
	v, ok, err := h.gate.viewOf(w.Header(), r)
	switch {
	case err != nil:
		h.refuse(w, r, sentPath(r.URL), err)
	case !ok:
		h.deny(w, r)
	case len(v) > 0:
		reader.Confidentially(w, func(w http.ResponseWriter) { serve(w, r, v) })
	default:
		serve(w, r, nil)
	}
}

// A gate decides what requests may see.
type gate struct {
	docs     *document.Store
	sets     []Set
	public   bool                                            // there is a public set
	private  bool                                            // there is a private set
	content  func(rel string) (*os.File, fs.FileInfo, error) // of public sets; may be nil
	versions *memento.Handler                                // nil: none are kept

	versionTarget func(r *http.Request) (target string, ok bool) // what a request asks of the past
	lookup        func(ctx context.Context, set *Set, uri string) (*catalog.Record, error)
}

// viewOf returns what a request may see of the sets that its address belongs to. It is not
// ok if that is nothing.
func (g *gate) viewOf(header http.Header, r *http.Request) (v view, ok bool, err error) {
	if target, ok := g.versionTarget(r); ok {
		return g.viewOfVersions(r, g.versions.URIs(target))
	}
	rel, ok := g.docs.Base.Locate(sentPath(r.URL))
	switch {
	case !ok: // no address of ours
		return nil, true, nil
	case rel == names.Home, rel == names.WellKnown:
		header.Add("Vary", reader.Vary)
		return g.viewOfAll(r)
	case names.Served(rel):
		return g.viewOfDocument(r, rel)
	case names.Reserved(rel):
		return nil, true, nil
	}
	return g.viewOfResource(r, rel)
}

// viewOfAll is viewOf for what names all sets. A credential that is not accepted is
// refused there: its client would take the public sets for all there are.
func (g *gate) viewOfAll(r *http.Request) (v view, ok bool, err error) {
	grant := reader.Of(r.Context())
	return grant.Sets, grant.Status == 0 && (g.public || len(grant.Sets) > 0), nil
}

// viewOfDocument is viewOf for a document or package. Those of a set that is not
// configured are not shown: it may have been private.
func (g *gate) viewOfDocument(r *http.Request, name string) (v view, ok bool, err error) {
	dir, _, deeper := strings.Cut(strings.TrimPrefix(name, names.DocumentsDir), "/")
	if !deeper || !strings.HasPrefix(name, names.DocumentsDir) {
		return nil, true, nil
	}
	private := false
	for i := range g.sets {
		if g.sets[i].Name == dir {
			if private = g.sets[i].Private; !private {
				return nil, true, nil
			}
		}
	}
	grant := reader.Of(r.Context())
	return grant.Sets, private && grant.Opens(dir), nil
}

// viewOfResource is viewOf for a resource. One that a public set has is public, also where
// private sets have theirs.
func (g *gate) viewOfResource(r *http.Request, rel string) (v view, ok bool, err error) {
	covering := g.privateAt(rel)
	if len(covering) == 0 {
		return nil, true, nil
	}
	grant := reader.Of(r.Context())
	if slices.ContainsFunc(covering, grant.Opens) {
		return grant.Sets, true, nil
	}
	ok, err = g.isPublic(r, rel)
	return nil, ok, err
}

// privateAt returns the names of the private sets whose resources are where rel is.
func (g *gate) privateAt(rel string) (sets []string) {
	for i := range g.sets {
		if set := &g.sets[i]; set.Private && set.covers(rel) {
			sets = append(sets, set.Name)
		}
	}
	return sets
}

// isPublic reports whether a public set has a resource at rel, or cannot say so.
func (g *gate) isPublic(r *http.Request, rel string) (bool, error) {
	if g.content != nil {
		f, info, err := g.content(rel)
		if err == nil {
			_ = f.Close() // nothing was read from it
			return info.Mode().IsRegular(), nil
		}
		if !isMissing(err) {
			return true, nil // the answer is this error
		}
	}
	for i := range g.sets {
		set := &g.sets[i]
		if set.Private || !set.Stream || set.Bitstream == nil || !set.covers(rel) {
			continue
		}
		_, err := g.lookup(r.Context(), set, g.docs.Base.Origin()+sentPath(r.URL))
		if err == nil || !errors.Is(err, fs.ErrNotExist) {
			return err == nil, err
		}
	}
	return false, nil
}

// isMissing reports whether an error means that there is nothing at an address.
func isMissing(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, blob.ErrNotExist) || errors.Is(err, blob.ErrName) ||
		errors.Is(err, blob.ErrDirectory) || errors.Is(err, blob.ErrNotDirectory) ||
		errors.Is(err, syscall.ENOTDIR) || errors.Is(err, syscall.ENAMETOOLONG) || errors.Is(err, syscall.EISDIR)
}

// viewOfVersions is viewOf for versions of a resource, given the spellings of its URI. Answers
// name the versions of all sets together: if a private set has one, all are for its readers.
func (g *gate) viewOfVersions(r *http.Request, uris []string) (v view, ok bool, err error) {
	if len(uris) == 0 {
		return nil, true, nil // the answer says what is wrong with the address
	}
	grant := reader.Of(r.Context())
	public, private, hidden, err := g.versionsIn(r.Context(), grant.Sets, uris)
	switch {
	case err != nil || hidden:
		return nil, false, err
	case private:
		return grant.Sets, true, nil
	case public:
		return nil, true, nil
	case g.hides(grant.Sets, uris):
		return nil, false, nil
	}
	known, err := g.versions.Knows(r.Context(), uris[0]) // to a set that is not configured any more
	return nil, !known, err
}

// versionsIn reports which sets have versions of a resource, which readers of some private
// sets ask for: public ones, private ones that they may read, and others.
func (g *gate) versionsIn(ctx context.Context, readable view, uris []string) (public, private, hidden bool, err error) {
	for i := range g.sets {
		set := &g.sets[i]
		if set.Store == nil {
			continue
		}
		last, err := set.Store.Last(ctx, g.docs.CapabilityList(set.Name), uris)
		if err != nil {
			return false, false, false, err
		}
		has := false
		for i := range last {
			has = has || !last[i].IsZero()
		}
		switch {
		case !has:
		case !set.Private:
			public = true
		case readable.sees(set):
			private = true
		default:
			hidden = true
		}
	}
	return public, private, hidden, nil
}

// hides reports whether a URI may be one of a private set with versions: of sets that have
// resources elsewhere, any URI may.
func (g *gate) hides(readable view, uris []string) bool {
	for i := range g.sets {
		set := &g.sets[i]
		if set.Store == nil || readable.sees(set) {
			continue
		}
		for _, uri := range uris {
			path, below := strings.CutPrefix(uri, g.docs.Base.Origin())
			rel, located := g.docs.Base.Locate(path)
			if set.Elsewhere || below && located && set.covers(rel) {
				return true
			}
		}
	}
	return false
}

// deny answers a client that may not see what it asks for. Without private sets, that is
// what is left of them.
func (h *handler) deny(w http.ResponseWriter, r *http.Request) {
	if !h.gate.private {
		h.fail(w, r, http.StatusNotFound)
		return
	}
	h.fail(w, r, reader.Of(r.Context()).Refuse(w.Header()))
}

// recheckEvery is how often the credential of a client that reads an event stream is
// checked again.
const recheckEvery = 30 * time.Second

// whileReader returns r with a context that ends when its credential no longer opens a set.
func whileReader(r *http.Request, set string) (_ *http.Request, stop context.CancelFunc) {
	ctx, cancel := context.WithCancel(r.Context())
	go func() {
		tick := time.NewTicker(recheckEvery)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
			case <-ctx.Done():
				return
			}
			if !reader.Again(r.Context()).Opens(set) {
				cancel()
				return
			}
		}
	}()
	return r.WithContext(ctx), cancel
}
