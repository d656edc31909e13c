package api_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"lockstep/catalog"
	"lockstep/intake"
	"lockstep/intake/api"
	"lockstep/internal/faultclock"
)

func TestAPIKeys(t *testing.T) {
	t.Parallel()
	cat, state := catalog.NewMem(nil), t.TempDir()
	a := newAPI(t, cat, api.Options{State: state})
	first := put("http://x", `{"length":1}`).key("A")
	_, answer := a.do(first)
	a.want(put("http://x", `{"length":2}`), 200, `"updated"`)
	batch := apiRequest{method: "POST", path: "/-/api/v1/sets/papers/changes", body: `[{"uri":"http://a"},{"uri":"http://x","length":3},{"uri":"http://z","change":"deleted"}]`}.key("B")
	_, batchAnswer := a.do(batch)
	again := func(a *apiTest) {
		t.Helper()
		for req, want := range map[*apiRequest]string{&first: answer, &batch: batchAnswer} {
			resp, body := a.do(*req)
			if body != want || resp.Header.Get("Idempotency-Replayed") != "true" {
				t.Errorf("%s again: %d %s, want %s", req.method, resp.StatusCode, body, want)
			}
		}
		if resp, _ := a.do(first); resp.StatusCode != 201 {
			t.Errorf("PUT again: status %d, want that of the first answer, 201", resp.StatusCode)
		}
		a.want(put("http://x", `{"length":1 }`).key("A"), 422, "for another request")
		a.want(put("http://y", `{"length":1}`).key(`"A"`), 422, "for another request")
		a.want(del("http://x").key("A"), 422, "for another request")
	}
	again(a)
	again(newAPI(t, cat, api.Options{State: state})) // as after a crash: nothing was closed
	if err := a.api.Close(); err != nil {
		t.Fatal(err)
	}
	again(newAPI(t, cat, api.Options{State: state}))
	want := "1 created http://x 1\n2 updated http://x 2\n3 created http://a -1\n4 updated http://x 3\n"
	if got := a.history(); got != want {
		t.Errorf("history\n%swant\n%s", got, want)
	}
}

// TestAPIKeyLife sees to it that keys are remembered for a day, and not longer.
func TestAPIKeyLife(t *testing.T) {
	t.Parallel()
	var now atomic.Int64
	now.Store(time.Now().UnixNano())
	state := t.TempDir()
	a := newAPI(t, nil, api.Options{State: state, MaxKeys: 3, Now: func() time.Time { return time.Unix(0, now.Load()) }})
	pass := func(d time.Duration) { now.Add(int64(d)) }
	a.want(put("http://x", `{"length":1}`).key("A"), 201)
	pass(2 * time.Hour)
	a.want(put("http://x", `{"length":2}`).key("B"), 200, "updated")
	a.want(put("http://x", `{"length":3}`).key("C"), 200, "updated")
	a.want(put("http://x", `{"length":4}`).key("D"), 503, "more idempotency keys than are remembered")
	pass(api.KeyLife - 2*time.Hour - time.Second)
	a.want(put("http://x", `{"length":1}`).key("A"), 201, "created")
	pass(time.Second)
	a.want(put("http://x", `{"length":3}`).key("C"), 200, "updated")
	a.want(put("http://x", `{"length":4}`), 200, "updated")
	pass(90 * time.Minute)
	a.want(put("http://x", `{"length":5}`).key("D"), 503) // A is forgotten, but goes with what was asked beside its answer
	pass(time.Hour)
	a.want(put("http://x", `{"length":1}`).key("A"), 200, "updated")
	files, err := filepath.Glob(filepath.Join(state, "papers", "*"))
	if err != nil || len(files) == 0 || len(files) > 2 {
		t.Errorf("files of keys: %v, %v", files, err)
	}
}

