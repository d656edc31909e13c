package aggregator_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"time"

	"lockstep/aggregator"
	"lockstep/blob"
	"lockstep/blob/faultfs"
	"lockstep/catalog"
	"lockstep/destination"
	"lockstep/destination/journal"
	"lockstep/destination/journaltest"
	"lockstep/intake"
	"lockstep/internal/fetch"
	"lockstep/internal/historytest"
	"lockstep/source"
)

// A node is the origin or an Aggregator: what is on its disk, and its process.
type node struct {
	h       *history
	id      int
	level   int
	base    string
	set     string
	feeds   []*feed
	alone   bool // it has a set of its own for the one that it follows
	apart   bool // those that it follows have directories of their own
	inPlace bool // it republishes descriptions only
	onDisk  bool // its catalog and its Journals are databases in files

	disk    sync.RWMutex // held while the catalog is closed and opened
	catalog catalog.Catalog
	docs    *blob.Mem
	opened  []io.Closer
	faults  *faultfs.Faults
	source  source.Options

	follower follower
	process  *source.Source
	clients  []*fetch.Client

	mu      sync.Mutex   // guards what follows
	handler http.Handler // nil: it is down
	calls   []http.Handler
	trouble *historytest.Trouble
}

// A feed is a mirror of one node in another.
type feed struct {
	from       *node
	name       string // directory below the base URL of the follower; "": none
	chain      bool
	selects    bool // text/plain only
	inPlace    bool // it has no files
	moved      bool // its upstream had another address before
	collection string
	store      *blob.Mem
	journal    journal.Journal
}

// A follower is an Upstream or a Group.
type follower interface {
	Scan(ctx context.Context) (intake.Report, error)
	Watch(ctx context.Context, onChange func(intake.Report)) error
	Bitstream(ctx context.Context, r *catalog.Record) (io.ReadCloser, error)
}

func newNode(h *history, level int) *node {
	h.drawn++
	n := &node{h: h, id: h.drawn, level: level, catalog: catalog.NewMem(nil), docs: &blob.Mem{}, faults: &faultfs.Faults{}}
	n.onDisk = h.Once(36)
	h.Cleanup(n.unmount)
	set := source.Set{Bitstream: n.bitstream, Serve: true, ChangeList: source.ChangeList{Entries: historytest.Pick(h.History, 0, 3, 10)}}
	if h.Once(4) {
		set.ResourceDump = &source.ResourceDump{Every: 1, PackageEntries: h.IntN(5)}
	}
	n.source = source.Options{MaxEntries: historytest.Pick(h.History, 0, 7), SmallSet: h.IntN(2), Sets: []source.Set{set}, Temp: h.TempDir()}
	if h.hub != nil {
		n.source.Hubs = []source.Hub{{URL: h.hubURL, Notifier: h.hub}}
	}
	n.listen()
	return n
}

// listen gives the node an address.
func (n *node) listen() {
	srv := httptest.NewServer(n)
	n.h.Cleanup(srv.Close)
	n.base = srv.URL + "/"
	n.source.BaseURL = n.base
	var err error
	n.set, err = source.CapabilityListURI(n.base, source.DefaultSet)
	n.h.Must(err)
}

// become has a node republish others.
func (n *node) become(others []*node) {
	n.apart = n.h.Once(2)
	n.alone = len(others) == 1 && n.h.Once(2)
	if n.h.Once(8) {
		n.describe()
	}
	for _, other := range others {
		n.follow(other)
	}
}

// describe has a node republish descriptions only.
func (n *node) describe() {
	n.h.count("Aggregators of descriptions only")
	n.inPlace, n.onDisk = true, false
	set := &n.source.Sets[0]
	set.Bitstream, set.Serve, set.ResourceDump = nil, false, nil
}

// follow has a node republish another one, too.
func (n *node) follow(other *node) {
	n.alone = n.alone && len(n.feeds) == 0
	f := &feed{from: other, chain: n.h.Once(3), inPlace: n.inPlace, store: &blob.Mem{}, journal: &journal.Mem{}}
	if n.apart && !n.alone && !n.inPlace {
		f.name = fmt.Sprintf("n%d-%d", n.id, len(n.feeds))
	}
	if n.h.Once(4) {
		f.collection = fmt.Sprintf("urn:collection:%d", n.id)
	}
	if f.selects = n.h.Once(8); f.selects {
		n.h.count("Aggregators that select")
	}
	n.feeds = append(n.feeds, f)
}

