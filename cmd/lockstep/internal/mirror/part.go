package mirror

import (
	"context"
	"errors"
	"fmt"

	"lockstep/blob"
	"lockstep/cmd/lockstep/internal/stateplace"
	"lockstep/cmd/lockstep/internal/term"
	"lockstep/destination/journal"
	"lockstep/internal/lastrun"
	"lockstep/internal/mirrordir"
	"lockstep/internal/statedir"
)

// A Part is the memory of a mirror in a database that has those of others, too. The process that opens
// the mirror owns the database.
type Part struct {
	Journal  journal.Journal
	MayWrite func() error // returns why this process must not write to the mirror any more
	Shared   bool         // another process can own the database next, while this one runs
}

// openBucketPart opens a mirror in a bucket whose memory is a part of a database. The directory of place is for
// what may be lost.
func openBucketPart(ctx context.Context, dest string, place stateplace.Place, p *Part, c BucketClient) (_ *State, err error) {
	var mayWrite func() error
	if p.Shared {
		mayWrite = p.MayWrite
	}
	bucket, versions, err := openBuckets(dest, place.Dir, c, mayWrite)
	if err != nil {
		return nil, err
	}
	if err := probeBucket(bucket); err != nil {
		return nil, err
	}
	if err := statedir.Make(place.Dir, c.Log); err != nil {
		return nil, err
	}
	scratch, err := blob.NewDir(place.Dir, blob.DirOptions{})
	if err != nil {
		return nil, fmt.Errorf("open the directory of the mirror: %w", err)
	}
	m := &memory{dir: place.Dir, journal: p.Journal, https: document{p.Journal, mirrordir.HTTPSHost}, run: document{p.Journal, lastrun.Name},
		scratch: scratch, mayWrite: p.MayWrite, closers: []func() error{scratch.Close}}
	if err := p.belongs(bucket.String()); err != nil {
		return nil, errors.Join(err, m.close())
	}
	return m.state(bucket, versions, c.Log), nil
}

// belongs refuses the memory of a mirror in another place than dest: what it has is not there.
func (p *Part) belongs(dest string) error {
	of := document{p.Journal, StateOf}
	whose, err := of.Read()
	switch {
	case err != nil:
		return fmt.Errorf("open the memory of the mirror: %w", err)
	case whose == nil:
		return of.Write([]byte(dest))
	case string(whose) == dest:
		return nil
	}
	return term.Usage(fmt.Errorf("store %s: the mirror of this upstream is in %s", dest, whose), "write the former place; or give the upstream another name, with which a new mirror begins")
}
