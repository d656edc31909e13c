package destination

import "context"

// ways are the ways to get content other than a request for each resource:
// out of packages, or many with one request. The zero value has none.
//
// The applier calls start once, then offers every action with verbFetch by
// takes, then calls finish; all before it commits the last batch. What cannot be
// had by any of the ways is given back by single.
type ways struct{}

// start begins. done takes outcomes, single takes actions back that have to be
// fetched alone after all; both may be called concurrently, until finish
// returns, and both block while much is under way.
func (w *ways) start(_ context.Context, _ *fetcher, _ func(outcome), _ func(*action)) {}

// takes reports whether the content of a is had by one of the ways. If so, a
// belongs to them.
func (w *ways) takes(_ *action) (bool, error) { return false, nil }

// finish gets all that was taken and is not had yet, or, if it is not to go
// on, waits for what is under way. It is always called, and nothing calls done
// or single after it. It returns only errors after which nothing more can be
// done.
func (w *ways) finish(_ bool) error { return nil }