// TestAPIKeysOfAClockAhead sees to it that keys which a clock ahead by a year has
// recorded are remembered for a day from when the clock is right again.
func TestAPIKeysOfAClockAhead(t *testing.T) {
	t.Parallel()
	clock := faultclock.New(time.Now().AddDate(1, 0, 0))
	cat, state := catalog.NewMem(nil), t.TempDir()
	a := newAPI(t, cat, api.Options{State: state, MaxKeys: 1, Now: clock.Now})
	a.want(put("http://x", `{"length":1}`).key("A"), 201)
	if err := a.api.Close(); err != nil {
		t.Fatal(err)
	}
	clock.Set(time.Now())
	a = newAPI(t, cat, api.Options{State: state, MaxKeys: 1, Now: clock.Now})
	a.want(put("http://x", `{"length":1}`).key("A"), 201)
	a.want(put("http://x", `{"length":2}`).key("B"), 503)
	clock.Step(api.KeyLife)
	a.want(put("http://x", `{"length":2}`).key("B"), 200, "updated")
	a.want(put("http://x", `{"length":1}`).key("A"), 503)
}

// An owned catalog, with notes beside it, refuses the writes of a process that has lost it.
type owned struct {
	catalog.Catalog
	notes map[string][]byte // shared by the processes
	lost  bool
}

var errLost = errors.New("this process no longer owns the database")

func (o *owned) Apply(ctx context.Context, set string, updates []catalog.Update) (catalog.Applied, error) {
	if o.lost {
		return catalog.Applied{}, errLost
	}
	return o.Catalog.Apply(ctx, set, updates)
}

func (o *owned) Load(name string) ([]byte, error) { return o.notes[name], nil }

func (o *owned) SaveAll(notes map[string][]byte) error {
	if o.lost {
		return errLost
	}
	for name, text := range notes {
		o.notes[name] = text
	}
	return nil
}

// TestAPIFormerOwner sees to it that a process that has lost the database while it carried out a request does not
// take what its successor has applied for the result.
func TestAPIFormerOwner(t *testing.T) {
	t.Parallel()
	for _, recorded := range []bool{true, false} { // whether the request was, when the database was lost
		cat, notes := catalog.NewMem(nil), map[string][]byte{}
		g := newGate()
		g.Catalog = cat
		first, second := &owned{Catalog: g, notes: notes}, &owned{Catalog: cat, notes: notes}
		retry := func(err error) bool { return errors.Is(err, errLost) }
		a := newAPI(t, first, api.Options{Notes: first, Retry: retry})
		b := newAPI(t, second, api.Options{Notes: second, Retry: retry})
		if recorded {
			go func() {
				<-g.arrived
				first.lost = true
				b.want(put("http://y", `{"length":1}`), 201)
				g.orders <- gateOrder{err: errLost}
			}()
		} else {
			b.want(put("http://x", `{"length":9}`), 201)
			first.lost = true
		}
		a.want(put("http://x", `{"length":1}`).key("A"), 503)
		for range 3 {
			a.want(put("http://x", `{"length":1}`).key("A"), 503)
		}
		b.want(put("http://x", `{"length":1}`).key("A"), map[bool]int{true: 201, false: 200}[recorded])
		a.want(put("http://x", `{"length":1}`).key("A"), 503)
		first.lost = false // it is closed after the test
	}
}

// A gate is a catalog whose next Apply waits for a gateOrder.
type gate struct {
	catalog.Catalog
	arrived chan []catalog.Update
	orders  chan gateOrder
}

// A gateOrder says whether an Apply happens, and what it returns.
type gateOrder struct {
	apply bool
	err   error
}

func newGate() *gate {
	return &gate{catalog.NewMem(nil), make(chan []catalog.Update), make(chan gateOrder)}
}

func (g *gate) Apply(ctx context.Context, set string, us []catalog.Update) (a catalog.Applied, err error) {
	g.arrived <- us
	o := <-g.orders
	if o.apply {
		a, err = g.Catalog.Apply(ctx, set, us)
	}
	return a, errors.Join(err, o.err)
}

