package source

import (
	"context"
	"fmt"

	"lockstep/internal/reader"
	"lockstep/resourcesync"
)

// WithReader returns a context for a request whose client may read these private sets. Only
// a program that has checked its credential may pass such a request to [Source.Handler].
func WithReader(ctx context.Context, sets ...string) context.Context {
	return reader.With(ctx, func() reader.Grant { return reader.Grant{Sets: sets} })
}

// checkPrivate refuses private sets where they cannot be kept private, and sets
// OnlySets if there are some.
func (o *Options) checkPrivate() error {
	for i := range o.Sets {
		set := &o.Sets[i]
		switch {
		case set.Content != nil && !set.Private:
			return fmt.Errorf("set %q: Content is for private sets; those of public ones are opened by Options.Content", set.Name)
		case !set.Private:
		case o.Static:
			return fmt.Errorf("set %q is private, and others serve the documents", set.Name)
		case len(o.Sets) > resourcesync.MaxEntries: // the Source Description of each reader is one document
			return fmt.Errorf("set %q: a Source with private sets has at most %d sets", set.Name, resourcesync.MaxEntries)
		default:
			o.OnlySets = true
		}
	}
	return nil
}
