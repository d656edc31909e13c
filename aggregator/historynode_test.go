package aggregator_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
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
	"lockstep/discover"
	"lockstep/intake"
	"lockstep/internal/fetch"
	"lockstep/source"
)

// A follower is an Upstream or a Group.
type follower interface {
	Scan(ctx context.Context) (intake.Report, error)
	Watch(ctx context.Context, onChange func(intake.Report)) error
	Bitstream(ctx context.Context, r *catalog.Record) (io.ReadCloser, error)
}

func newNode(h *history, level int) *node {
	h.drawn++
	n := &node{h: h, id: h.drawn, level: level, catalog: catalog.NewMem(nil), docs: &blob.Mem{}, faults: &faultfs.Faults{}}
	srv := httptest.NewServer(n)
	h.Cleanup(srv.Close)
	n.base = srv.URL + "/"
	var err error
	n.set, err = source.CapabilityListURI(n.base, source.DefaultSet)
	h.must(err)
	set := source.Set{Bitstream: n.bitstream, Serve: true, ChangeList: source.ChangeList{Entries: []int{0, 3, 10}[h.IntN(3)]}}
	if h.IntN(4) == 0 {
		set.ResourceDump = &source.ResourceDump{Every: 1, PackageEntries: h.IntN(5)}
	}
	n.source = source.Options{BaseURL: n.base, MaxEntries: []int{0, 7}[h.IntN(2)], SmallSet: h.IntN(2), Sets: []source.Set{set}, Temp: h.TempDir()}
	return n
}

// follow has a node republish others.
func (n *node) follow(others []*node) {
	apart := n.h.IntN(2) == 0
	n.alone = len(others) == 1 && n.h.IntN(2) == 0
	for i, other := range others {
		f := &feed{from: other, chain: n.h.IntN(3) == 0, store: &blob.Mem{}, journal: &journal.Mem{}}
		if apart && !n.alone {
			f.name = fmt.Sprintf("n%d-%d", n.id, i)
		}
		if n.h.IntN(4) == 0 {
			f.collection = fmt.Sprintf("urn:collection:%d", n.id)
		}
		n.feeds = append(n.feeds, f)
	}
}

// open returns a Destination that keeps the mirror, and its client. It dies with faults.
func (f *feed) open(h *history, faults *faultfs.Faults, deliver func(context.Context, []destination.Change) error) (*fetch.Client, *destination.Destination) {
	home, err := url.Parse(f.from.base)
	h.must(err)
	c, err := fetch.New(fetch.Options{Home: discover.Home(home.String()), Retries: -1, Jobs: 2, Ungated: true})
	h.must(err)
	if faults == nil {
		faults = &faultfs.Faults{}
	}
	d, err := destination.New(&faultfs.Store{Store: f.store, Faults: faults}, &mortalJournal{f.journal, faults}, c, destination.Options{MaxDelete: 100, AskNow: true, Deliver: deliver})
	h.must(err)
	return c, d
}

// A mortalJournal is a Journal in which nothing is recorded once the process is dead.
type mortalJournal struct {
	journal.Journal
	faults *faultfs.Faults
}

func (j *mortalJournal) Record(ctx context.Context, b journal.Batch) error {
	if err := j.faults.Step(); err != nil {
		return err
	}
	return j.Journal.Record(ctx, b)
}

// A mortalCatalog is a Catalog that does not change once the process is dead.
type mortalCatalog struct {
	catalog.Catalog
	faults *faultfs.Faults
}

func (c *mortalCatalog) Apply(ctx context.Context, set string, updates []catalog.Update) (catalog.Applied, error) {
	if err := c.faults.Step(); err != nil {
		return catalog.Applied{}, err
	}
	return c.Catalog.Apply(ctx, set, updates)
}

func (c *mortalCatalog) Mark(ctx context.Context, set string) (catalog.Mark, error) {
	if err := c.faults.Step(); err != nil {
		return catalog.Mark{}, err
	}
	return c.Catalog.Mark(ctx, set)
}

func (c *mortalCatalog) Forget(ctx context.Context, set string, m catalog.Mark) error {
	if err := c.faults.Step(); err != nil {
		return err
	}
	return c.Catalog.Forget(ctx, set, m)
}

// start starts the process of a node with what is on its disk.
func (n *node) start() {
	n.faults.Restart()
	cat := &mortalCatalog{n.catalog, n.faults}
	var err error
	n.process, err = source.New(cat, &faultfs.Store{Store: n.docs, Faults: n.faults}, n.source)
	n.h.must(err)
	var options []aggregator.Options
	for i, f := range n.feeds {
		options = append(options, aggregator.Options{
			Name: fmt.Sprint("up", i), Address: f.from.base, URI: n.base + f.prefix(), BaseURL: n.base, Chain: f.chain, Collection: f.collection,
			AllowEmpty: true, Interval: -1, TempDir: n.source.Temp,
			Follow: destination.FollowOptions{Poll: 3 * time.Millisecond, Pause: time.Millisecond, Channel: destination.ChannelPoll},
		})
	}
	open := func(i int, deliver func(context.Context, []destination.Change) error) (aggregator.Mirror, error) {
		f := n.feeds[i]
		c, d := f.open(n.h, n.faults, deliver)
		n.clients = append(n.clients, c)
		return aggregator.Mirror{Store: &faultfs.Store{Store: f.store, Faults: n.faults}, Journal: &mortalJournal{f.journal, n.faults}, Destination: d}, nil
	}
	switch {
	case n.alone:
		n.follower, err = aggregator.New(cat, n.set, options[0], func(deliver func(context.Context, []destination.Change) error) (aggregator.Mirror, error) {
			return open(0, deliver)
		})
	case len(n.feeds) > 0:
		n.follower, err = aggregator.NewGroup(cat, n.set, aggregator.GroupOptions{TempDir: n.source.Temp}, options, open)
	}
	n.h.must(err)
	n.mu.Lock()
	defer n.mu.Unlock()
	n.handler = n.process.Handler()
}

