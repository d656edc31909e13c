package entries

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sync/errgroup"

	"lockstep/destination/internal/content"
	"lockstep/destination/internal/desired"
	"lockstep/destination/internal/dump"
	"lockstep/destination/internal/saved"
	"lockstep/internal/fetch"
	"lockstep/internal/nesting"
	"lockstep/resourcesync"
)

// PackagesOf returns the entries of a dump, or of the dumps that an index names. A dump that
// could not be read is not requested again.
func (r *Reader) PackagesOf(ctx context.Context, uri string, kind resourcesync.Capability) ([]resourcesync.Entry, error) {
	key := string(kind) + " " + uri
	r.mu.Lock()
	err := r.unreadable[key]
	r.mu.Unlock()
	if err != nil {
		return nil, err
	}
	packages, err := packagesOf(ctx, r, uri, kind)
	if err != nil && ctx.Err() == nil {
		r.mu.Lock()
		if r.unreadable == nil {
			r.unreadable = map[string]error{}
		}
		r.unreadable[key] = err
		r.mu.Unlock()
	}
	return packages, err
}

func packagesOf(ctx context.Context, r *Reader, uri string, kind resourcesync.Capability) ([]resourcesync.Entry, error) {
	seen := map[string]bool{}
	var all []resourcesync.Entry
	var nested nesting.Walk
	var walk func(uri string, depth int) error
	walk = func(uri string, depth int) error {
		if seen[uri] {
			return nil // each document is used once
		}
		seen[uri] = true
		doc, err := r.Open(ctx, uri, saved.Validators{})
		if err != nil {
			return err
		}
		defer doc.Close()
		if err := Expect(doc, kind); err != nil {
			return err
		}
		read := r.PartsOf
		if !doc.Header.Index {
			read = r.packagesOfDump
		}
		entries, err := read(doc)
		if err != nil {
			return err
		}
		if !doc.Header.Index {
			nested.Yield()
			all = append(all, entries...)
			return nil
		}
		if err := nested.Index(depth); err != nil {
			return fmt.Errorf("read %s: %w", fetch.Printable(uri), err)
		}
		if i, archive := NewestDump(&doc.Header, entries); archive && kind == resourcesync.ResourceDump {
			entries = entries[i : i+1]
		}
		for i := range entries {
			if err := walk(entries[i].Loc, depth+1); err != nil {
				return err
			}
		}
		return nil
	}
	return all, walk(uri, 0)
}

// ReadHints stages the entries of packages' manifests as hints about the location
// of content. It skips manifests that cannot be read.
func (r *Reader) ReadHints(ctx context.Context, refs []dump.Ref, want resourcesync.Capability) error {
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(min(r.Jobs, MaxReaders))
	for _, ref := range refs {
		pkg, n := r.Packages.Add(ref), r.Stage.AddDocument()
		g.Go(func() error {
			m, err := r.openNumbered(gctx, pkg, false)
			if err == nil {
				defer m.Close()
				err = checkManifest(m, want)
			}
			if err == nil {
				_, err = r.stageManifest(m, pkg, n, desired.Packed, nil)
			}
			if local := (*content.LocalError)(nil); errors.As(err, &local) {
				return local.Err
			}
			if err != nil && gctx.Err() == nil {
				r.Packages.NoteFailure(err)
				r.mu.Lock()
				r.Warn(ref.URI, fmt.Sprintf("package %s was not used: %v", fetch.Printable(ref.URI), err))
				r.mu.Unlock()
			}
			return gctx.Err()
		})
	}
	return g.Wait()
}
