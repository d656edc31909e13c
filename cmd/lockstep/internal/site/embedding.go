package site

import (
	"context"
	"net/http"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"lockstep/aggregator"
	"lockstep/cmd/lockstep/internal/accesslog"
	"lockstep/cmd/lockstep/internal/admin"
	"lockstep/cmd/lockstep/internal/certificate"
	"lockstep/cmd/lockstep/internal/dashboard"
	"lockstep/cmd/lockstep/internal/hubserver"
	"lockstep/cmd/lockstep/internal/recent"
	"lockstep/cmd/lockstep/internal/sourcefigures"
	"lockstep/cmd/lockstep/internal/stateplace"
	"lockstep/cmd/lockstep/internal/term"
	"lockstep/cmd/lockstep/internal/upstreams"
	"lockstep/cmd/lockstep/internal/versions"
	"lockstep/internal/fetch"
	"lockstep/source"
)

// An Embedding says what a Source serves besides its documents and resources.
type Embedding struct {
	Hub    hubserver.Settings
	Admin  admin.Flags
	Access accesslog.Flags
	TLS    *certificate.Pair // of all listeners over TCP; nil: they do not speak TLS
}

// certificate returns that of all listeners over TCP; nil if they do not speak TLS.
func (e *Embedding) certificate() *certificate.Pair {
	if e == nil {
		return nil
	}
	return e.TLS
}

// openAccessLog opens the log of requests.
func openAccessLog(o *Options) (*accesslog.Log, error) {
	base, err := parseBase(o.BaseURL)
	if err != nil {
		return nil, err
	}
	kind := KindOf(base.EscapedPath())
	if o.Embedding == nil {
		return accesslog.New(kind), nil
	}
	proxies, err := o.Embedding.Hub.Proxies()
	if err != nil {
		return nil, err
	}
	return o.Embedding.Access.Open(kind, proxies, o.IO)
}

// openHub opens the hub embedded in the Source, if it is to have one. The hub's store is
// in the database of the catalog; maySubscribe decides who may subscribe to which topic.
func openHub(ctx context.Context, opts *Options, db *stateplace.Database, maySubscribe func(*http.Request, string) (time.Duration, error)) (*hubserver.Front, error) {
	e := opts.Embedding
	if e == nil || !opts.hasEmbeddedHub() || opts.isStandby() {
		return nil, nil
	}
	base, err := source.BaseURL(opts.BaseURL)
	if err != nil {
		return nil, term.Usage(err, "")
	}
	o, err := e.Hub.Options(base + hubserver.Path)
	if err != nil {
		return nil, err
	}
	o.OwnTopics = []string{base} // the Source publishes them from here
	o.MaySubscribe = maySubscribe
	if file := e.Hub.PublishTokenFile; file != "" {
		tokens, err := hubserver.OpenPublishTokens("hub-publish-token-file", file, "", opts.Log)
		if err != nil {
			return nil, err
		}
		o.CurrentPublishTokens = tokens.Current
	}
	if o.Secret, err = hubKey(ctx, opts, db); err != nil {
		return nil, err
	}
	o.Logger = opts.Log
	return hubserver.New(ctx, db.Hub, o)
}

// hubKey returns the key that seals the secrets in the store of the hub.
func hubKey(ctx context.Context, opts *Options, db *stateplace.Database) ([]byte, error) {
	switch file := opts.Embedding.Hub.KeyFile; {
	case file != "":
		return hubserver.LoadKey(ctx, file, db.Hub, opts.Log)
	case opts.State.InDatabase():
		return hubserver.LoadNotedKey(ctx, db.State.Notes, db.Hub)
	}
	return hubserver.LoadKey(ctx, filepath.Join(opts.State.Dir, hubserver.KeyName), db.Hub, opts.Log)
}

// openAdmin listens for administration, if the Source is to have any.
func openAdmin(ctx context.Context, o *Options) (*admin.Access, error) {
	if o.Embedding == nil {
		return nil, nil
	}
	return o.Embedding.Admin.Open(ctx, o.State.Dir, true, o.Embedding.TLS, o.IO)
}

// monitored is the parts of a site that monitors see.
type monitored struct {
	tally    *sourcefigures.Tally
	failures *sourcefigures.Origins
	versions *versions.Upkeep
	channels func() []source.ChannelStatus
	hub      *hubserver.Front // nil: none
	requests *accesslog.Log
	isPublic func(set string) bool
	standby  bool // another process publishes

	upstreams func(now time.Time) (upstreams.Process, []upstreams.Row)
}

// publishing says whether this process publishes.
func (seen *monitored) publishing(out *admin.Figures) {
	publishes := 1.0
	if seen.standby {
		publishes = 0
	}
	out.Gauge("lockstep_source_publishes", "1 if this process publishes, 0 if it is a standby.", publishes)
}

// newPages returns the pages about the Source.
func newPages(base *url.URL, access *admin.Access, ready func() error, seen *monitored) *admin.Pages {
	m := access.Metrics()
	m.Register(seen.tally.Figures)
	m.Register(seen.failures.Figures)
	m.Register(func(out *admin.Figures) { channelFigures(out, seen.channels()) })
	m.Register(seen.versions.Figures)
	m.Register(seen.requests.Figures)
	m.Register(func(out *admin.Figures) {
		if _, rows := seen.upstreams(time.Now()); len(rows) > 0 { // a Source that is no Aggregator has none
			upstreams.Figures(out, rows)
		}
	})
	m.Register(seen.publishing)
	pages := admin.NewPages(base.EscapedPath(), access.Guard, m, ready)
	pages.Detail = func() string { return seen.failures.DetailOf(seen.isPublic) }
	pages.Protect(upstreams.Path, upstreams.Handler(seen.upstreams))
	if seen.hub != nil {
		seen.hub.Show(pages, access, m)
	}
	return pages
}

