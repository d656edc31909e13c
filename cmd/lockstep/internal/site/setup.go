package site

import (
	"context"
	"fmt"
	"net/http"
	"strings"

	"lockstep/blob"
	"lockstep/catalog"
	"lockstep/cmd/lockstep/internal/admin"
	"lockstep/cmd/lockstep/internal/baseurl"
	"lockstep/cmd/lockstep/internal/config"
	"lockstep/cmd/lockstep/internal/hubserver"
	"lockstep/cmd/lockstep/internal/listen"
	"lockstep/cmd/lockstep/internal/origins"
	"lockstep/cmd/lockstep/internal/publishing"
	"lockstep/cmd/lockstep/internal/readers"
	"lockstep/cmd/lockstep/internal/sourcefigures"
	"lockstep/cmd/lockstep/internal/term"
	"lockstep/source"
)

// A setup is everything that depends on which sets a site has. A reload of the
// configuration replaces it as a whole.
type setup struct {
	configs    []config.Set // of the sets, in the same order
	sets       []*siteSet
	src        *source.Source
	scans      *scanner
	publish    publishing.PublishFunc // writes all documents
	urgent     publishing.PublishFunc // writes those that clients should get at once
	dumps      *publishing.Dumps
	harvesting *harvesting // nil: no set is offered to harvesters
	front      front
	readers    *readers.Gate
	ended      chan struct{} // closed when another setup has taken its place
}

// A setupBuilder makes setups.
type setupBuilder struct {
	opts     *Options
	storage  *storage
	sets     *setBuilder
	catalog  catalog.Catalog // as Sources see it
	source   source.Options  // without sets
	tally    *sourcefigures.Tally
	failures *sourcefigures.Origins
	api      *origins.API
	hub      *hubserver.Front // nil: none
	hubPath  string
	pages    *admin.Pages // nil: none
	names    *changeNamer // nil: changes are not named
	logins   *readers.Logins
	former   *readers.Former
}

// build returns the setup with sets that the configurations describe. Nothing is read
// or written yet.
func (b *setupBuilder) build(sets []*siteSet, configs []config.Set) (*setup, error) {
	s := &setup{configs: configs, sets: sets, readers: readers.NewGate(b.logins), ended: make(chan struct{})}
	so := b.source
	so.OnlySets = b.former.Any()
	var files resourceFiles // of public sets
	for i, set := range sets {
		own := set.source
		if configs[i].Private() {
			list, err := readers.Open(configs[i].Readers)
			if err != nil {
				return nil, term.Usage(fmt.Errorf("set %s: %w", set.name, err), term.HintOf(err))
			}
			s.readers.Guard(set.name, list)
			own.Private = true
			if b.opts.Content {
				own.Content = resourceFiles{set}.open
			}
		} else {
			files = append(files, set)
		}
		so.Sets = append(so.Sets, own)
	}
	if b.opts.Content {
		so.Content, so.Mark, so.OnDemand, so.Streams = files.open, files.mark, &source.OnDemand{}, min(maxStreams, max(listen.Connections()/2, 1))
	}
	var err error
	if s.src, err = source.New(b.catalog, b.docs(), so); err != nil {
		return nil, term.Usage(err, "")
	}
	cat := b.storage.db.Catalog
	if s.harvesting, err = openHarvesting(b.opts, configs, sets, cat, s.have); err != nil {
		return nil, err
	}
	s.scans = &scanner{sets: sets, status: cat.Status, failures: b.failures, watching: b.opts.Watching}
	done := &published{tally: b.tally, claim: b.storage.claim, place: b.opts.Documents, sets: sets, names: b.names, log: b.opts.Log}
	s.publish, s.urgent = done.after(s.src.Publish, true), done.after(s.src.PublishChanges, false)
	s.dumps = &publishing.Dumps{Check: publishing.CheckInterval(configs), Publish: s.src.PublishDumps, Sweep: b.storage.sweep}
	s.front = front{
		callbacks: b.sets.origins.Upstreams.Callbacks, pages: b.pages, hub: b.hub, hubPath: b.hubPath, harvesting: s.harvesting, api: b.api,
		have: s.have, documents: s.endStreams(s.src.Handler()), readers: s.readers,
	}
	if b.opts.exploreURI() != "" {
		s.front.exploreDir = strings.TrimSuffix(b.pages.Dir, admin.PagesDir) + exploreName + "/"
		s.front.explorer = b.explore(sets, configs)
	}
	return s, nil
}

// docs returns the store of the documents.
func (b *setupBuilder) docs() blob.Store {
	if b.opts.Gzip {
		return source.Compressed(b.storage.docs)
	}
	return b.storage.docs
}

// move has the catalog contain what it contained of sets under another base URL.
func (b *setupBuilder) move(ctx context.Context, sets []*siteSet) error {
	moved := make([]baseurl.Set, len(sets))
	for i, set := range sets {
		moved[i] = baseurl.Set{Name: set.name, List: set.list, Away: set.from.Kind.Away}
	}
	return baseurl.Move(ctx, b.storage.db.State.Notes, moved, b.storage.db.Catalog, b.storage.versions.Marked, b.opts.Log)
}

// endStreams returns h with event streams that end when another setup takes the place of
// this one, which will send no more events: clients connect again.
func (s *setup) endStreams(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.Contains(r.Header.Get("Accept"), "text/event-stream") {
			h.ServeHTTP(w, r)
			return
		}
		ctx, cancel := context.WithCancel(r.Context())
		defer cancel()
		go func() {
			select {
			case <-s.ended:
				cancel()
			case <-ctx.Done():
			}
		}()
		h.ServeHTTP(w, r.WithContext(ctx))
	})
}