// queued waits until n requests wait for the one that is carried out.
func (a *apiTest) queued(n int) {
	a.t.Helper()
	for end := time.Now().Add(time.Minute); a.api.Set("papers").Queued() != n; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			a.t.Fatalf("%d requests wait, want %d", a.api.Set("papers").Queued(), n)
		}
	}
}

// TestAPIGroups sees to it that requests which arrive together are applied
// together, two about one resource apart, and a key that is busy is refused.
func TestAPIGroups(t *testing.T) {
	t.Parallel()
	g := newGate()
	a := newAPI(t, g, api.Options{})
	var wg sync.WaitGroup
	var mu sync.Mutex
	var got []string
	start := func(r apiRequest) {
		wg.Go(func() {
			resp, body := a.do(r)
			mu.Lock()
			defer mu.Unlock()
			got = append(got, fmt.Sprint(resp.StatusCode, " ", body))
		})
	}
	start(put("http://first", "{}").key("A"))
	<-g.arrived
	a.want(put("http://first", "{}").key("A"), 409, "is being carried out")
	for i := range 50 {
		start(put(fmt.Sprintf("http://%d", i), "{}").key(fmt.Sprint(i)))
	}
	a.queued(50)
	g.orders <- gateOrder{apply: true}
	groups, most, seen := 0, 0, 0
	for seen < 50 {
		us := <-g.arrived
		g.orders <- gateOrder{apply: true}
		groups, most, seen = groups+1, max(most, len(us)), seen+len(us)
	}
	if most < 10 {
		t.Errorf("50 requests went in %d groups of at most %d", groups, most)
	}
	wg.Wait()
	for _, s := range got {
		if !strings.HasPrefix(s, "201 ") || !strings.Contains(s, `"change":"created"`) {
			t.Errorf("answer %s", s)
		}
	}
	start(put("http://hold", "{}"))
	<-g.arrived
	for i := range 5 {
		start(put("http://same", fmt.Sprintf(`{"length":%d}`, i)))
	}
	a.queued(5)
	for range 5 {
		g.orders <- gateOrder{apply: true}
		if us := <-g.arrived; len(us) != 1 {
			t.Errorf("%d updates of one resource from different requests in a group", len(us))
		}
	}
	g.orders <- gateOrder{apply: true}
	wg.Wait()
}

// TestAPIBatchAlone checks that a batch with a key is applied alone, so that its
// result is known after a crash.
func TestAPIBatchAlone(t *testing.T) {
	t.Parallel()
	g := newGate()
	a := newAPI(t, g, api.Options{})
	var wg sync.WaitGroup
	batch := apiRequest{method: "POST", path: "/-/api/v1/sets/papers/changes", body: `[{"uri":"http://a"},{"uri":"http://b"}]`}
	for i, r := range []apiRequest{put("http://hold", "{}"), put("http://c", "{}"), batch.key("b"), put("http://d", "{}"), put("http://e", "{}").key("e")} {
		wg.Go(func() { a.do(r) })
		if i == 0 {
			<-g.arrived
		}
		a.queued(i)
	}
	for _, want := range []int{1, 2, 2} {
		g.orders <- gateOrder{apply: true}
		if us := <-g.arrived; len(us) != want {
			t.Errorf("%d updates applied together, want %d", len(us), want)
		}
	}
	g.orders <- gateOrder{apply: true}
	wg.Wait()
}