// newDashboard returns the dashboard of the Source. problem returns what is wrong with it
// besides its sets; "" for nothing.
func newDashboard(state string, seen *monitored, problem func() string) *dashboard.Dashboard {
	o := dashboard.Options{Name: "serve", State: state, Process: seen.upstreams, Problem: problem, Activities: []dashboard.Activity{
		{Counter: recent.Counter{Name: "requests", Total: seen.requests.Total}, Title: "Requests", Unit: "requests", Latency: "time to answer"},
		{Counter: recent.Counter{Name: "changes", Total: seen.tally.Changes}, Title: "Changes", Unit: "changes published", Latency: "time to publish"},
	}}
	if seen.hub != nil {
		o.Hub = seen.hub.Seen()
		o.Activities = append(o.Activities, seen.hub.Activities()...)
	}
	return dashboard.New(o)
}

// upstreams returns what is known of the upstreams.
func (s *Site) upstreams(now time.Time) (upstreams.Process, []upstreams.Row) {
	setup := s.setup.Load()
	names := make(map[string]string, len(setup.sets))
	for _, set := range setup.sets {
		names[set.list] = set.name
	}
	setOf := func(list string) (string, bool) {
		name, ok := names[list]
		return name, ok
	}
	p := upstreams.Process{Kind: upstreams.Serve, BaseURL: s.about.BaseURL, Sets: len(setup.sets), Published: s.builder.tally.Last()}
	channels := setup.src.Channels()
	for _, set := range setup.sets {
		if row := s.setRow(set, channels, now); !set.isUpstream() || row.Error != "" {
			p.Origins = append(p.Origins, row)
		}
	}
	if o := s.builder.opts; o.isStandby() {
		p.Standby = o.Shared.Publisher()
		return p, nil // it follows them
	}
	return p, upstreams.FromFleet(s.builder.sets.origins.Upstreams.Fleet.Statuses(), setOf, now)
}

// ownProblem returns what is wrong with the Source besides its sets; "" for nothing.
func (s *Site) ownProblem() string {
	if err := s.ready(); err != nil {
		return err.Error()
	}
	return s.builder.tally.Problem()
}

// problem returns what is wrong with the Source, "" if all is well.
func (s *Site) problem() string {
	if err := s.ready(); err != nil {
		return admin.WithCause(err)
	}
	_, rows := s.upstreams(time.Now())
	byUpstream := func(set string) bool { // has a line for each of its upstreams that fails
		return slices.ContainsFunc(rows, func(r upstreams.Row) bool { return r.Set == set && r.State == aggregator.StateFailing })
	}
	return s.builder.failures.ProblemOf(func(set string) bool { return !byUpstream(set) }) + upstreams.Failures(rows) + s.builder.tally.Problem() +
		hubFailures(s.setup.Load().src.Channels())
}

// hubFailures returns a line for each hub that cannot be notified, "" if all can.
func hubFailures(channels []source.ChannelStatus) string {
	var b strings.Builder
	for i := range channels {
		for _, hub := range channels[i].Hubs {
			if hub.Err != nil {
				b.WriteString("set " + channels[i].Set + ": " + hubFailure(&hub) + "\n")
			}
		}
	}
	return b.String()
}

func hubFailure(hub *source.HubStatus) string {
	return "notify the hub " + hub.URL + ": " + hub.Err.Error()
}

// setRow returns what is known of the origin of a set, and of the hubs that are notified of
// its changes; of a set that is filled by upstreams, which have rows, only of the hubs.
func (s *Site) setRow(set *siteSet, channels []source.ChannelStatus, now time.Time) upstreams.Row {
	o := s.builder.failures.State(set.name)
	if set.isUpstream() {
		o = sourcefigures.OriginState{Read: s.builder.tally.Last()}
	}
	r := upstreams.Row{
		Name: set.name, Set: set.name, URL: fetch.WithoutUser(set.from.String()), State: upstreams.StatePublished, LastAttempt: o.Read, LastSuccess: o.Read,
		Age: upstreams.AgeOf(o.Read, now), Error: upstreams.Sentence(o.Error), Hint: upstreams.Sentence(o.Hint), Since: o.Since, Resources: s.builder.tally.Resources(set.name),
	}
	if o.Error != "" {
		r.State = aggregator.StateFailing
	}
	for i := range channels {
		if channels[i].Set != set.name {
			continue
		}
		for _, hub := range channels[i].Hubs {
			r.Pending = max(r.Pending, hub.Behind)
			if hub.Err != nil && r.Error == "" {
				r.Error, r.Hint = upstreams.Sentence(hubFailure(&hub)), upstreams.Sentence(term.HintOf(hub.Err))
			}
		}
	}
	return r
}

// channelFigures writes the metrics of the notifications of a Source.
func channelFigures(out *admin.Figures, channels []source.ChannelStatus) {
	for _, c := range channels {
		out.Gauge("lockstep_source_event_streams", "Streams of events that are open.", float64(c.Streams), "set", c.Set)
		for _, h := range c.Hubs {
			labels := []string{"set", c.Set, "hub", h.URL}
			out.Gauge("lockstep_source_hub_behind", "Published changes that the hub has not been notified of yet.", float64(h.Behind), labels...)
			out.Counter("lockstep_source_hub_notifications_total", "Notifications a hub accepted.", float64(h.Accepted), labels...)
			out.Counter("lockstep_source_notifications_refused_total", "Notifications a hub refused for good: their changes are a gap.", float64(h.Refused), labels...)
			out.Counter("lockstep_source_notification_failures_total", "Attempts to notify a hub that are repeated.", float64(h.Failures), labels...)
		}
	}
}
