package aggregator_test

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"lockstep/aggregator"
	"lockstep/blob"
	"lockstep/blob/faultfs"
	"lockstep/catalog"
	"lockstep/destination/journal"
	"lockstep/internal/fetch"
	"lockstep/resourcesync"
	"lockstep/source"
)

var (
	histories   = flag.Int("histories", 200, "how many histories TestHistories runs")
	historySeed = flag.Uint64("history-seed", 0, "the one history TestHistories runs; 0 for others each time")
)

// TestHistories runs random histories of an origin, chains and diamonds of Aggregators in
// up to four levels, and a mirror of the last one. Meanwhile the origin changes, processes
// are killed at any write, the power is cut, disks are full, and servers are down, fail,
// or send part of an answer or other bytes. Once all is quiet, the mirror has the origin's
// bytes, and each Aggregator publishes each resource with the right links: via in either
// form (RS-REL-70, RS-REL-71), and the others as far as they are true (RS-REL-74).
func TestHistories(t *testing.T) {
	t.Parallel()
	if *historySeed != 0 {
		runHistory(t, *historySeed)
		return
	}
	var kills atomic.Int64
	var levels [5]atomic.Int64
	var work sync.WaitGroup
	seeds := make(chan uint64)
	for range 2 * runtime.GOMAXPROCS(0) { // some wait
		work.Go(func() {
			for seed := range seeds {
				if t.Failed() {
					continue
				}
				h := runHistory(t, seed)
				kills.Add(int64(h.killed))
				levels[h.nodes[len(h.nodes)-1].level].Add(1)
			}
		})
	}
	for i := range max(*histories, len(troubledSeeds)) {
		if i < len(troubledSeeds) {
			seeds <- troubledSeeds[i]
		} else {
			seeds <- rand.Uint64()
		}
	}
	close(seeds)
	work.Wait()
	t.Logf("%d processes were killed; histories with 1 to 4 levels: %d, %d, %d, %d", kills.Load(), levels[1].Load(), levels[2].Load(), levels[3].Load(), levels[4].Load())
}

// troubledSeeds are of histories in which something was wrong once.
var troubledSeeds = []uint64{}

// A history is an origin, Aggregators, and a mirror of the last of them.
type history struct {
	*testing.T
	*rand.Rand
	seed   uint64
	killed int
	drawn  int // nodes so far

	nodes []*node // the origin first, then level by level
	last  *feed   // the mirror

	mu    sync.Mutex // guards what follows
	trace []string
	now   map[string]string // texts of the origin, by URI
	made  int
}

func runHistory(t *testing.T, seed uint64) (h *history) {
	t.Helper()
	t.Run(fmt.Sprint(seed), func(t *testing.T) {
		h = &history{T: t, Rand: rand.New(rand.NewPCG(seed, 15)), seed: seed, now: map[string]string{}}
		h.build()
		h.live()
	})
	return h
}

func (h *history) tracef(format string, args ...any) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.trace = append(h.trace, fmt.Sprintf(format, args...))
}

func (h *history) fail(format string, args ...any) {
	h.Helper()
	h.mu.Lock()
	defer h.mu.Unlock()
	h.Fatalf("-history-seed %d\n%s\n%s", h.seed, strings.Join(h.trace, "\n"), fmt.Sprintf(format, args...))
}

func (h *history) must(err error) {
	h.Helper()
	if err != nil {
		h.fail("%v", err)
	}
}