// TestAPIApplyFails sees to it that after an error it is found out whether the
// changes were made, and that a request is carried out once in any case.
func TestAPIApplyFails(t *testing.T) {
	t.Parallel()
	for _, made := range []bool{false, true} {
		for _, crash := range []bool{false, true} {
			t.Run(fmt.Sprintf("made=%v crash=%v", made, crash), func(t *testing.T) {
				t.Parallel()
				g, state := newGate(), t.TempDir()
				a := newAPI(t, g, api.Options{State: state})
				run := func(a *apiTest, o gateOrder, r apiRequest, status int, word string) {
					t.Helper()
					done := make(chan struct{})
					go func() {
						defer close(done)
						a.want(r, status, word)
					}()
					select {
					case <-g.arrived:
						g.orders <- o
						<-done
					case <-done:
					}
				}
				run(a, gateOrder{apply: true}, put("http://x", `{"length":1}`), 201, "created")
				failing := gateOrder{made, fmt.Errorf("write page: %w", syscall.ENOSPC)}
				run(a, failing, put("http://x", `{"length":2}`).key("A"), 507, "write page")
				if crash {
					a = newAPI(t, g, api.Options{State: state})
				}
				seq := 2
				if !made {
					run(a, gateOrder{apply: true}, put("http://x", `{"length":3}`), 200, `"updated","seq":2`)
					seq = 3
				}
				run(a, gateOrder{apply: true}, put("http://x", `{"length":2}`).key("A"), 200, fmt.Sprintf(`"updated","seq":%d`, seq))
				if made {
					run(a, gateOrder{apply: true}, put("http://x", `{"length":3}`), 200, `"updated","seq":3`)
				}
				before := a.history()
				run(a, gateOrder{apply: true}, put("http://x", `{"length":2}`).key("A"), 200, fmt.Sprintf(`"updated","seq":%d`, seq))
				if after := a.history(); after != before || strings.Count(after, "\n") != 3 {
					t.Errorf("history\n%safter the same request again\n%s", before, after)
				}
			})
		}
	}
}

// TestAPICrash takes copies of the state at moments at which a crash could come,
// and goes on from them.
func TestAPICrash(t *testing.T) {
	t.Parallel()
	for _, made := range []bool{false, true} {
		t.Run(fmt.Sprint("made=", made), func(t *testing.T) {
			t.Parallel()
			g, state := newGate(), t.TempDir()
			a := newAPI(t, g, api.Options{State: state})
			done := make(chan struct{})
			requests := []apiRequest{
				put("http://x", `{"length":1}`).key("x"), put("http://y", `{"length":1}`).key("y"), del("http://z").key("z"),
				{method: "POST", path: "/-/api/v1/sets/papers/changes", body: `[{"uri":"http://p"},{"uri":"http://p"},{"uri":"http://q"}]`,
					header: map[string]string{"Idempotency-Key": "b"}},
			}
			var answers []string
			for i, r := range requests {
				go func() {
					_, body := a.do(r)
					answers = append(answers, body)
					done <- struct{}{}
				}()
				<-g.arrived
				if i == len(requests)-1 && !made {
					break // the process ends here
				}
				g.orders <- gateOrder{apply: true}
				<-done
			}
			copied := t.TempDir()
			if err := os.CopyFS(copied, os.DirFS(state)); err != nil {
				t.Fatal(err)
			}
			b := newAPI(t, g.Catalog, api.Options{State: copied})
			for i, r := range requests {
				resp, body := b.do(r)
				if i < len(answers) && (body != answers[i] || resp.Header.Get("Idempotency-Replayed") == "") {
					t.Errorf("%s after the crash: %d %s, want %s", r.method, resp.StatusCode, body, answers[i])
				}
			}
			if !made {
				g.orders <- gateOrder{}
				<-done
			}
			want := "1 created http://x 1\n2 created http://y 1\n3 created http://p -1\n4 created http://q -1\n"
			if got := b.history(); got != want {
				t.Errorf("history\n%swant\n%s", got, want)
			}
		})
	}
}

