package site

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"lockstep/cmd/lockstep/internal/config"
	"lockstep/cmd/lockstep/internal/listen"
	"lockstep/cmd/lockstep/internal/overlap"
	"lockstep/cmd/lockstep/internal/readers"
	"lockstep/cmd/lockstep/internal/sourcereport"
	"lockstep/cmd/lockstep/internal/term"
	"lockstep/hub"
	"lockstep/internal/reader"
	"lockstep/internal/sleep"
	"lockstep/internal/statedir"
	"lockstep/internal/trust"
	"lockstep/source"
	"lockstep/websub"
)

// readerLease is how long a subscription to the topic of a private set lasts at most: so
// long, readers get notifications whose credential is no longer accepted.
const readerLease = time.Hour

// checkReaders rejects readers that cannot be read, and private sets that could not be
// kept private: files cannot ask for a credential, and hubs elsewhere pass notifications on to
// any subscriber.
func (o *Options) checkReaders() error {
	for i := range o.Sets {
		c := &o.Sets[i]
		if !c.Private() {
			continue
		}
		if !o.Content {
			return term.Usage(fmt.Errorf("set %s: readers: static files cannot ask for a credential", c.Label(i)),
				"use lockstep serve; or leave readers out, and have the web server protect the documents and the resources of the set")
		}
		if _, err := readers.Open(c.Readers); err != nil {
			return term.Usage(fmt.Errorf("set %s: %w", c.Label(i), err), term.HintOf(err))
		}
		if hubs := o.Hubs.Elsewhere(); len(hubs) > 0 && !c.NotifyHubs {
			return term.Usage(fmt.Errorf("set %s: readers: the hub %s would pass the changes of this set on to anyone who subscribes there", c.Label(i), hubs[0]),
				"notify only the hub of this process, with hub: embedded; or accept that, with notify_hubs: true in the set")
		}
	}
	return nil
}

// openReaders opens what is known of readers beside the configuration of the sets.
func (b *setupBuilder) openReaders() (err error) {
	var proxies []netip.Prefix
	if e := b.opts.Embedding; e != nil {
		if proxies, err = e.Hub.Proxies(); err != nil {
			return err
		}
	}
	b.logins = readers.NewLogins(proxies, b.opts.Log)
	b.former, err = readers.OpenFormer(b.storage.db.State.Notes)
	return err
}

// have reports whether a resource is at the path rel that the client of a request may see.
func (s *setup) have(r *http.Request, rel string) bool {
	for _, set := range s.sets {
		if s.readers.Guards(set.name) && !reader.Of(r.Context()).Opens(set.name) {
			continue
		}
		if (resourceFiles{set}).have(rel) {
			return true
		}
	}
	return false
}

// maySubscribe decides whether a request may subscribe to a topic at the embedded hub, and
// for how long at most. A browser sends the credential of a reader with a form of any page:
// such requests may not subscribe to private topics.
func (s *Site) maySubscribe(r *http.Request, topic string) (time.Duration, error) {
	now := s.setup.Load()
	if now == nil || !now.readers.Any() {
		return 0, nil
	}
	topic = websub.Canonical(topic)
	if base, err := source.BaseURL(s.about.BaseURL); err == nil && !strings.HasPrefix(topic, websub.Canonical(base)) { // it was checked
		return 0, nil // not one of this Source
	}
	g := reader.Of(r.Context())
	for _, set := range now.sets {
		uri, err := source.TopicURI(s.about.BaseURL, set.name)
		if err != nil || websub.Canonical(uri) != topic {
			continue
		}
		switch {
		case !now.readers.Guards(set.name):
			return 0, nil
		case g.Opens(set.name):
			if err := trust.CheckOrigin(r); err != nil {
				return 0, &hub.Refusal{Status: http.StatusForbidden, Text: err.Error()}
			}
			return readerLease, nil
		}
	}
	return 0, &hub.Refusal{
		Status: g.Refuse(http.Header{}), Text: "this topic, if there is one, takes subscriptions of clients that show a credential of its readers", After: g.After, Challenges: reader.Challenges(),
	}
}

// endRetry is how soon it is tried again to end subscriptions.
const endRetry = 10 * time.Second

