package aggregator_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"net/http/httptest"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"lockstep/blob"
	"lockstep/blob/faultfs"
	"lockstep/catalog"
	"lockstep/destination/journal"
	"lockstep/hub"
	"lockstep/internal/historytest"
)

var (
	histories   = flag.Int("histories", 200, "how many histories TestHistories runs")
	historySeed = flag.Uint64("history-seed", 0, "the one history TestHistories runs; 0 for others each time")
)

// TestHistories runs random histories of one or two origins, chains, diamonds and loops of
// Aggregators in up to four levels, and a mirror of the last one. Meanwhile the origins
// change, processes are killed at any write, the power is cut, disks are full, servers are
// down, fail, or send part of an answer or other bytes, and Sources move to other
// addresses. Once all is quiet, each Aggregator and the mirror have the origins' bytes, and
// each Aggregator publishes each resource once, with the right links: via in either form
// (RS-REL-70, RS-REL-71), and the others as far as they are true (RS-REL-74).
func TestHistories(t *testing.T) {
	t.Parallel()
	defer debug.SetGCPercent(debug.SetGCPercent(800)) // little is live at a time
	var mu sync.Mutex                                 // guards counts
	counts := map[string]int{}
	historytest.Run(t, *histories, *historySeed, 2*runtime.GOMAXPROCS(0), func(run *historytest.History) { // some wait
		h := &history{History: run, now: map[string]string{}, did: map[string]int{}}
		h.build()
		h.live()
		mu.Lock()
		defer mu.Unlock()
		for what, n := range h.did {
			counts[what] += n
		}
	})
	for _, what := range slices.Sorted(maps.Keys(counts)) {
		t.Logf("%s: %d", what, counts[what])
	}
	if *histories >= 1000 && !t.Failed() {
		for _, what := range dimensions {
			if counts[what] == 0 {
				t.Errorf("no history had this: %s", what)
			}
		}
	}
}

// dimensions are what a thousand histories have at least once.
var dimensions = []string{
	"histories with 1 level", "histories with 2 levels", "histories with 3 levels", "histories with 4 levels",
	"histories with two origins", "histories with a loop", "histories with a hub", "Aggregators of descriptions only", "nodes with databases on disk",
	"Aggregators that select", "mirrors that became upstreams", "mirrors of an earlier version that became upstreams", "moves",
	"processes killed",
}

// A history is one or two origins, Aggregators, and a mirror of the last of them.
type history struct {
	*historytest.History
	drawn int // nodes so far

	nodes   []*node // the origins first, then level by level
	origins int     // how many of them are origins
	last    *feed   // the mirror
	hub     *hub.Hub
	hubURL  string
	rough   bool // it takes several passes until all are in step

	mu   sync.Mutex        // guards what follows
	now  map[string]string // texts of the origins, by URI
	made int
	did  map[string]int // how often something happened
}

func (h *history) count(what string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.did[what]++
}

// build draws who follows whom.
func (h *history) build() {
	h.origins = 1
	if h.Once(3) {
		h.origins = 2
		h.count("histories with two origins")
	}
	if h.Once(4) {
		h.openHub()
	}
	for range h.origins {
		h.nodes = append(h.nodes, newNode(h, 0))
	}
	from := h.nodes
	levels := 1 + h.IntN(4)
	for level := 1; level <= levels; level++ {
		var nodes []*node
		for range h.breadth(level, levels) {
			n := newNode(h, level)
			chosen := []*node{from[h.IntN(len(from))]}
			switch h.IntN(3) {
			case 0: // a diamond, if there are two
				chosen = slices.Clone(from)
			case 1: // past a level
				if other := h.nodes[h.IntN(len(h.nodes))]; other != chosen[0] {
					chosen = append(chosen, other)
				}
			}
			n.become(chosen)
			nodes = append(nodes, n)
		}
		h.nodes = append(h.nodes, nodes...)
		from = nodes
	}
	h.count(fmt.Sprintf("histories with %d level%s", levels, strings.Repeat("s", min(levels-1, 1))))
	if aggregators := h.nodes[h.origins:]; len(aggregators) > 1 && h.Once(4) {
		h.rough = true
		h.count("histories with a loop")
		for range 1 + h.IntN(2) {
			first := h.IntN(len(aggregators) - 1)
			aggregators[first].follow(aggregators[first+1+h.IntN(len(aggregators)-first-1)])
		}
	}
	h.last = &feed{from: h.nodes[len(h.nodes)-1], store: &blob.Mem{}, journal: &journal.Mem{}}
	for _, n := range h.nodes {
		h.Tracef("%s", n)
		if n.onDisk {
			h.count("nodes with databases on disk")
		}
		n.start()
	}
}

