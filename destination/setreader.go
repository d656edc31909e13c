package destination

import (
	"net/url"

	"lockstep/destination/internal/push"
	"lockstep/destination/internal/stage"
)

// newSetReader returns a reader of a set's documents for a Destination.
func newSetReader(d *Destination, set *setState, home *url.URL, file string, st *stage.Stage, warn func(uri, text string), fail func(uri string, err error)) *setReader {
	return &setReader{
		client: d.client, opener: d.packages, jobs: d.opts.Jobs, selects: d.selects, useful: d.usefulLink, baseline: d.opts.Baseline,
		onOpen: func(uri string) { d.emit(Event{Kind: EventDocument, Set: set.Name, URI: uri}) },
		pushed: func() *push.State { return set.push },
		set:    &set.Set, home: home, file: file, stage: st, warn: warn, fail: fail,
	}
}
