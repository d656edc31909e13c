package destination_test

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"lockstep/destination"
	"lockstep/websub"
)

// A press makes notifications of the changes at a site and sends them to its
// subscribers: as a hub, and as a stream of events.
type press struct {
	*site
	srv      *httptest.Server // the hub
	until    time.Time        // of the last notification
	notified int              // events of the log that notifications contain

	verifying sync.RWMutex // held while a subscription is verified and recorded

	pmu     sync.Mutex // guards what follows
	subs    map[string]subscriber
	deny    string
	refuse  string        // answered with 403
	slow    time.Duration // before it verifies
	lease   int           // seconds; default an hour
	asked   int
	ended   int      // unsubscribed
	events  []string // payloads, the i-th has ID i+1
	lastIDs []string // that streams asked to resume after
	open    map[chan string]bool
}

type subscriber struct{ topic, secret string }

// newPress returns a press for a site that offers a hub, a stream of events, or both.
func newPress(t testing.TB, s *site, hub, events bool) *press {
	p := &press{site: s, subs: map[string]subscriber{}, open: map[chan string]bool{}}
	p.srv = httptest.NewServer(http.HandlerFunc(p.serveHub))
	t.Cleanup(p.srv.Close)
	p.until = s.from
	if hub {
		s.offer += fmt.Sprintf(`<url><loc>%s</loc><rs:ln rel="hub" href="%s"/><rs:md capability="change-notification"/></url>`, p.topic(), p.srv.URL)
	}
	if events {
		s.head += fmt.Sprintf(`<rs:ln rel="urn:x-lockstep:events" href="%s"/>`, p.topic())
	}
	s.setFault(func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path != "/rs/changes" {
			return false
		}
		if r.Header.Get("Accept") == "text/event-stream" && events {
			p.stream(w, r)
			return true
		}
		w.WriteHeader(http.StatusNoContent) // RN-CH-11
		return true
	})
	t.Cleanup(p.hangUp)
	return p
}

func (p *press) topic() string { return p.url("/rs/changes") }

func (p *press) serveHub(w http.ResponseWriter, r *http.Request) {
	_ = r.ParseForm()
	form := r.PostForm
	p.pmu.Lock()
	p.asked++
	deny, refuse := p.deny, p.refuse
	p.pmu.Unlock()
	if refuse != "" {
		http.Error(w, refuse, http.StatusForbidden)
		return
	}
	w.WriteHeader(http.StatusAccepted)
	go func() {
		time.Sleep(p.slow)
		callback := form.Get("hub.callback")
		if deny != "" {
			get(websub.VerificationURL(callback, url.Values{"hub.mode": {"denied"}, "hub.topic": {form.Get("hub.topic")}, "hub.reason": {deny}}))
			return
		}
		q := url.Values{"hub.mode": {form.Get("hub.mode")}, "hub.topic": {form.Get("hub.topic")}, "hub.challenge": {"ch4llenge-of-some-length"}}
		if form.Get("hub.mode") == "subscribe" {
			q.Set("hub.lease_seconds", fmt.Sprint(cmp.Or(p.lease, 3600)))
		}
		p.verifying.Lock() // once it is verified, deliveries reach the subscriber
		defer p.verifying.Unlock()
		if get(websub.VerificationURL(callback, q)) != "ch4llenge-of-some-length" {
			return
		}
		p.pmu.Lock()
		defer p.pmu.Unlock()
		if form.Get("hub.mode") == "subscribe" {
			p.subs[callback] = subscriber{form.Get("hub.topic"), form.Get("hub.secret")}
		} else {
			p.ended++
			delete(p.subs, callback)
		}
	}()
}

func get(uri string) string {
	resp, err := http.Get(uri)
	if err != nil {
		return ""
	}
	defer resp.Body.Close()
	b, _ := io.ReadAll(resp.Body)
	return string(b)
}

// payload returns a notification of all that happened since the last.
func (p *press) payload() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.site.tick()
	log := p.log[min(p.notified, len(p.log)):]
	from := p.until
	p.notified, p.until = len(p.log), p.site.now
	return p.notification(from, p.until, p.changesBody(log))
}

func (p *press) notification(from, until time.Time, body string) string {
	return doc("urlset", fmt.Sprintf(`<rs:ln rel="up" href="%s"/><rs:md capability="change-notification" from="%s" until="%s"/>`,
		p.url("/rs/capabilitylist.xml"), p.time(from), p.time(until)), body)
}

// deliver sends a payload to all subscribers, and returns the last status.
func (p *press) deliver(payload string) (status int) { return p.deliverSigned(payload, "") }

// deliverSigned does so with the given signature: "-" is none.
func (p *press) deliverSigned(payload, signature string) (status int) {
	p.verifying.RLock()
	p.pmu.Lock()
	subs := maps.Clone(p.subs)
	p.pmu.Unlock()
	p.verifying.RUnlock()
	for callback, sub := range subs {
		r, _ := http.NewRequest(http.MethodPost, callback, strings.NewReader(payload))
		r.Header.Set("Content-Type", "application/xml")
		r.Header.Set("Link", websub.LinkHeader(sub.topic, []string{p.srv.URL}))
		sig := signature
		if sig == "" && sub.secret != "" {
			sig, _ = websub.Sign("sha256", []byte(sub.secret), []byte(payload))
		}
		if sig != "-" && sig != "" {
			r.Header.Set("X-Hub-Signature", sig)
		}
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			return 0
		}
		_ = resp.Body.Close()
		status = resp.StatusCode
	}
	return status
}