// openHub starts a hub to which all Sources of the history send their notifications.
func (h *history) openHub() {
	h.count("histories with a hub")
	h.Tracef("with a hub")
	srv := httptest.NewUnstartedServer(nil)
	h.hubURL = "http://" + srv.Listener.Addr().String() + "/"
	var err error
	h.hub, err = hub.New(hub.NewMem(), hub.Options{PublicURL: h.hubURL, AllowPrivate: true, RetryFirst: time.Millisecond, RetryMost: 10 * time.Millisecond})
	h.Must(err)
	srv.Config.Handler = h.hub
	srv.Start()
	ctx, cancel := context.WithCancel(context.Background())
	var work sync.WaitGroup
	work.Go(func() { _ = h.hub.Run(ctx) }) // it ends with ctx
	h.Cleanup(func() {
		cancel()
		work.Wait()
		srv.Close()
	})
	<-h.hub.Ready()
}

// breadth returns how many Aggregators a level has.
func (h *history) breadth(level, levels int) int {
	if level == levels {
		return 1
	}
	return 1 + h.IntN(2)
}

// live runs the history.
func (h *history) live() {
	ctx := context.Background()
	h.keep()
	h.change(3 + h.IntN(12))
	for _, n := range h.nodes {
		n.begin(ctx)
	}
	for range 3 + h.IntN(7) {
		n := h.nodes[h.IntN(len(h.nodes))]
		switch h.IntN(20) {
		case 0, 1, 2:
			h.change(1 + h.IntN(8))
		case 3, 4, 5, 6, 7, 8:
			h.fault(ctx, n)
		case 9, 10:
			n.upset(h.Trouble())
			h.all(ctx, false)
			n.upset(nil)
		case 11, 12:
			h.all(ctx, true)
		case 13, 14:
			h.watch(ctx)
		case 15:
			if len(n.feeds) > 0 {
				n.move(ctx)
			}
		default:
			h.all(ctx, false)
		}
	}
	h.settle(ctx)
	for _, n := range h.nodes {
		n.check(ctx)
	}
	h.same(ctx)
	h.quiet(ctx)
}

// keep gives the origins a resource that stays, so that each selection has something.
func (h *history) keep() {
	for _, origin := range h.nodes[:h.origins] {
		uri := origin.base + "kept"
		h.now[uri] = "kept"
		origin.apply(put(uri, "kept", "text/plain"))
	}
}

// change changes the origins n times.
func (h *history) change(n int) {
	for range n {
		origin := h.nodes[h.IntN(h.origins)]
		h.mu.Lock()
		path := fmt.Sprintf("%c/%s%d", 'a'+h.IntN(2), historytest.Pick(h.History, "", "x y ", "%2F", "ü", "~"), h.IntN(6))
		uri := origin.base + escape(path)
		_, there := h.now[uri]
		h.made++
		text := fmt.Sprintf("%s, version %d, %s", path, h.made, strings.Repeat("x", h.IntN(50)))
		if again := historytest.Pick(h.History, "one", "two"); h.Once(4) && h.now[uri] != again {
			text = again // it may have had it before
		}
		update := put(uri, text, historytest.Pick(h.History, "text/plain", "text/plain", "text/x-b"))
		if h.Once(4) {
			update.Links = append(update.Links, link("describedby", fmt.Sprintf("%sa/%d", origin.base, h.IntN(6))))
		}
		if h.Once(6) {
			update.Links = append(update.Links, link("profile", "urn:p"), link("canonical", "urn:c"))
		}
		h.now[uri] = text
		if there && h.Once(3) {
			update = catalog.Update{Record: catalog.Record{URI: uri}, Deleted: true}
			delete(h.now, uri)
		}
		h.mu.Unlock()
		origin.apply(update)
	}
	h.Tracef("%d changes", n)
}