// stop ends what is left of the process.
func (n *node) stop() {
	for _, c := range n.clients {
		c.Close()
	}
	n.clients = nil
	n.mu.Lock()
	defer n.mu.Unlock()
	n.handler = nil
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
		n.h.tracef("%d is started again", n.id)
	}
}

// scan brings the catalog in step with those that the node follows.
func (n *node) scan(ctx context.Context) (r intake.Report, err error) {
	if n.follower != nil {
		r, err = n.follower.Scan(ctx)
	}
	return r, err
}

// pass lets the process look for changes and publish them, unless it is dead.
func (n *node) pass(ctx context.Context) error {
	if n.dead() {
		return nil
	}
	r, err := n.scan(ctx)
	_, err2 := n.process.Publish(ctx)
	_, err3 := n.process.PublishDumps(ctx)
	err = errors.Join(err, err2, err3)
	if n.dead() {
		n.h.tracef("%d is dead", n.id)
		n.stop()
		return nil
	}
	n.h.tracef("%d: %d created, %d updated, %d deleted, %v", n.id, r.Created, r.Updated, r.Deleted, err)
	return err
}

// watch lets the process run until ctx ends. If it is killed, it is started again.
func (n *node) watch(ctx context.Context) {
	for ctx.Err() == nil {
		life, end := context.WithCancel(ctx)
		var work sync.WaitGroup
		if n.follower != nil {
			work.Go(func() { _ = n.follower.Watch(life, nil) }) // it ends with life
		}
		work.Go(func() {
			for life.Err() == nil && !n.dead() {
				_, _ = n.process.Publish(life) // what fails is published next time
				sleep(life, time.Millisecond)
			}
			end()
		})
		work.Wait()
		end()
		if n.dead() {
			n.stop()
			n.start()
			n.h.tracef("%d was killed and is started again", n.id)
		}
	}
}

func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// fault has a write of the next pass fail: the process is killed there, the power is
// cut, or the disk is full.
func (n *node) fault(ctx context.Context) {
	if n.dead() {
		n.revive()
		return
	}
	mode := []faultfs.Mode{faultfs.Killed, faultfs.Killed, faultfs.PowerCut, faultfs.Full}[n.h.IntN(4)]
	at := 1 + n.h.IntN(60)
	n.h.tracef("%d: fault of kind %d at write %d", n.id, mode, at)
	n.faults.Arm(at, mode)
	_ = n.pass(ctx) // it is expected to fail
	if n.dead() {
		n.h.killed++
		if n.h.IntN(3) == 0 {
			return // it is down for a while
		}
		n.stop()
		n.start()
		return
	}
	n.faults.Restart()
}

// trouble has the server fail for one in so many requests.
func (n *node) trouble() {
	each, kind, seen := 1+n.h.IntN(6), n.h.IntN(5), 0
	n.h.tracef("%d: trouble of kind %d, each %d", n.id, kind, each)
	n.upset(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		n.mu.Lock()
		seen++
		bad := seen%each == 0
		n.mu.Unlock()
		if !bad {
			next.ServeHTTP(w, r)
			return
		}
		switch kind {
		case 0:
			http.Error(w, "no", http.StatusInternalServerError)
		case 1:
			http.NotFound(w, r)
		case 2:
			panic(http.ErrAbortHandler)
		default: // cut short, or a byte wrong
			rec := httptest.NewRecorder()
			next.ServeHTTP(rec, r)
			b := rec.Body.Bytes()
			maps.Copy(w.Header(), rec.Header())
			w.Header().Set("Content-Length", fmt.Sprint(len(b)))
			w.WriteHeader(rec.Code)
			if kind == 4 && len(b) > 0 && !strings.HasSuffix(r.URL.Path, ".xml") {
				b[len(b)/2] ^= 1
			} else if kind == 3 {
				b = b[:len(b)/2]
			}
			_, _ = w.Write(b) // the client finds out
		}
	})
}

func (n *node) upset(spoil func(w http.ResponseWriter, r *http.Request, next http.Handler)) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.spoil = spoil
}

// ServeHTTP implements [http.Handler].
func (n *node) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	n.mu.Lock()
	handler, spoil := n.handler, n.spoil
	n.mu.Unlock()
	switch {
	case handler == nil || n.dead():
		panic(http.ErrAbortHandler)
	case spoil != nil:
		spoil(w, r, handler)
	default:
		handler.ServeHTTP(w, r)
	}
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
