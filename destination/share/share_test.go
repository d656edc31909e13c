package share_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"lockstep/blob"
	"lockstep/destination/filename"
	"lockstep/destination/internal/content"
	"lockstep/destination/internal/desired"
	"lockstep/destination/internal/plan"
	"lockstep/destination/internal/reserve"
	"lockstep/destination/internal/transfer"
	"lockstep/destination/journal"
	"lockstep/destination/share"
	"lockstep/internal/fetch"
	"lockstep/resourcesync"
)

// A world is a Source, a store, and the processes that share a mirror.
type world struct {
	t     *testing.T
	table share.Mem
	store blob.Mem
	url   string
	slow  atomic.Int64 // milliseconds that an answer takes

	requests atomic.Int64 // that the Source has received
}

func newWorld(t *testing.T) *world {
	w := &world{t: t}
	server := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		w.requests.Add(1)
		time.Sleep(time.Duration(w.slow.Load()) * time.Millisecond)
		if r.URL.Path == "/missing" {
			http.NotFound(rw, r)
			return
		}
		_, _ = io.WriteString(rw, r.URL.Path)
	}))
	t.Cleanup(server.Close)
	w.url = server.URL
	return w
}

func (w *world) join(lease time.Duration) (*share.Member, *transfer.Fetcher) {
	w.t.Helper()
	return w.joinBy(&w.table, lease)
}

// joinBy is join by another way to the table.
func (w *world) joinBy(table share.Table, lease time.Duration) (*share.Member, *transfer.Fetcher) {
	w.t.Helper()
	client, err := fetch.New(fetch.Options{AllowPrivate: true, Jobs: 4})
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(client.Close)
	m, err := share.Join(w.t.Context(), table, client, share.Options{Name: "test", Lease: lease, Logger: slog.New(slog.NewTextHandler(w.t.Output(), &slog.HandlerOptions{Level: slog.LevelDebug}))})
	if err != nil {
		w.t.Fatal(err)
	}
	paths, err := filename.New(filename.Options{Origin: w.url})
	if err != nil {
		w.t.Fatal(err)
	}
	return m, &transfer.Fetcher{Client: client, Store: &w.store, Shared: transfer.NewShared(), Clock: time.Now, Names: reserve.New(paths, &w.store),
		Lookup: func(_ context.Context, uris []string) ([]journal.Held, error) {
			return make([]journal.Held, len(uris)), nil
		},
		OnDisk: func(context.Context, *journal.Held) (bool, error) { return false, nil }, Hashers: content.Hashers{}}
}

func (w *world) action(path string) *plan.Action {
	sum := sha256.Sum256([]byte(path))
	return &plan.Action{Verb: plan.Fetch, Resource: desired.Resource{URI: w.url + path, Length: int64(len(path)),
		Hashes: resourcesync.Hashes{{Algorithm: resourcesync.SHA256, Digest: string(sum[:])}}}}
}

// keep runs what a process does, until ctx ends.
func keep(t *testing.T, ctx context.Context, m *share.Member, run ...func(context.Context)) {
	var g sync.WaitGroup
	g.Go(func() { _ = m.Keep(ctx) }) // the end of the lease shows elsewhere
	for _, f := range run {
		g.Go(func() { f(ctx) })
	}
	t.Cleanup(g.Wait)
}

// A worker that assists until ctx ends.
func (w *world) assist(ctx context.Context, lease time.Duration) *share.Member {
	m, f := w.join(lease)
	keep(w.t, ctx, m, func(ctx context.Context) { _ = share.Assist(ctx, m, f, 8) })
	return m
}

