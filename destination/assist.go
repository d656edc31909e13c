package destination

import (
	"context"
	"fmt"

	"lockstep/destination/filename"
	"lockstep/destination/share"
)

// Assist fetches contents for the coordinator of a shared mirror, and commits them to the
// store of d when that says so, until ctx ends or m may not write any more: then the error
// wraps [share.ErrExpired]. The Journal of d is not used.
func (d *Destination) Assist(ctx context.Context, m *share.Member) error {
	paths, err := filename.New(filename.Options{Origin: "https://source.invalid"}) // the coordinator names the files
	if err != nil {
		return fmt.Errorf("assist: %w", err)
	}
	return share.Assist(ctx, m, newFetcher(d, 0, paths), d.jobs)
}
