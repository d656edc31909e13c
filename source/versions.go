package source

import (
	"context"
	"errors"
	"io/fs"

	"lockstep/memento"
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

// versionHandler returns what offers the versions of the sets; nil if none keeps any. policy
// returns the Content-Security-Policy of those of a resource.
func (s *Source) versionHandler(policy func(uri string) string) *memento.Handler {
	var all []*Versions
	o := memento.Options{Base: memento.Base(s.docs.Base.Prefix), Policy: policy, Logger: s.docs.Log}
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

// store returns the index of the versions; nil if there are none.
func (v *Versions) store() memento.Store {
	if v == nil {
		return nil
	}
	return v.Store
}

// kept reports whether new versions are kept.
func (v *Versions) kept() bool { return v != nil && !v.Ending }