// notify sends a notification of the changes since the last one to all subscribers
// and streams.
func (p *press) notify() int {
	payload := p.payload()
	p.push(payload)
	return p.deliver(payload)
}

// push sends a payload to the streams.
func (p *press) push(payload string) {
	p.pmu.Lock()
	defer p.pmu.Unlock()
	p.events = append(p.events, payload)
	for c := range p.open {
		select {
		case c <- "":
		default:
		}
	}
}

// hangUp ends all streams.
func (p *press) hangUp() {
	p.pmu.Lock()
	defer p.pmu.Unlock()
	for c := range p.open {
		close(c)
		delete(p.open, c)
	}
}

func (p *press) stream(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/event-stream")
	more := make(chan string, 1)
	p.pmu.Lock()
	p.open[more] = true
	next := len(p.events)
	last := r.Header.Get("Last-Event-ID")
	p.lastIDs = append(p.lastIDs, last)
	if last != "" {
		fmt.Sscan(last, &next)
	}
	p.pmu.Unlock()
	fmt.Fprintf(w, ": welcome\n\nevent: hello\nid: %d\ndata:\n\n", next)
	flush := http.NewResponseController(w).Flush
	for {
		p.pmu.Lock()
		events := slices.Clone(p.events)
		p.pmu.Unlock()
		for ; next < len(events); next++ {
			fmt.Fprintf(w, "event: notification\nid: %d\ndata: %s\n\n", next+1, strings.ReplaceAll(events[next], "\n", "\ndata: "))
		}
		if flush() != nil {
			return
		}
		select {
		case _, ok := <-more:
			if !ok {
				return
			}
		case <-r.Context().Done():
			p.pmu.Lock()
			delete(p.open, more)
			p.pmu.Unlock()
			return
		}
	}
}

func (p *press) subscribers() int {
	p.pmu.Lock()
	defer p.pmu.Unlock()
	return len(p.subs)
}

// A following is a running Follower.
type following struct {
	*mirror
	f       *destination.Follower
	srv     *httptest.Server
	stop    context.CancelFunc
	ended   chan error
	handler *swapHandler
	turn    time.Duration // of one set, while others wait
	backlog int           // notifications that wait at most; default: that of the Follower

	rmu     sync.Mutex // guards reports
	reports []destination.Report
}

// A swapHandler is where hubs reach whatever Follower runs.
type swapHandler struct {
	mu sync.Mutex
	h  http.Handler
}

func (s *swapHandler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	h := s.h
	s.mu.Unlock()
	if h == nil {
		http.Error(w, "down", http.StatusBadGateway)
		return
	}
	h.ServeHTTP(w, r)
}

func (s *swapHandler) set(h http.Handler) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.h = h
}

func newFollowing(t testing.TB, s *site, callback bool) *following {
	g := &following{mirror: newMirror(t, s), handler: &swapHandler{}}
	if callback {
		g.srv = httptest.NewServer(g.handler)
		t.Cleanup(g.srv.Close)
	}
	return g
}

// start runs a Follower with short pauses.
func (g *following) start(o destination.FollowOptions) {
	g.t.Helper()
	if g.srv != nil && o.Callback == "" {
		o.Callback = g.srv.URL + "/cb"
	}
	if o.Pause == 0 {
		o.Pause = 20 * time.Millisecond
	}
	if o.Poll == 0 {
		o.Poll = time.Hour
	}
	o.OnSync = func(r destination.Report, err error) {
		g.rmu.Lock()
		defer g.rmu.Unlock()
		g.reports = append(g.reports, r)
	}
	f, err := g.destination().Follow(g.address(), o)
	if err != nil {
		g.t.Fatal(err)
	}
	g.f = f
	if g.turn > 0 {
		f.SetTurn(g.turn)
	}
	if g.backlog > 0 {
		f.SetBacklog(g.backlog, 1<<20, time.Hour)
	}
	g.handler.set(f.Handler())
	ctx, stop := context.WithCancel(context.Background())
	g.stop, g.ended = stop, make(chan error, 1)
	go func() { g.ended <- f.Run(ctx) }()
	g.t.Cleanup(stop)
}

// end stops the Follower.
func (g *following) end() {
	g.t.Helper()
	g.stop()
	select {
	case err := <-g.ended:
		if err != nil {
			g.t.Errorf("Run = %v, want nil when its context ended", err)
		}
	case <-time.After(time.Minute):
		g.t.Fatal("Run did not return")
	}
	g.handler.set(nil)
}

// status returns the status of the only set.
func (g *following) status() destination.SetStatus {
	if sets := g.f.Status().Sets; len(sets) > 0 {
		return sets[0]
	}
	return destination.SetStatus{}
}

// live waits until the set is in step and notifications come by channel.
func (g *following) live(channel string) {
	g.t.Helper()
	eventually(g.t, func() bool {
		st := g.status()
		return g.f.Status().Synced && st.Channel == channel && st.Pulls > 0
	})
}

// has reports whether the mirror has the content.
func (g *following) has(path, content string) bool {
	r, err := g.store.Open(context.Background(), strings.TrimPrefix(path, "/"))
	if err != nil {
		return content == ""
	}
	defer r.Close()
	var b bytes.Buffer
	_, _ = b.ReadFrom(r)
	return content != "" && b.String() == content
}

// becomes waits until the mirror has the content.
func (g *following) becomes(path, content string) {
	g.t.Helper()
	for end := time.Now().Add(time.Minute); !g.has(path, content); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			g.t.Fatalf("%s never became %q: %+v", path, content, g.f.Status())
		}
	}
}