// Actions are divided among the processes, each is carried out once, and what another process
// cannot do is handed back.
func TestPool(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	w.table.Coordinate(1, true)
	m, f := w.join(time.Minute)
	helpers := []*share.Member{w.assist(ctx, time.Minute), w.assist(ctx, time.Minute)}
	pool := share.NewPool(m, 1)
	keep(t, ctx, m, pool.Run)
	if err := pool.Begin(ctx); err != nil {
		t.Fatal(err)
	}
	deadline := time.Now().Add(30 * time.Second)
	for pool.Workers() < 2 {
		if time.Now().After(deadline) {
			t.Fatal("the others do not take part")
		}
		time.Sleep(10 * time.Millisecond)
	}
	outcomes, own := w.session(ctx, pool, f, 300)
	var ws []blob.Writer
	for _, o := range outcomes {
		if o.Err != nil || o.Writer == nil || o.Held.Path == "" {
			t.Fatalf("%s: %v", o.Action.URI, o.Err)
		}
		ws = append(ws, o.Writer)
	}
	if !slices.Contains(own, w.url+"/missing") || len(ws)+len(own) != 301 || len(ws) == 0 {
		t.Fatalf("%d contents, and %v", len(ws), own)
	}
	for _, err := range w.store.List(ctx, "") {
		t.Fatal("something is visible before the commit", err)
	}
	if err := pool.Commit(ctx, ws, w.store.Commit); err != nil {
		t.Fatal(err)
	}
	n := 0
	for info, err := range w.store.List(ctx, "") {
		if n++; err != nil || info.Size == 0 {
			t.Errorf("%v %v", info, err)
		}
	}
	if n != len(ws) || helpers[0].Committed()+helpers[1].Committed() != int64(n) || pool.Fetched() != int64(n) {
		t.Errorf("%d objects, %d contents, committed by %d and %d", n, len(ws), helpers[0].Committed(), helpers[1].Committed())
	}
}

// session has n resources fetched, and one that is missing. It returns the outcomes of other
// processes, and what this one is to do.
func (w *world) session(ctx context.Context, pool *share.Pool, f *transfer.Fetcher, n int) (outcomes []transfer.Outcome, own []string) {
	var mu sync.Mutex
	var s *share.Session
	ready := make(chan struct{})
	s = pool.Start(ctx, f, func(o transfer.Outcome) {
		mu.Lock()
		defer mu.Unlock()
		outcomes = append(outcomes, o)
	}, func(a *plan.Action) {
		<-ready
		mu.Lock()
		own = append(own, a.URI)
		mu.Unlock()
		if len(a.URI) > len(w.url)+len("/missing") || a.URI == w.url+"/missing" {
			go func() {
				time.Sleep(20 * time.Millisecond)
				s.Ended(a)
			}()
		}
	})
	close(ready)
	for i := range n {
		if !s.Take(ctx, w.action(fmt.Sprintf("/resource/%d", i))) {
			w.t.Error("an action is not accepted")
		}
	}
	s.Take(ctx, w.action("/missing"))
	s.Finish(ctx, true)
	return outcomes, own
}

// What a process has in hand when it dies is given up: before it is fetched, and when it is to be
// committed.
func TestPoolDeath(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	w.table.Coordinate(1, true)
	const lease = time.Second
	m, f := w.join(time.Minute)
	dying, die := context.WithCancel(ctx)
	w.assist(dying, lease)
	pool := share.NewPool(m, 1)
	keep(t, ctx, m, pool.Run)
	if err := pool.Begin(ctx); err != nil {
		t.Fatal(err)
	}
	for pool.Workers() < 1 {
		time.Sleep(10 * time.Millisecond)
	}
	outcomes, _ := w.session(ctx, pool, f, 50)
	w.slow.Store(300)
	time.AfterFunc(100*time.Millisecond, die)
	again, own := w.session(ctx, pool, f, 50)
	if len(again)+len(own) != 51 {
		t.Errorf("%d contents, and %d handed back", len(again), len(own))
	}
	die()
	err := pool.Commit(ctx, []blob.Writer{outcomes[0].Writer}, w.store.Commit)
	var ce *blob.CommitError
	if !errors.As(err, &ce) || !errors.Is(err, transfer.ErrGone) || ce.Done != 0 {
		t.Errorf("commit of what is gone: %v", err)
	}
}