// put returns the update that gives a resource a text.
func put(uri, text, kind string) catalog.Update {
	return catalog.Update{Record: catalog.Record{URI: uri, Length: int64(len(text)), Hashes: hashesOf(text), Lastmod: time.Now().UTC().Truncate(time.Microsecond), Type: kind}}
}

// all lets each process do a pass in the order of the levels, or all at the same time,
// with changes between them.
func (h *history) all(ctx context.Context, together bool) {
	if !together {
		for _, n := range h.nodes {
			_, _ = n.pass(ctx) // what fails is done by another
		}
		_, _ = h.mirror(ctx)
		return
	}
	h.Tracef("all together")
	var work sync.WaitGroup
	for _, n := range h.nodes {
		work.Go(func() { _, _ = n.pass(ctx) })
	}
	h.change(1 + h.IntN(4))
	work.Wait()
}

// fault has a write of the next pass of a node fail, in which there is something to do: its
// process is killed there, the power is cut, or the disk is full.
func (h *history) fault(ctx context.Context, n *node) {
	if n.dead() {
		n.revive()
		return
	}
	h.change(1 + h.IntN(3))
	for _, other := range h.nodes {
		if other == n {
			break
		}
		_, _ = other.pass(ctx) // what fails is done by another
	}
	mode := historytest.Pick(h.History, faultfs.Killed, faultfs.Killed, faultfs.PowerCut, faultfs.Full)
	at := 1 + h.IntN(historytest.Pick(h.History, 10, 30, 60))
	h.Tracef("%d: fault of kind %d at write %d", n.id, mode, at)
	n.faults.Arm(at, mode)
	_, _ = n.pass(ctx) // it is expected to fail
	if !n.dead() {
		n.faults.Restart()
		return
	}
	if !h.Once(3) { // else it is down for a while
		n.revive()
	}
}

// mirror lets the mirror of the last Aggregator do a pass. It returns whether there was
// anything to do.
func (h *history) mirror(ctx context.Context) (changed bool, err error) {
	r, err := h.last.sync(ctx, h, false)
	h.Tracef("mirror: %d created, %d updated, %d deleted, %d failed, %v", r.Created, r.Updated, r.Deleted, r.Failed, err)
	return r.Created+r.Updated+r.Deleted > 0, err
}

// watch has all processes run until a change of the origins is at the last Aggregator,
// while one of them may be killed.
func (h *history) watch(ctx context.Context) {
	h.Tracef("watch")
	for _, n := range h.nodes {
		n.revive()
	}
	victim := h.nodes[h.IntN(len(h.nodes))]
	if h.Once(2) {
		victim.faults.Arm(1+h.IntN(80), faultfs.Killed)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var work sync.WaitGroup
	for _, n := range h.nodes {
		work.Go(func() { n.watch(ctx) })
	}
	h.change(1 + h.IntN(4))
	marker := fmt.Sprintf("marker %d", h.made)
	for _, origin := range h.nodes[:h.origins] { // whichever is republished
		uri := origin.base + "a/0"
		h.mu.Lock()
		h.now[uri] = marker
		h.mu.Unlock()
		origin.apply(put(uri, marker, "text/plain"))
	}
	last := h.last.from
	for deadline := time.Now().Add(watchMost); !last.has(ctx, marker); sleep(ctx, 3*time.Millisecond) {
		if time.Now().After(deadline) {
			for _, n := range h.nodes {
				n.traceStatus()
			}
			cancel()
			work.Wait()
			h.Fatalf("a change never came to %s", last)
		}
	}
	cancel()
	work.Wait()
	if !victim.dead() {
		victim.faults.Restart()
	}
}

// watchMost is how long a change may take, on a machine that does many other things.
const watchMost = 5 * time.Minute

// settle lets all run until nothing fails, and, where that takes several passes, nothing
// changes.
func (h *history) settle(ctx context.Context) {
	var errs error
	passes := 4
	if h.rough {
		passes += 2 * len(h.nodes)
	}
	for range passes {
		h.Tracef("quiet")
		errs = nil
		changed := false
		for _, n := range h.nodes {
			n.revive()
			c, err := n.pass(ctx)
			changed, errs = changed || c, errors.Join(errs, err)
		}
		c, err := h.mirror(ctx)
		if errs = errors.Join(errs, err); errs == nil && !(h.rough && (changed || c)) {
			return
		}
	}
	h.Fatalf("it does not settle: %v", errs)
}
