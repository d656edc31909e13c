package origins

import (
	"context"
	"fmt"
	"path/filepath"

	"lockstep/aggregator"
	"lockstep/cmd/lockstep/internal/config"
	"lockstep/cmd/lockstep/internal/mirror"
	"lockstep/cmd/lockstep/internal/term"
	"lockstep/destination/journal/part"
)

// A Memory is a database that has what mirrors of upstreams remember.
type Memory struct {
	Journal  part.Whole
	MayWrite func() error // returns why this process must not write to the mirrors any more
	Shared   bool         // other processes have the same state
	Standby  bool         // one of them writes to the mirrors, and this one does not
}

// part returns the part of the mirror with a name; nil: its memory is in its directory.
func (m *Memory) part(name string) (*mirror.Part, error) {
	if m == nil {
		return nil, nil
	}
	whose, err := m.Journal.Load(context.Background(), mirror.StateOf)
	if err != nil {
		return nil, err
	}
	if whose != nil { // it would take the resources of upstreams for its own
		return nil, term.WithHint(fmt.Errorf("the database is the state of the mirror in %s, too", whose), "give the Source a database of its own, or a schema of one by ?search_path=NAME")
	}
	return &mirror.Part{Journal: part.Of(m.Journal, filepath.ToSlash(name)), MayWrite: m.MayWrite, Shared: m.Shared}, nil
}

// openServed opens the mirror of an upstream that another process follows: its resources are served.
func (o *Opener) openServed(u *config.Member, part *mirror.Part) (m aggregator.Mirror, err error) {
	m.Journal = part.Journal
	if !u.InPlace() {
		m.Store, err = mirror.OpenBucket(u.Store, mirror.BucketClient{LookupEnv: o.LookupEnv, Network: o.Upstreams.Network, Log: o.Log})
	}
	return m, err
}
