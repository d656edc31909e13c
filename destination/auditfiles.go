package destination

import (
	"context"
	"iter"
	"strings"

	"lockstep/destination/filename"
	"lockstep/internal/extsort"
)

// foreign finds the files that do not belong to the mirror: those whose names
// no resource has. The names we assigned are sorted externally, since there may
// be many, and compared in one pass with the files.
func (a *auditor) foreign(ctx context.Context, names *extsort.Sorter) error {
	if a.d.isForgetful() {
		return nil
	}
	if err := a.name(ctx, names); err != nil {
		return err
	}
	next, stop := iter.Pull2(names.Sorted(ctx))
	defer stop()
	name, err, more := next()
	for info, lerr := range a.d.store.List(ctx, "") {
		if lerr != nil {
			return lerr
		}
		for err == nil && more && string(name.Key) < info.Name {
			name, err, more = next()
		}
		if err != nil {
			return err
		}
		if strings.HasPrefix(info.Name, filename.StateDir+"/") || more && string(name.Key) == info.Name {
			continue
		}
		cause := "not made by lockstep"
		if a.plain {
			cause = "the Source lists no resource with this file"
		}
		found := &Facts{Length: &info.Size, Lastmod: info.ModTime}
		a.find(&Finding{Kind: Foreign, Path: info.Name, Found: found, Cause: cause})
	}
	return err
}

// name notes the names of all files that are held, unless it was done.
func (a *auditor) name(ctx context.Context, names *extsort.Sorter) error {
	w := names.Writer()
	defer names.Release(w)
	for _, h := range a.halfway {
		if err := w.Add([]byte(h.Path), nil); err != nil {
			return err
		}
	}
	if a.named {
		return nil
	}
	for h, err := range a.d.journal.Held(ctx, "", "") {
		if err == nil {
			err = w.Add([]byte(h.Path), nil)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