func (n *node) String() string {
	s := fmt.Sprintf("%d (level %d, %s)", n.id, n.level, n.base)
	if n.inPlace {
		s += " descriptions"
	}
	if n.onDisk {
		s += " on disk"
	}
	for _, f := range n.feeds {
		s += fmt.Sprintf(" ← %d %q chain=%v", f.from.id, f.name, f.chain)
		if f.selects {
			s += " text/plain"
		}
	}
	return s
}

func (f *feed) prefix() string {
	if f.name == "" {
		return ""
	}
	return f.name + "/"
}

// discard is a Sink that keeps nothing.
type discard struct{}

func (discard) Apply(context.Context, []destination.Delivery) error { return nil }

// files returns the store of a mirror. It dies with faults.
func (f *feed) files(faults *faultfs.Faults) blob.Store {
	if f.inPlace {
		return destination.NewSinkStore(discard{}, destination.SinkOptions{DescriptionsOnly: true})
	}
	return &faultfs.Store{Store: f.store, Faults: faults}
}

// open returns a Destination that keeps the mirror, and its client. It dies with faults.
func (f *feed) open(h *history, faults *faultfs.Faults, baseline bool, deliver func(context.Context, []destination.Change) error) (*fetch.Client, *destination.Destination) {
	home, err := url.Parse(f.from.base)
	h.Must(err)
	c, err := fetch.New(fetch.Options{Home: home, Retries: -1, Jobs: 2, Ungated: true})
	h.Must(err)
	o := destination.Options{MaxDelete: 100, AskNow: true, Baseline: baseline, Deliver: deliver, DeliverStatements: deliver != nil}
	if f.from.inPlace {
		o.AllowHosts = []string{"*"}
	}
	if f.selects {
		o.Types = []string{"text/plain"}
	}
	if f.inPlace {
		o.Via = destination.ViaList
	}
	d, err := destination.New(f.files(faults), &journaltest.Faulty{Journal: f.journal, Faults: faults}, c, o)
	h.Must(err)
	return c, d
}

