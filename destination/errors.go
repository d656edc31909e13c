package destination

import (
	"lockstep/destination/internal/content"
	"lockstep/destination/internal/scratch"
)

// A ContentError reports content that is not what the Source describes: the
// resource changed since, or it is damaged.
type ContentError = content.Error

// ErrScratch reports that there was more to sort than there is scratch space.
var ErrScratch = scratch.ErrFull