// build draws who follows whom.
func (h *history) build() {
	h.nodes = []*node{newNode(h, 0)}
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
			n.follow(chosen)
			nodes = append(nodes, n)
		}
		h.nodes = append(h.nodes, nodes...)
		from = nodes
	}
	h.last = &feed{from: h.nodes[len(h.nodes)-1], store: &blob.Mem{}, journal: &journal.Mem{}}
	for _, n := range h.nodes {
		n.start()
		h.tracef("%s", n)
	}
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
	h.change(3 + h.IntN(12))
	for range 4 + h.IntN(10) {
		n := h.nodes[h.IntN(len(h.nodes))]
		switch h.IntN(9) {
		case 0, 1:
			h.change(1 + h.IntN(8))
		case 2, 3, 4:
			n.fault(ctx)
		case 5:
			n.trouble()
			h.all(ctx, false)
			n.upset(nil)
		case 6:
			h.all(ctx, true)
		case 7:
			h.watch(ctx)
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

// change changes the origin n times.
func (h *history) change(n int) {
	origin := h.nodes[0]
	for range n {
		h.mu.Lock()
		path := fmt.Sprintf("%c/%s%d", 'a'+h.IntN(2), h.pick("", "x y ", "%2F", "ü", "~"), h.IntN(6))
		uri := origin.base + escape(path)
		_, there := h.now[uri]
		h.made++
		text := fmt.Sprintf("%s, version %d, %s", path, h.made, strings.Repeat("x", h.IntN(50)))
		if again := h.pick("one", "two"); h.IntN(4) == 0 && h.now[uri] != again {
			text = again // it may have had it before
		}
		update := catalog.Update{Record: catalog.Record{
			URI: uri, Length: int64(len(text)), Hashes: hashesOf(text), Lastmod: time.Now().UTC().Truncate(time.Microsecond), Type: h.pick("text/plain", "text/plain", "text/x-b"),
		}}
		if h.IntN(4) == 0 {
			update.Links = append(update.Links, link("describedby", fmt.Sprintf("%sa/%d", origin.base, h.IntN(6))))
		}
		if h.IntN(6) == 0 {
			update.Links = append(update.Links, link("profile", "urn:p"), link("canonical", "urn:c"))
		}
		h.now[uri] = text
		if there && h.IntN(3) == 0 {
			update = catalog.Update{Record: catalog.Record{URI: uri}, Deleted: true}
			delete(h.now, uri)
		}
		h.mu.Unlock()
		_, err := origin.catalog.Apply(context.Background(), origin.set, []catalog.Update{update})
		h.must(err)
	}
	h.tracef("%d changes", n)
}

func (h *history) pick(of ...string) string { return of[h.IntN(len(of))] }

// all lets each process do a pass in the order of the levels, or all at the same time,
// with changes between them.
func (h *history) all(ctx context.Context, together bool) {
	if !together {
		for _, n := range h.nodes {
			n.pass(ctx)
		}
		h.mirror(ctx)
		return
	}
	h.tracef("all together")
	var work sync.WaitGroup
	for _, n := range h.nodes {
		work.Go(func() { n.pass(ctx) })
	}
	h.change(1 + h.IntN(4))
	work.Wait()
}

// mirror lets the mirror of the last Aggregator do a pass.
func (h *history) mirror(ctx context.Context) error {
	c, d := h.last.open(h, nil, nil)
	defer c.Close()
	r, err := d.Sync(ctx, h.last.from.base)
	h.tracef("mirror: %d created, %d updated, %d deleted, %d failed, %v", r.Created, r.Updated, r.Deleted, r.Failed, err)
	return err
}

// watch has all processes run until a change of the origin is at the last Aggregator,
// while one of them may be killed.
func (h *history) watch(ctx context.Context) {
	h.tracef("watch")
	for _, n := range h.nodes {
		n.revive()
	}
	victim := h.nodes[h.IntN(len(h.nodes))]
	if h.IntN(2) == 0 {
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
	h.mu.Lock()
	uri := h.nodes[0].base + "a/0"
	h.now[uri] = marker
	h.mu.Unlock()
	_, err := h.nodes[0].catalog.Apply(ctx, h.nodes[0].set, []catalog.Update{{Record: catalog.Record{
		URI: uri, Length: int64(len(marker)), Hashes: hashesOf(marker), Lastmod: time.Now().UTC().Truncate(time.Microsecond), Type: "text/plain",
	}}})
	h.must(err)
	last := h.last.from
	for deadline := time.Now().Add(time.Minute); !last.has(ctx, marker); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			cancel()
			work.Wait()
			h.fail("a change never came to %s", last)
		}
	}
	cancel()
	work.Wait()
	if victim.faults.At > 0 && !victim.dead() {
		victim.faults.Restart()
	}
}

// settle lets all run until nothing fails.
func (h *history) settle(ctx context.Context) {
	var errs error
	for range 4 {
		h.tracef("quiet")
		errs = nil
		for _, n := range h.nodes {
			n.revive()
			errs = errors.Join(errs, n.pass(ctx))
		}
		if errs = errors.Join(errs, h.mirror(ctx)); errs == nil {
			return
		}
	}
	h.fail("it does not settle: %v", errs)
}

// quiet checks that nothing changes any more.
func (h *history) quiet(ctx context.Context) {
	for _, n := range h.nodes {
		if len(n.feeds) == 0 {
			continue
		}
		if r, err := n.scan(ctx); err != nil || r.Changed() {
			h.fail("%s changes though nothing has changed: %+v, %v", n, r, err)
		}
	}
}

// same compares the mirror with the origin.
func (h *history) same(ctx context.Context) {
	origin := make(map[string]string) // of the resources of the last Aggregator
	for uri, r := range h.last.from.records(ctx) {
		via := aggregator.Origin(r.Links)
		if via == nil {
			h.fail("%s has no via link", uri)
		}
		origin[uri] = via.Href
	}
	n := 0
	for row, err := range h.last.journal.Held(ctx, "", "") {
		h.must(err)
		n++
		f, err := h.last.store.Open(ctx, row.Path)
		h.must(err)
		text, err := io.ReadAll(io.NewSectionReader(f, 0, f.Info().Size))
		h.must(errors.Join(err, f.Close()))
		if want, ok := h.now[origin[row.URI]]; !ok || want != string(text) {
			h.fail("%s is %q, the origin has %q at %s", row.URI, text, want, origin[row.URI])
		}
	}
	if n != len(origin) {
		h.fail("the mirror has %d resources, %s has %d", n, h.last.from, len(origin))
	}
}

// A node is the origin or an Aggregator: what is on its disk, and its process.
type node struct {
	h     *history
	id    int
	level int
	base  string
	set   string
	feeds []*feed
	alone bool // it has a set of its own for the one that it follows

	catalog *catalog.Mem
	docs    *blob.Mem
	faults  *faultfs.Faults
	source  source.Options

	follower follower
	process  *source.Source
	clients  []*fetch.Client

	mu      sync.Mutex   // guards what follows
	handler http.Handler // nil: it is down
	spoil   func(w http.ResponseWriter, r *http.Request, next http.Handler)
}

// A feed is a mirror of one node in another.
type feed struct {
	from       *node
	name       string // directory below the base URL of the follower; "": none
	chain      bool
	collection string
	store      *blob.Mem
	journal    *journal.Mem
}

func (n *node) String() string {
	s := fmt.Sprintf("%d (level %d)", n.id, n.level)
	for _, f := range n.feeds {
		s += fmt.Sprintf(" ← %d %q chain=%v", f.from.id, f.name, f.chain)
	}
	return s
}

// record returns the records of a node by URI.
func (n *node) records(ctx context.Context) map[string]catalog.Record {
	out := make(map[string]catalog.Record)
	for r, err := range n.catalog.Resources(ctx, n.set, catalog.Range{}) {
		n.h.must(err)
		out[r.URI] = r
	}
	return out
}

// has reports whether a node has a resource with a text.
func (n *node) has(ctx context.Context, text string) bool {
	hashes := hashesOf(text)
	for _, r := range n.records(ctx) {
		if slices.Equal(r.Hashes, hashes) {
			return true
		}
	}
	return false
}

// check compares what a node publishes with what those publish that it follows.
func (n *node) check(ctx context.Context) {
	if len(n.feeds) == 0 {
		return
	}
	want := make(map[string]string)
	for _, f := range slices.Backward(n.feeds) {
		theirs := f.from.records(ctx)
		for uri, r := range theirs {
			own := n.base + f.prefix() + strings.TrimPrefix(uri, f.from.base)
			want[own] = describe(&r, n.links(f, &r, theirs))
		}
	}
	got := make(map[string]string)
	for uri, r := range n.records(ctx) {
		got[uri] = describe(&r, r.Links)
	}
	for _, uri := range slices.Sorted(maps.Keys(want)) {
		if got[uri] != want[uri] {
			n.h.fail("%s: %s is\n%s\nwant\n%s", n, uri, got[uri], want[uri])
		}
	}
	if len(got) != len(want) {
		n.h.fail("%s: %d resources, want %d", n, len(got), len(want))
	}
}

func (f *feed) prefix() string {
	if f.name == "" {
		return ""
	}
	return f.name + "/"
}

// links returns the links with which a node has to republish a resource of a Source that
// it follows.
func (n *node) links(f *feed, r *catalog.Record, theirs map[string]catalog.Record) []resourcesync.Link {
	var via, others []resourcesync.Link
	for _, l := range r.Links {
		switch l.Rel {
		case "via":
			via = append(via, l)
		case journal.RelHop, "profile":
			others = append(others, l)
		case "describedby":
			if _, ok := theirs[l.Href]; ok {
				others = append(others, link(l.Rel, n.base+f.prefix()+strings.TrimPrefix(l.Href, f.from.base)))
			}
		}
	}
	if len(via) > 0 && !f.chain {
		via = via[:1]
		others = append(others, link(journal.RelHop, r.URI))
	} else {
		via = append(via, resourcesync.Link{
			Rel: "via", Href: r.URI, Modified: resourcesync.NewDatetime(r.Lastmod), Hashes: r.Hashes, Length: r.Length, HasLength: true, Type: r.Type,
		})
	}
	if f.collection != "" {
		others = append(others, link("collection", f.collection))
	}
	slices.SortFunc(others, func(a, b resourcesync.Link) int { return cmp.Compare(a.Rel+" "+a.Href, b.Rel+" "+b.Href) })
	return append(via, others...)
}

// describe returns all that a record says but times and addresses of its own, with its
// links other than via in any order.
func describe(r *catalog.Record, links []resourcesync.Link) string {
	var via, others []string
	for i := range links {
		l := &links[i]
		line := fmt.Sprintf("%s %s %s %s %x %d %v", l.Rel, l.Href, l.Type, l.Modified, l.Hashes, l.Length, l.HasLength)
		if l.Rel == "via" {
			via = append(via, line)
		} else {
			others = append(others, line)
		}
	}
	slices.Sort(others)
	return fmt.Sprintf("%x %d %s\n", r.Hashes, r.Length, r.Type) + strings.Join(append(via, others...), "\n")
}