// A Commit of which a content of this process fails is repeated with those that it has not committed.
func TestPoolCommitAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	w.table.Coordinate(1, true)
	m, f := w.join(time.Minute)
	dying, die := context.WithCancel(ctx)
	w.assist(dying, time.Second)
	pool := share.NewPool(m, 1)
	keep(t, ctx, m, pool.Run)
	for pool.Workers() < 1 {
		time.Sleep(10 * time.Millisecond)
	}
	outcomes, _ := w.session(ctx, pool, f, 50)
	die()
	var ws []blob.Writer
	for i := range 5 {
		if i == 1 {
			ws = append(ws, outcomes[0].Writer) // gone
			continue
		}
		own, err := w.store.Create(ctx, fmt.Sprint("own/", i))
		if err != nil {
			t.Fatal(err)
		}
		ws = append(ws, own)
	}
	refused := errors.New("refused")
	var given [][]string
	own := func(ctx context.Context, ws ...blob.Writer) error {
		var names []string
		for _, bw := range ws {
			names = append(names, bw.Name())
		}
		given = append(given, names)
		done := slices.Index(names, "own/4")
		if done < 0 {
			return w.store.Commit(ctx, ws...)
		}
		return errors.Join(w.store.Commit(ctx, ws[:done]...), &blob.CommitError{Done: done, Name: "own/4", Err: refused})
	}
	var ce *blob.CommitError
	if err := pool.Commit(ctx, ws, own); !errors.As(err, &ce) || ce.Done != 1 || !errors.Is(err, transfer.ErrGone) {
		t.Fatalf("the first Commit: %v", err)
	}
	if err := pool.Commit(ctx, ws[2:], own); !errors.As(err, &ce) || ce.Done != 2 || !errors.Is(err, refused) {
		t.Fatalf("the second: %v", err)
	}
	if want := [][]string{{"own/0", "own/2", "own/3", "own/4"}, {"own/4"}}; fmt.Sprint(given) != fmt.Sprint(want) {
		t.Errorf("this process has committed %v, want %v", given, want)
	}
}

// The error of a Commit has the name of the content that failed, which need not be the first that
// is not visible.
func TestPoolCommitNames(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	m, _ := w.join(time.Minute)
	var ws []blob.Writer
	for i := range 3 {
		own, err := w.store.Create(t.Context(), fmt.Sprint("own/", i))
		if err != nil {
			t.Fatal(err)
		}
		ws = append(ws, own)
	}
	refused := errors.New("refused")
	err := share.NewPool(m, 1).Commit(t.Context(), ws, func(context.Context, ...blob.Writer) error {
		return &blob.CommitError{Name: "own/2", Err: refused}
	})
	if want := (&blob.CommitError{Name: "own/2", Err: refused}); err == nil || err.Error() != want.Error() {
		t.Errorf("Commit: %v, want %v", err, want)
	}
}

// A lossyTable loses the answer of the first Send, which was done.
type lossyTable struct {
	share.Table
	lost atomic.Bool
}

func (l *lossyTable) Send(ctx context.Context, ms []share.Message) error {
	err := l.Table.Send(ctx, ms)
	if err == nil && len(ms) > 0 && !l.lost.Swap(true) {
		time.Sleep(time.Second) // meanwhile they are received, and removed
		return errBroken
	}
	return err
}

// A message that is sent again, because it is not known whether it was, is handled once.
func TestMessagesTwice(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	w.table.Coordinate(1, true)
	m, f := w.joinBy(&lossyTable{Table: &w.table}, time.Minute)
	helper, hf := w.joinBy(&lossyTable{Table: &w.table}, time.Minute)
	keep(t, ctx, helper, func(ctx context.Context) { _ = share.Assist(ctx, helper, hf, 8) })
	pool := share.NewPool(m, 1)
	keep(t, ctx, m, pool.Run)
	for pool.Workers() < 1 {
		time.Sleep(10 * time.Millisecond)
	}
	outcomes, _ := w.session(ctx, pool, f, 200)
	var ws []blob.Writer
	for _, o := range outcomes {
		ws = append(ws, o.Writer)
	}
	if err := pool.Commit(ctx, ws, w.store.Commit); err != nil || len(ws) == 0 {
		t.Fatalf("Commit of %d: %v", len(ws), err)
	}
	if n := w.requests.Load(); n > int64(len(ws)+1) { // what is missing may have been requested as well
		t.Errorf("%d requests for %d contents", n, len(ws))
	}
	if n, _ := pool.Traffic(); n != w.requests.Load() {
		t.Errorf("the coordinator counts %d requests of %d", n, w.requests.Load())
	}
	open := func() int {
		if err := m.Look(ctx); err != nil {
			t.Fatal(err)
		}
		view, _ := m.View()
		return view.Alive[slices.IndexFunc(view.Alive, func(p share.Process) bool { return p.ID == helper.ID() })].Open
	}
	for end := time.Now().Add(5 * time.Second); open() > 0; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("the other process has %d contents in hand", open())
		}
	}
}

