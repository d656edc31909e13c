package validate

import (
	"context"

	"lockstep/validate/finding"
	"lockstep/validate/internal/dump"
	"lockstep/validate/internal/feed"
	"lockstep/validate/internal/repository"
	"lockstep/validate/opener"
)

// A Run checks several Sources, feeds and repositories as one: a document that is
// reached from several of them is counted and reported once, and a set is checked
// once. Its methods must not be called concurrently.
type Run struct{ walk *walk }

// NewRun returns a Run that has checked nothing yet.
func NewRun(o Options) *Run { return &Run{newWalk(newVisit(o))} }

// Report returns what was found until now.
func (r *Run) Report() *finding.Report { return r.walk.visitor.Collector.Report }

// Source is like the function [Source].
func (r *Run) Source(ctx context.Context, open opener.Func, address string) error {
	return r.check(open, func() error { return r.walk.start(ctx, address) })
}

// Feed is like the function [Feed].
func (r *Run) Feed(ctx context.Context, open opener.Func, address string) error {
	return r.check(open, func() error {
		return r.walk.once("feed "+address, func() error { return feed.Check(ctx, r.walk.visitor, address) })
	})
}

// Repository is like the function [Repository].
func (r *Run) Repository(ctx context.Context, open opener.Func, address string) error {
	return r.check(open, func() error {
		return r.walk.once("repository "+address, func() error { return repository.Check(ctx, r.walk.visitor, address) })
	})
}

// Checked reports whether the document or the manifest of the package at uri was read
// and checked.
func (r *Run) Checked(uri string) bool {
	return r.walk.visitor.Counted(uri) || r.walk.visitor.Counted(dump.ManifestURI(uri))
}

func (r *Run) check(open opener.Func, check func() error) error {
	r.walk.visitor.Start(open)
	defer r.walk.visitor.Collector.Release()
	return check()
}