// TestAPIKeysDamaged truncates and damages the file of keys at every byte: the keys
// before are still known, and nothing fails.
func TestAPIKeysDamaged(t *testing.T) {
	t.Parallel()
	cat, state := catalog.NewMem(nil), t.TempDir()
	a := newAPI(t, cat, api.Options{State: state})
	a.want(put("http://x", `{"length":1}`).key("A"), 201)
	a.want(put("http://x", `{"length":2}`).key("B"), 200)
	if err := a.api.Close(); err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(state, "papers", "*"))
	if err != nil || len(files) != 1 {
		t.Fatalf("files %v, %v", files, err)
	}
	text, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	for n := 0; n < len(text); n += 7 {
		dir := t.TempDir()
		path := filepath.Join(dir, "papers", filepath.Base(files[0]))
		if err := os.Mkdir(filepath.Dir(path), 0o777); err != nil {
			t.Fatal(err)
		}
		damaged := append([]byte(nil), text...)
		damaged[n] ^= 0x10
		if n%2 == 0 {
			damaged = damaged[:n]
		}
		if err := os.WriteFile(path, damaged, 0o666); err != nil {
			t.Fatal(err)
		}
		b := newAPI(t, cat, api.Options{State: dir})
		resp, body := b.do(put("http://x", `{"length":2}`).key("B"))
		if resp.StatusCode != http.StatusOK {
			t.Fatalf("damaged at %d: %d %s", n, resp.StatusCode, body)
		}
	}
}

// TestAPICatalogRestored sees to it that keys do not speak of a catalog that is
// no more.
func TestAPICatalogRestored(t *testing.T) {
	t.Parallel()
	state := t.TempDir()
	a := newAPI(t, nil, api.Options{State: state})
	for i := range 3 {
		a.want(put("http://x", fmt.Sprintf(`{"length":%d}`, i)).key(fmt.Sprint(i)), 201-min(i, 1))
	}
	if err := a.api.Close(); err != nil {
		t.Fatal(err)
	}
	b := newAPI(t, nil, api.Options{State: state})
	b.want(put("http://x", `{"length":2}`).key("2"), 201, `"created","seq":1`)
}

// TestAPIKeysUnwritable sees to it that nothing is changed if a key cannot be
// put down, and that it is possible later.
func TestAPIKeysUnwritable(t *testing.T) {
	t.Parallel()
	state := t.TempDir()
	a := newAPI(t, nil, api.Options{State: state})
	if err := os.WriteFile(filepath.Join(state, "papers"), nil, 0o666); err != nil {
		t.Fatal(err)
	}
	a.want(put("http://x", `{}`).key("A"), 500, "papers")
	if err := os.Remove(filepath.Join(state, "papers")); err != nil {
		t.Fatal(err)
	}
	a.want(put("http://x", `{}`).key("A"), 201)
	if got := a.history(); got != "1 created http://x -1\n" {
		t.Errorf("history %s", got)
	}
}

func TestAPIWatch(t *testing.T) {
	t.Parallel()
	notified := make(chan string, 10)
	a := newAPI(t, nil, api.Options{Changed: func(set string) { notified <- set }})
	ctx, stop := context.WithCancelCause(t.Context())
	reports := make(chan intake.Report)
	ended := make(chan error)
	set := a.api.Set("papers")
	if r, err := set.Scan(ctx); err != nil || r.Changed() {
		t.Errorf("Scan = %+v, %v", r, err)
	}
	go func() { ended <- set.Watch(ctx, func(r intake.Report) { reports <- r }) }()
	a.want(put("http://x", "{}"), 201)
	if r := <-reports; r.Created != 1 || <-notified != "papers" {
		t.Errorf("Watch notified %+v", r)
	}
	a.want(put("http://x", "{}"), 200)
	a.want(del("http://x"), 200)
	if r := <-reports; r.Deleted != 1 || r.Unchanged != 1 {
		t.Errorf("Watch notified %+v", r)
	}
	stop(errEnough)
	if err := <-ended; !errors.Is(err, errEnough) {
		t.Errorf("Watch: %v", err)
	}
}

var errEnough = errors.New("enough")
