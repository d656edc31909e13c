// Package hubserver is a hub as lockstep runs it, on its own or inside a Source: its
// settings, its key and state, and what operators see of it.
package hubserver

import (
	"context"
	"net/http"
	"net/url"

	"lockstep/cmd/lockstep/internal/admin"
	"lockstep/cmd/lockstep/internal/term"
	"lockstep/hub"
	"lockstep/hub/hubstore"
)

// A Front is a hub and what is to be seen of it, on its own or within a
// Source.
type Front struct {
	*hub.Hub
	URL       string // as others reach it
	readiness *admin.Readiness
	memo      memo
}

// New returns a hub that keeps its memory in store.
func New(ctx context.Context, store hubstore.Store, o hub.Options) (*Front, error) {
	h, err := hub.New(store, o)
	if err != nil {
		return nil, term.Usage(err, "")
	}
	if err := h.CheckSecret(ctx); err != nil {
		return nil, term.WithHint(err, "give the file with the right key by --key-file, or restore it")
	}
	return &Front{Hub: h, URL: o.PublicURL, readiness: admin.NewReadiness(o.Logger, admin.Database(h.Check))}, nil
}

// AwaitReady waits until the hub takes requests, and reports whether it does.
func (f *Front) AwaitReady(ctx context.Context) bool {
	select {
	case <-f.Ready():
		return true
	case <-ctx.Done():
		return false
	}
}

// Publish passes a message on to the subscribers of a topic. It waits until the hub has
// loaded: a Source may have something to publish before.
func (f *Front) Publish(ctx context.Context, topic string, header http.Header, body []byte) error {
	f.AwaitReady(ctx) // if ctx ends first, Publish says so
	return f.Hub.Publish(ctx, topic, header, body)
}

// CheckReady says why the hub takes no requests: it is loading or stopping, or its
// database does not work.
func (f *Front) CheckReady() error { return f.readiness.Ready() }

// APIPath is where the hub is managed, below the pages of a process.
const APIPath = "api/v1/hub"

// Show adds what is to be seen of the hub to the pages of a process.
func (f *Front) Show(p *admin.Pages, a *admin.Access, m *admin.Metrics) {
	p.Protect("hub", f.StatusPage(p.Dir+APIPath, a.Curl))
	p.Mount(APIPath, f.API())
	m.Register(f.figures)
}

// About returns the pages of a hub that runs on its own.
func (f *Front) About(a *admin.Access, m *admin.Metrics) *admin.Pages {
	p := admin.NewPages("/", a.Guard, m, f.CheckReady)
	f.Show(p, a, m)
	return p
}

// Alone serves the hub where there is nothing else. Behind a proxy it may be
// asked by the path of its own address, or by the root: all mean the hub.
func (f *Front) Alone(about *admin.Pages) http.Handler {
	own := "/"
	if u, err := url.Parse(f.URL); err == nil && u.EscapedPath() != "" {
		own = u.EscapedPath()
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch path := r.URL.EscapedPath(); {
		case about.Serve(w, r):
		case path == "/", path == "/"+Path, path == own:
			f.ServeHTTP(w, r)
		default:
			w.Header().Set("X-Content-Type-Options", "nosniff")
			http.Error(w, "there is nothing here; the hub is at "+f.URL, http.StatusNotFound)
		}
	})
}

// Path is where the hub embedded in a Source is, below the base URL.
const Path = "hub"

// figures are what monitors learn of the hub.
func (f *Front) figures(out *admin.Figures) {
	ready := 0.0
	if f.CheckReady() == nil {
		ready = 1
	}
	out.Gauge("lockstep_hub_ready", "1 when the hub takes requests.", ready)
	select {
	case <-f.Ready():
	default:
		return // what was loaded so far would be taken for all there is
	}
	s := f.Stats()
	out.Gauge("lockstep_hub_topics", "Topics that were published or subscribed to.", float64(s.Topics))
	const states = "Subscriptions by what they do: idle have everything, queued and sending are about to get more, waiting failed and are tried again."
	for _, state := range []struct {
		name string
		n    int
	}{{"idle", s.Idle}, {"queued", s.Queued}, {"sending", s.Sending}, {"waiting", s.Waiting}} {
		out.Gauge("lockstep_hub_subscriptions", states, float64(state.n), "state", state.name)
	}
	out.Gauge("lockstep_hub_subscriptions_behind", "Subscriptions that lack messages.", float64(s.Behind))
	out.Gauge("lockstep_hub_requests_pending", "Requests for subscriptions, or their ends, that wait to be verified.", float64(s.Requests))
	out.Gauge("lockstep_hub_lag_messages_max", "The most messages one subscription lacks.", float64(s.LagMax))
	out.Gauge("lockstep_hub_log_bytes", "Bytes of messages that are kept.", float64(s.Kept))
	out.Counter("lockstep_hub_messages_accepted_total", "Messages accepted.", float64(s.Accepted))
	out.Counter("lockstep_hub_message_bytes_accepted_total", "Bytes of messages accepted.", float64(s.AcceptedBytes))
	out.Counter("lockstep_hub_deliveries_total", "Messages that a subscriber took.", float64(s.Delivered))
	out.Counter("lockstep_hub_delivery_bytes_total", "Bytes of those.", float64(s.DeliveredBytes))
	out.Counter("lockstep_hub_delivery_failures_total", "Attempts to deliver that failed.", float64(s.Failed))
	out.Counter("lockstep_hub_deliveries_given_up_total", "Messages that a subscriber did not get in time.", float64(s.GivenUp))
	const verified = "Requests that were verified, by whether the subscriber said it meant them."
	out.Counter("lockstep_hub_verifications_total", verified, float64(s.Verified), "meant", "true")
	out.Counter("lockstep_hub_verifications_total", verified, float64(s.Unverified), "meant", "false")
	out.Counter("lockstep_hub_requests_refused_total", "Requests answered with 4xx or 5xx.", float64(s.Refused))
	out.Counter("lockstep_hub_requests_limited_total", "Of them, those answered 429: there were too many.", float64(s.Limited))
	out.Counter("lockstep_hub_pings_total", "Topics that publishers reported as changed.", float64(s.Pings))
	const fetches = "Topics that were fetched then, by result."
	out.Counter("lockstep_hub_topic_fetches_total", fetches, float64(s.Fetched), "result", "news")
	out.Counter("lockstep_hub_topic_fetches_total", fetches, float64(s.Unchanged), "result", "unchanged")
	out.Counter("lockstep_hub_topic_fetches_total", fetches, float64(s.Unfetched), "result", "failed")
	const ended = "Subscriptions that ended: by 410 from the endpoint, because the lease was over, or by the operator of the hub."
	out.Counter("lockstep_hub_subscriptions_ended_total", ended, float64(s.Ended), "by", "endpoint")
	out.Counter("lockstep_hub_subscriptions_ended_total", ended, float64(s.Expired), "by", "lease")
	out.Counter("lockstep_hub_subscriptions_ended_total", ended, float64(s.Denied), "by", "hub")
	upTo := make(map[float64]uint64, len(s.Latency.UpTo))
	for bound, n := range s.Latency.UpTo {
		upTo[bound.Seconds()] = uint64(n)
	}
	out.Histogram("lockstep_hub_delivery_seconds", "How long deliveries took that were taken.", uint64(s.Latency.Count), s.Latency.Sum.Seconds(), upTo)
}
