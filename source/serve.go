package source

import (
	"net/http"

	"lockstep/source/internal/notify"
	"lockstep/source/internal/serve"
	"lockstep/source/internal/server"
)

// Handler returns what serves the Source below its base URL:
//
//   - documents, with entity tags, ranges, and compressed for those who ask;
//   - resources, if there is Options.Content or Set.Serve, always as they are
//     (RS-HASH-07);
//   - at the topic of each set what hubs were notified of last, and notifications as
//     a stream of events, if there is Options.Streams;
//   - versions of resources, their TimeGates and TimeMaps, if there is
//     Set.Versions;
//   - a home page at the base URL, robots.txt and /-/healthz.
//
// Of private sets it answers requests that [WithReader] marks, and no others.
//
// Only GET and HEAD are allowed. It must see requests as they were sent: do
// not put it behind an [http.ServeMux] pattern that cleans paths.
func (s *Source) Handler() http.Handler {
	o := serve.Options{
		Docs: s.docs, Catalog: s.catalog, Channels: s.channels, Packages: s.newDemand(), Pages: s.newPages(),
		Content: s.opts.Content, Type: s.opts.Type, OnlySets: s.opts.OnlySets, Description: s.description.For, Current: s.description.Current,
	}
	if s.opts.Streams > 0 {
		o.Streams = s.channels.NewStreams(notify.StreamOptions{Max: s.opts.Streams, WriteTimeout: server.WriteTimeout, Ending: server.Ending})
	}
	for i := range s.opts.Sets {
		set := &s.opts.Sets[i]
		o.Sets = append(o.Sets, serve.Set{
			Name: set.Name, Path: set.Path, Elsewhere: set.Elsewhere, Rules: s.rules[set.Name], Stream: set.Serve, Versions: set.Versions.kept(), Bitstream: set.Bitstream, Hold: set.Hold,
			Private: set.Private, Sandbox: set.Sandbox, Content: set.Content, Store: set.Versions.store(),
		})
	}
	o.Versions = s.versionHandler(func(uri string) string { return serve.VersionPolicy(s.docs.Base, o.Sets, uri) })
	return serve.New(o)
}
