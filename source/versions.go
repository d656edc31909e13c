package source

import (
	"context"

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
