package destination

import (
	"net/url"

	"lockstep/destination/internal/entries"
	"lockstep/destination/internal/push"
	"lockstep/destination/internal/stage"
)

// newSetReader returns a reader of a set's documents for a Destination.
func newSetReader(d *Destination, set *setState, home *url.URL, file string, st *stage.Stage, warn func(uri, text string), fail func(uri string, err error)) *entries.Reader {
	return &entries.Reader{
		Client: d.client, Opener: d.packages, Jobs: d.opts.Jobs, Selects: d.selects, Useful: d.usefulLink, Baseline: d.opts.Baseline,
		OnOpen: func(uri string) { d.emit(Event{Kind: EventDocument, Set: set.Name, URI: uri}) },
		Pushed: func() *push.State { return set.push },
		Set:    &set.Set, Home: home, File: file, Stage: st, Warn: warn, Fail: fail,
	}
}