// A new coordinator waits until no process works for the last one, and processes drop what they had
// for that.
func TestPoolTakeover(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	w.table.Coordinate(1, true)
	old, _ := w.join(300 * time.Millisecond) // the last coordinator, which is dead
	if err := old.WorkFor(ctx, 1); err != nil {
		t.Fatal(err)
	}
	helper := w.assist(ctx, time.Minute)
	for helper.Run() != 1 {
		time.Sleep(time.Millisecond)
	}
	w.table.Coordinate(2, true)
	m, _ := w.join(time.Minute)
	start := time.Now()
	if err := share.NewPool(m, 2).Begin(ctx); err != nil {
		t.Fatal(err)
	}
	if d := time.Since(start); d < 200*time.Millisecond || helper.Run() != 2 {
		t.Errorf("it began after %v, with a process that works for %d", d, helper.Run())
	}
	if err := old.MayWrite(); !errors.Is(err, share.ErrExpired) {
		t.Errorf("the last coordinator may write: %v", err)
	}
}

// A coordinator that waits for another process learns that it has a successor, which waits for
// it: it does not wait on.
func TestPoolTakeoverWhileWaiting(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.table.Coordinate(1, true)
	m, _ := w.join(time.Minute)
	w.join(time.Minute) // works for no coordinator yet, and never will
	time.AfterFunc(200*time.Millisecond, func() { w.table.Coordinate(2, true) })
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if err := share.NewPool(m, 1).Begin(ctx); !errors.Is(err, share.ErrExpired) {
		t.Errorf("Begin: %v, want %v", err, share.ErrExpired)
	}
}

// A brokenTable cannot be used while broken is set.
type brokenTable struct {
	share.Table
	broken atomic.Bool
	asked  atomic.Int64 // how often it was to be used while it was broken
}

var errBroken = errors.New("connection refused")

func (b *brokenTable) Renew(ctx context.Context, p share.Process, lease time.Duration) (share.View, error) {
	if b.broken.Load() {
		b.asked.Add(1)
		return share.View{}, errBroken
	}
	return b.Table.Renew(ctx, p, lease)
}

func (b *brokenTable) Receive(ctx context.Context, to string, received []share.Message) ([]share.Message, error) {
	if b.broken.Load() {
		return nil, errBroken
	}
	return b.Table.Receive(ctx, to, received)
}

func (b *brokenTable) Send(ctx context.Context, ms []share.Message) error {
	if b.broken.Load() {
		return errBroken
	}
	return b.Table.Send(ctx, ms)
}