// endStrangers ends the subscriptions to the topics of sets that have become private, before
// anything is sent to them, and records which sets are private. It returns once that is done, or ctx
// ends.
func (s *Site) endStrangers(ctx context.Context, now *setup, n *sourcereport.Reporter) {
	for {
		err := s.endOnce(ctx, now)
		if err == nil || ctx.Err() != nil {
			return
		}
		n.Warn(fmt.Errorf("no hub is notified for now: %w", err))
		if sleep.For(ctx, endRetry) != nil {
			return
		}
	}
}

func (s *Site) endOnce(ctx context.Context, now *setup) error {
	private, former := now.private(), s.builder.former
	fresh := former.New(private)
	if len(fresh) > 0 && s.hub == nil {
		// There may be a hub again later: the sets remain new.
		return former.Record(slices.DeleteFunc(private, func(set string) bool { return slices.Contains(fresh, set) }))
	}
	if len(fresh) > 0 && !s.hub.AwaitReady(ctx) {
		return context.Cause(ctx)
	}
	for _, set := range fresh {
		topic, err := source.TopicURI(s.about.BaseURL, set)
		if err == nil {
			err = s.hub.EndSubscriptions(ctx, topic, "the topic is for readers now: subscribe with a credential")
		}
		if err != nil {
			return fmt.Errorf("set %s: %w", set, err)
		}
	}
	return former.Record(private)
}

// private returns the names of the private sets.
func (s *setup) private() (names []string) {
	for _, set := range s.sets {
		if s.readers.Guards(set.name) {
			names = append(names, set.name)
		}
	}
	return names
}

// keepFormer records that there are private sets, if there are, before one is served.
func (s *setup) keepFormer(f *readers.Former) error {
	if !s.readers.Any() {
		return nil
	}
	return f.Keep()
}

// WarnOfAccess warns of what makes private sets less private than their operator may think.
func (s *Site) WarnOfAccess(ctx context.Context, n *sourcereport.Reporter) {
	now, o := s.setup.Load(), s.builder.opts
	private := now.private()
	if len(private) == 0 {
		return
	}
	names := "set " + strings.Join(private, ", ")
	if u, err := url.Parse(s.about.BaseURL); err == nil && u.Scheme == "http" && !listen.IsLoopback(u.Hostname()) {
		n.Warn(term.WithHint(fmt.Errorf("%s: the credentials of readers can be read on the way, because the base URL begins with http://", names),
			"speak TLS, with --tls-cert and --tls-key or a web server in front, and use a base URL with https://"))
	}
	if o.Documents != filepath.Join(o.State.Dir, statedir.DocumentsDir) {
		n.Warn(term.WithHint(fmt.Errorf("%s: its documents are also in %s", names, o.Documents), "make sure that no web server serves them from there, and that others cannot read them"))
	}
	for i, set := range now.sets {
		if !now.readers.Guards(set.name) || set.source.Elsewhere {
			continue
		}
		for _, other := range now.sets {
			if now.readers.Guards(other.name) {
				continue
			}
			uri, err := publishedIn(ctx, s, other, set, &now.configs[i])
			if err != nil {
				s.log.WarnContext(ctx, "cannot compare a private set with public ones", slog.String("set", set.name), slog.Any("err", err))
			}
			if uri != "" {
				n.Warn(term.WithHint(fmt.Errorf("set %s publishes %s to everyone, among the resources of the private set %s", other.name, uri, set.name),
					"leave them out of the set "+other.name+", as with exclude"))
			}
		}
	}
}

// publishedIn returns the URI of a resource of a public set that is where the resources of a
// private one are; "" if there is none.
func publishedIn(ctx context.Context, s *Site, public, private *siteSet, c *config.Set) (uri string, err error) {
	place := siteSet{name: private.name, from: private.from}
	prefix, err := place.locate(c, s.about.BaseURL)
	if err != nil {
		return "", err
	}
	if public.source.Path != private.source.Path && strings.HasPrefix(public.source.Path, private.source.Path) {
		return "", nil // a public part of a private whole is meant
	}
	return overlap.First(ctx, s.builder.catalog, public.list, prefix)
}

// WarnOfOverlaps warns of sets that publish different files at one address.
func (s *Site) WarnOfOverlaps(ctx context.Context, n *sourcereport.Reporter) {
	var sets []overlap.Set
	for _, set := range s.setup.Load().sets {
		sets = append(sets, overlap.Set{Name: set.name, List: set.list, URI: set.uri, Dir: set.from.Dir()})
	}
	overlap.Report(ctx, s.builder.catalog, sets, n.Warn)
}
