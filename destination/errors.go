package destination

import "lockstep/destination/internal/content"

// A ContentError reports content that is not what the Source describes: the
// resource changed since, or it is damaged.
type ContentError = content.Error