// start starts the process of a node with what is on its disk.
func (n *node) start() {
	n.faults.Restart()
	n.mount()
	cat := &mortalCatalog{n.catalog, n.faults}
	var err error
	n.process, err = source.New(cat, &faultfs.Store{Store: n.docs, Faults: n.faults}, n.source)
	n.h.Must(err)
	var options []aggregator.Options
	for i, f := range n.feeds {
		o := aggregator.Options{
			Name: fmt.Sprint("up", i), Address: f.from.base, URI: n.base + f.prefix(), BaseURL: n.base, InPlace: n.inPlace, Chain: f.chain, Collection: f.collection,
			AllowEmpty: true, Interval: -1, TempDir: n.source.Temp,
			Follow: destination.FollowOptions{Poll: 5 * time.Millisecond, Check: time.Hour, Pause: time.Millisecond, Channel: destination.ChannelPoll},
		}
		if n.h.hub != nil {
			o.Follow.Channel, o.Follow.Callback = destination.ChannelHub, fmt.Sprintf("%s%s%d/", n.base, callbacks, i)
		}
		options = append(options, o)
	}
	open := func(i int, deliver func(context.Context, []destination.Change) error) (aggregator.Mirror, error) {
		f := n.feeds[i]
		c, d := f.open(n.h, n.faults, false, deliver)
		n.clients = append(n.clients, c)
		return aggregator.Mirror{Store: f.files(n.faults), Journal: &journaltest.Faulty{Journal: f.journal, Faults: n.faults}, Destination: d}, nil
	}
	var calls []http.Handler
	switch {
	case n.alone:
		var u *aggregator.Upstream
		u, err = aggregator.New(cat, n.set, options[0], func(deliver func(context.Context, []destination.Change) error) (aggregator.Mirror, error) {
			return open(0, deliver)
		})
		n.h.Must(err)
		n.follower, calls = u, []http.Handler{u.Handler()}
	case len(n.feeds) > 0:
		var g *aggregator.Group
		g, err = aggregator.NewGroup(cat, n.set, aggregator.GroupOptions{TempDir: n.source.Temp}, options, open)
		n.h.Must(err)
		n.follower = g
		for i := range options {
			calls = append(calls, g.Handler(i))
		}
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.handler, n.calls = n.process.Handler(), calls
}

// stop ends what is left of the process.
func (n *node) stop() {
	for _, c := range n.clients {
		c.Close()
	}
	n.clients = nil
	n.mu.Lock()
	defer n.mu.Unlock()
	n.handler, n.calls = nil, nil
}

// dead reports whether the process was killed.
func (n *node) dead() bool {
	_, err := (&faultfs.Store{Store: &blob.Mem{}, Faults: n.faults}).Stat(context.Background(), "x")
	return errors.Is(err, faultfs.ErrCrash)
}

// revive starts the process again if it is dead.
func (n *node) revive() {
	n.mu.Lock()
	down := n.handler == nil
	n.mu.Unlock()
	if n.dead() || down {
		n.stop()
		n.start()
		n.h.Tracef("%d is started again", n.id)
	}
}

// scan brings the catalog in step with those that the node follows.
func (n *node) scan(ctx context.Context) (r intake.Report, err error) {
	if n.follower != nil {
		r, err = n.follower.Scan(ctx)
	}
	return r, err
}

// pass lets the process look for changes and publish them, unless it is dead. It returns
// whether there were any.
func (n *node) pass(ctx context.Context) (changed bool, err error) {
	if n.dead() {
		return false, nil
	}
	r, err := n.scan(ctx)
	_, err2 := n.process.Publish(ctx)
	_, err3 := n.process.PublishDumps(ctx)
	err = errors.Join(err, err2, err3)
	if n.h.hub != nil {
		err = errors.Join(err, n.process.NotifyOnce(ctx))
	}
	if n.dead() {
		n.h.Tracef("%d is dead: %v", n.id, err)
		n.h.count("processes killed")
		n.stop()
		return false, nil
	}
	n.h.Tracef("%d: %d created, %d updated, %d deleted, %v", n.id, r.Created, r.Updated, r.Deleted, err)
	return r.Changed(), err
}

// watch lets the process run until ctx ends. If it is killed, it is started again.
func (n *node) watch(ctx context.Context) {
	for ctx.Err() == nil {
		life, end := context.WithCancel(ctx)
		var work sync.WaitGroup
		if n.follower != nil {
			work.Go(func() { _ = n.follower.Watch(life, nil) }) // it ends with life
		}
		if n.h.hub != nil {
			work.Go(func() { _ = n.process.Notify(life) }) // likewise
		}
		work.Go(func() {
			for life.Err() == nil && !n.dead() {
				_, _ = n.process.Publish(life) // what fails is published next time
				sleep(life, 4*time.Millisecond)
			}
			end()
		})
		work.Wait()
		end()
		if n.dead() {
			n.stop()
			n.start()
			n.h.Tracef("%d was killed and is started again", n.id)
			n.h.count("processes killed")
		}
	}
}

// traceStatus traces how a node follows others, and notifies those that follow it.
func (n *node) traceStatus() {
	n.h.Tracef("%d notifies: %+v", n.id, n.process.Channels())
	switch f := n.follower.(type) {
	case *aggregator.Upstream:
		n.h.Tracef("%d follows: %+v", n.id, f.Status())
	case *aggregator.Group:
		n.h.Tracef("%d follows: %+v", n.id, f.Statuses())
	}
}

func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

func (n *node) upset(t *historytest.Trouble) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.trouble = t
}

// callbacks is where hubs call a node, below its base URL.
const callbacks = "-/callback/"

// ServeHTTP implements [http.Handler].
func (n *node) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	n.mu.Lock()
	handler, calls, trouble := n.handler, n.calls, n.trouble
	n.mu.Unlock()
	if handler == nil || n.dead() {
		panic(http.ErrAbortHandler)
	}
	var i int
	if rest, ok := strings.CutPrefix(r.URL.Path, "/"+callbacks); ok {
		if _, err := fmt.Sscanf(rest, "%d/", &i); err == nil && i < len(calls) {
			handler = calls[i]
		}
	}
	if trouble != nil {
		trouble.Serve(w, r, handler)
		return
	}
	handler.ServeHTTP(w, r)
}

func (n *node) bitstream(ctx context.Context, r *catalog.Record) (io.ReadCloser, error) {
	if n.follower != nil {
		f, err := n.follower.Bitstream(ctx, r)
		if errors.Is(err, aggregator.ErrReplaced) {
			err = fmt.Errorf("%w: %w", source.ErrReplaced, err)
		}
		return f, err
	}
	n.h.mu.Lock()
	defer n.h.mu.Unlock()
	text, ok := n.h.now[r.URI]
	if !ok {
		return nil, fs.ErrNotExist
	}
	return io.NopCloser(strings.NewReader(text)), nil
}

// escape returns a path as it is in a URI.
func escape(path string) string { return (&url.URL{Path: path}).EscapedPath() }