// An outage of the database is reported once, however many requests fail.
func TestOutageIsReportedOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.table.Coordinate(1, true)
	client, err := fetch.New(fetch.Options{AllowPrivate: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	table := &brokenTable{Table: &w.table}
	log, err := os.Create(filepath.Join(t.TempDir(), "log"))
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	m, err := share.Join(t.Context(), table, client, share.Options{Lease: time.Second, Logger: slog.New(slog.NewTextHandler(log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	pool := share.NewPool(m, 1)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	table.broken.Store(true)
	g := sync.WaitGroup{}
	defer g.Wait()
	defer cancel()
	g.Go(func() { pool.Run(ctx) })
	if err := m.Keep(ctx); !errors.Is(err, share.ErrExpired) {
		t.Errorf("Keep: %v", err)
	}
	text, err := os.ReadFile(log.Name())
	if n := strings.Count(string(text), "level=WARN"); err != nil || n != 1 || !strings.Contains(string(text), "connection refused") {
		t.Errorf("%d warnings: %s, %v", n, text, err)
	}
}

// A process that cannot say for which coordinator it works tries again after a while.
func TestAssistPauses(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.table.Coordinate(1, true)
	table := &brokenTable{Table: &w.table}
	m, f := w.joinBy(table, time.Minute)
	table.broken.Store(true)
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	_ = share.Assist(ctx, m, f, 1) // ctx ends it
	if n := table.asked.Load(); n == 0 || n > 8 {
		t.Errorf("the table was asked %d times within a second", n)
	}
}

// A hangingTable does not answer the first Renew, Send and Receive after hang is set.
type hangingTable struct {
	share.Table
	hang, renew, send, receive atomic.Bool
}

func (h *hangingTable) wait(ctx context.Context, done *atomic.Bool) error {
	if !h.hang.Load() || done.Swap(true) {
		return nil
	}
	<-ctx.Done()
	return ctx.Err()
}

func (h *hangingTable) Renew(ctx context.Context, p share.Process, lease time.Duration) (share.View, error) {
	if err := h.wait(ctx, &h.renew); err != nil {
		return share.View{}, err
	}
	return h.Table.Renew(ctx, p, lease)
}

func (h *hangingTable) Receive(ctx context.Context, to string, received []share.Message) ([]share.Message, error) {
	if err := h.wait(ctx, &h.receive); err != nil {
		return nil, err
	}
	return h.Table.Receive(ctx, to, received)
}

func (h *hangingTable) Send(ctx context.Context, ms []share.Message) error {
	if len(ms) > 0 {
		if err := h.wait(ctx, &h.send); err != nil {
			return err
		}
	}
	return h.Table.Send(ctx, ms)
}

// A request to the table that is not answered, because its connection has broken unnoticed, is
// given up and repeated.
func TestTableHangs(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	const lease = 2 * time.Second
	one, two := &hangingTable{Table: &w.table}, &hangingTable{Table: &w.table}
	m, f := w.joinBy(one, lease)
	helper, hf := w.joinBy(two, lease)
	one.hang.Store(true)
	two.hang.Store(true)
	keep(t, ctx, m)
	keep(t, ctx, helper, func(ctx context.Context) { _ = share.Assist(ctx, helper, hf, 8) })
	w.table.Coordinate(1, true)
	pool := share.NewPool(m, 1)
	keep(t, ctx, m, pool.Run)
	for end := time.Now().Add(10 * time.Second); pool.Workers() < 1; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the other process does not take part")
		}
	}
	within, stop := context.WithTimeout(ctx, 20*time.Second)
	defer stop()
	if outcomes, _ := w.session(within, pool, f, 200); within.Err() != nil || len(outcomes) == 0 {
		t.Errorf("%d contents, %v", len(outcomes), within.Err())
	}
}

// A heldStore holds back each Commit until it is released.
type heldStore struct {
	blob.Store
	release           chan struct{}
	started, canceled atomic.Int64
}

func (h *heldStore) Commit(ctx context.Context, ws ...blob.Writer) error {
	h.started.Add(1)
	select {
	case <-h.release:
		return h.Store.Commit(ctx, ws...)
	case <-ctx.Done():
		h.canceled.Add(1) // although the service may have it
		return ctx.Err()
	}
}

// A process that is storing contents when it gets another coordinator finishes that, starts no more, and
// only then works for the other one.
func TestAssistFinishesStoring(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	w.table.Coordinate(1, true)
	m, f := w.join(time.Minute)
	helper, hf := w.join(time.Minute)
	store := &heldStore{Store: &w.store, release: make(chan struct{})}
	hf.Store = store
	keep(t, ctx, helper, func(ctx context.Context) { _ = share.Assist(ctx, helper, hf, 8) })
	pool := share.NewPool(m, 1)
	var ws []blob.Writer
	keep(t, ctx, m, pool.Run)
	for pool.Workers() < 1 {
		time.Sleep(10 * time.Millisecond)
	}
	outcomes, _ := w.session(ctx, pool, f, 200)
	for _, o := range outcomes {
		ws = append(ws, o.Writer)
	}
	const most = 32 // at a time
	if len(ws) <= most {
		t.Fatalf("only %d contents", len(ws))
	}
	keep(t, ctx, m, func(ctx context.Context) { _ = pool.Commit(ctx, ws, w.store.Commit) }) // it gets no answer
	wait := func(what string, is func() bool) {
		t.Helper()
		for end := time.Now().Add(10 * time.Second); !is(); time.Sleep(10 * time.Millisecond) {
			if time.Now().After(end) {
				t.Fatal(what)
			}
		}
	}
	wait("nothing is stored", func() bool { return store.started.Load() == most })
	w.table.Coordinate(2, true)
	time.Sleep(time.Second)
	if run := helper.Run(); run != 1 || store.canceled.Load() > 0 {
		t.Errorf("while it is storing, the process works for %d; %d requests were canceled", run, store.canceled.Load())
	}
	close(store.release)
	wait("the process does not work for the other coordinator", func() bool { return helper.Run() == 2 })
	n := 0
	for _, err := range w.store.List(ctx, "") {
		if err != nil {
			t.Fatal(err)
		}
		n++
	}
	if started := store.started.Load(); started != most || n != most {
		t.Errorf("%d were started, and %d stored, want %d", started, n, most)
	}
}

// A forgetfulTable loses the first messages of a kind.
type forgetfulTable struct {
	share.Table
	kind share.Kind
	lost atomic.Bool
}

func (f *forgetfulTable) Send(ctx context.Context, ms []share.Message) error {
	if slices.ContainsFunc(ms, func(m share.Message) bool { return m.Kind == f.kind }) && !f.lost.Swap(true) {
		ms = slices.DeleteFunc(slices.Clone(ms), func(m share.Message) bool { return m.Kind == f.kind })
	}
	return f.Table.Send(ctx, ms)
}

// Messages that the table has lost are sent again, although the other process has something in hand.
func TestMessagesLost(t *testing.T) {
	t.Parallel()
	for _, kind := range []share.Kind{share.ToFetch, share.Fetched, share.ToCommit, share.Committed} {
		t.Run(fmt.Sprint(kind), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			const lease = 2 * time.Second
			w.table.Coordinate(1, true)
			m, f := w.joinBy(&forgetfulTable{Table: &w.table, kind: kind}, lease)
			helper, hf := w.joinBy(&forgetfulTable{Table: &w.table, kind: kind}, lease)
			keep(t, ctx, helper, func(ctx context.Context) { _ = share.Assist(ctx, helper, hf, 8) })
			pool := share.NewPool(m, 1)
			keep(t, ctx, m, pool.Run)
			for pool.Workers() < 1 {
				time.Sleep(10 * time.Millisecond)
			}
			within, stop := context.WithTimeout(ctx, 20*time.Second)
			defer stop()
			outcomes, _ := w.session(within, pool, f, 200)
			var ws []blob.Writer
			for _, o := range outcomes {
				ws = append(ws, o.Writer)
			}
			for {
				err := pool.Commit(within, ws, w.store.Commit)
				ce, some := errors.AsType[*blob.CommitError](err)
				if some {
					ws = ws[ce.Done+1:] // the one is fetched again
					continue
				}
				if err != nil || len(outcomes) == 0 || within.Err() != nil {
					t.Errorf("%d contents, %v, %v", len(outcomes), err, within.Err())
				}
				return
			}
		})
	}
}

// A slowTable takes its time for the first Renew.
type slowTable struct {
	share.Table
	time time.Duration
	once sync.Once
}

func (s *slowTable) Renew(ctx context.Context, p share.Process, lease time.Duration) (share.View, error) {
	s.once.Do(func() {
		select {
		case <-ctx.Done():
		case <-time.After(s.time):
		}
	})
	return s.Table.Renew(ctx, p, lease)
}

// The first answer, for which the database may need a connection, may take longer than a lease.
func TestJoinSlow(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	m, _ := w.joinBy(&slowTable{Table: &w.table, time: 700 * time.Millisecond}, 500*time.Millisecond)
	if err := m.MayWrite(); err != nil || m.Lease() > time.Second {
		t.Errorf("MayWrite: %v, with a lease of %v", err, m.Lease())
	}
}
