package destination

import (
	"context"

	"lockstep/destination/filename"
	"lockstep/destination/internal/saved"
	"lockstep/destination/journal"
)

// Names returns how the files of the mirror with the Journal j are named on a file system
// that takes all names, where nothing is in the way: relative to the Source that the
// mirror was first made of, and to what its [Origin] maps. Such a name depends on
// nothing but the URI, and belongs to no other URI; the file itself may have another one,
// which its row in the Journal has.
func Names(ctx context.Context, j journal.Journal) (*filename.Mapping, error) {
	var m saved.Mirror
	if _, err := saved.Load(ctx, j, saved.DocMirror, &m); err != nil {
		return nil, err
	}
	return m.Paths(false, nil)
}
