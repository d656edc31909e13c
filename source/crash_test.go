package source_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"lockstep/blob"
	"lockstep/blob/faultfs"
	"lockstep/source"
)

var errFault = errors.New("no space left on device")

// faulty returns a store in which a step of a publication fails: a creation, a
// write, the switching of one name, a removal. With crash everything fails from
// there on: after every second step because the power is cut.
func faulty(s blob.Store, failAt int, crash bool) *faultfs.Store {
	return &faultfs.Store{Store: s, Faults: &faultfs.Faults{At: failAt, Err: errFault, Count: 1, Mode: faultMode(failAt, crash)}}
}

func faultMode(step int, crash bool) faultfs.Mode {
	switch {
	case !crash:
		return faultfs.Full
	case step%2 == 0:
		return faultfs.PowerCut
	}
	return faultfs.Killed
}

// TestCrashAnywhere plays one history again and again, with a fault at the
// first, the second, … step of writing. After every single step that shows,
// what is published is whole and true; after the fault, a repeated Publish,
// by a new process after a crash, brings all up to date.
func TestCrashAnywhere(t *testing.T) {
	t.Parallel()
	for _, crash := range []bool{false, true} {
		t.Run(fmt.Sprintf("crash=%v", crash), func(t *testing.T) {
			t.Parallel()
			stride := 1
			if !crash {
				stride = 3 // what a crash leaves behind is the harder case
			}
			stride = apart(stride)
			for failAt := 1; ; failAt += stride {
				if reached := playFault(t, failAt, crash); !reached {
					if failAt < 100 {
						t.Errorf("only %d steps", failAt)
					}
					return
				}
				if t.Failed() {
					t.Fatalf("with a fault at step %d", failAt)
				}
			}
		})
	}
}

func playFault(t *testing.T, failAt int, crash bool) (reached bool) {
	t.Helper()
	w := newWorld(t, source.Options{MaxEntries: 3, Keep: 10 * time.Hour, Grace: 2 * time.Hour})
	seen := &immutability{TB: t, seen: make(map[string]string)}
	store := faulty(w.docs, failAt, crash)
	store.Faults.After = func() {
		if store.Faults.Steps() < failAt-1 {
			return // earlier runs were here
		}
		c, err := crawlAll(reader(store.Store))
		if err == nil {
			err = c.check(w.past)
		}
		if err != nil && !errors.Is(err, errNothing) {
			t.Errorf("step %d: %v", store.Faults.Steps(), err)
		}
		seen.check(w.files())
	}
	w.docs = store.Store
	s := newFailingSource(w, store, failAt, crash)
	script := []string{
		"a=1 b=2", "c=3", "d=4 e=5", "a=2", "b c", "", "f=1 g=1 h=1 i=1 j=1 k=1", "a=3", "b=3 e", "",
	}
	for i := 0; i < len(script) && s.further > 0; i++ {
		words := script[i]
		if words != "" {
			w.put(strings.Fields(words)...)
		}
		s.publish()
		w.pass(time.Hour)
		if i == 5 || i == 7 {
			w.pass(9 * time.Hour)
		}
	}
	return store.Faults.Steps() >= failAt
}

// A failingSource publishes to a store that fails at a step. After that it restarts,
// if it crashed, and publishes again.
type failingSource struct {
	*world
	faulty  world // with the store that fails
	store   *faultfs.Store
	failAt  int
	crash   bool
	src     *source.Source
	further int // publications to come after the one that failed
}

func newFailingSource(w *world, store *faultfs.Store, failAt int, crash bool) *failingSource {
	s := &failingSource{world: w, faulty: *w, store: store, failAt: failAt, crash: crash, further: 2}
	s.faulty.docs = store
	s.src = s.faulty.source()
	return s
}

func (s *failingSource) publish() {
	if _, err := s.src.Publish(context.Background()); err != nil {
		if !errors.Is(err, errFault) {
			s.Errorf("Publish = %v", err)
		}
		s.store.Faults.After()
		s.store.Faults.Restart()
		if s.crash {
			s.src = s.faulty.source()
		}
		s.pass(time.Minute)
		if s.failAt%2 == 0 {
			s.put(fmt.Sprintf("meanwhile=%d", s.failAt))
		}
		s.world.publish(s.src)
	}
	if s.store.Faults.Steps() >= s.failAt {
		s.upToDate()
		s.further--
	}
}

// TestCrashWhileLargeListIsSwitched has a publication die at each step of
// switching to a new Resource List, of a set too large to get one each time:
// the next publication must know which list is to be seen, or it would in time
// remove the parts of the wrong one.
func TestCrashWhileLargeListIsSwitched(t *testing.T) {
	t.Parallel()
	for failAt, reached := 1, true; reached; failAt++ {
		w := newWorld(t, source.Options{MaxEntries: 20, SmallSet: 10})
		w.fill("r%05d", 50)
		w.publish(w.source())
		w.pass(time.Minute)
		w.remove("resourcesync/main/resourcelist.xml") // a reason that is gone once the new one is there
		store := faulty(w.docs, failAt, true)
		faulty := *w
		faulty.docs = store
		_, err := faulty.source().Publish(context.Background())
		reached = err != nil
		w.put("a=1")
		w.publish(w.source())
		w.pass(25 * time.Hour)
		w.publish(w.source())
		w.upToDate()
		if t.Failed() {
			t.Fatalf("with a fault at step %d", failAt)
		}
	}
}

// immutability holds what must not change once it was seen (RS-IDX-06,
// RS-CHL-06).
type immutability struct {
	testing.TB
	seen map[string]string
}

func (m *immutability) check(files map[string]string) {
	for name, content := range files {
		_, content, _ = strings.Cut(content, "\n")
		old, known := m.seen[name]
		m.seen[name] = content
		if !known || old == content || strings.HasPrefix(name, ".lockstep/") {
			continue
		}
		if strings.Contains(name, "/resourcelist-") || strings.Contains(name, "/changelist-") && strings.Contains(old, `" until="`) {
			m.Errorf("%s was\n%s\nis\n%s", name, old, content)
		}
		if strings.Contains(name, "/changelist-") && !strings.HasPrefix(entriesOf(content), entriesOf(old)) {
			m.Errorf("%s was\n%s\nis\n%s\nwant entries to be appended only", name, old, content)
		}
	}
}

func entriesOf(document string) string {
	_, entries, _ := strings.Cut(document, "<url>")
	return strings.TrimSuffix(entries, "</urlset>\n")
}

// TestCrawledWhilePublishing has readers crawl over HTTP without pause while
// the set changes and publications fail or die at random steps: every crawl is
// whole and tells one true state.
func TestCrawledWhilePublishing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, source.Options{MaxEntries: 4, Workers: 3})
	var mu sync.Mutex // guards w.past, now and handler
	store := faulty(w.docs, 0, false)
	faulty := *w
	faulty.docs = store
	var handler http.Handler
	start := func() *source.Source {
		s := faulty.source()
		mu.Lock()
		handler = s.Handler()
		mu.Unlock()
		return s
	}
	s := start()
	server := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		mu.Lock()
		h := handler
		mu.Unlock()
		h.ServeHTTP(rw, r)
	}))
	t.Cleanup(server.Close)
	read := func(name string) ([]byte, error) {
		resp, err := server.Client().Get(server.URL + "/" + name)
		if err != nil {
			return nil, err
		}
		defer resp.Body.Close()
		if resp.StatusCode == http.StatusNotFound {
			return nil, blob.ErrNotExist
		}
		if resp.StatusCode != http.StatusOK {
			return nil, errFault // the process is down just now
		}
		return io.ReadAll(resp.Body)
	}
	done := make(chan struct{})
	var wg sync.WaitGroup
	var crawls int
	for range 3 {
		wg.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				c, err := crawlAll(read)
				mu.Lock()
				if err == nil {
					err = c.check(w.past)
					crawls++
				}
				mu.Unlock()
				if err != nil && !errors.Is(err, errNothing) && !errors.Is(err, errFault) {
					t.Error(err)
					return
				}
			}
		})
	}
	random := rand.New(rand.NewPCG(1, 2))
	for i := 0; ; i++ {
		mu.Lock()
		if i > 60 && crawls > 15 || t.Failed() {
			mu.Unlock()
			break
		}
		w.pass(time.Second)
		w.put(fmt.Sprintf("r%d=%d", i%17, i), fmt.Sprintf("s%d=%d", i%5, i))
		mu.Unlock()
		store.Faults.Arm(1+random.IntN(40), faultMode(random.IntN(2), random.IntN(2) == 0))
		if _, err := s.Publish(context.Background()); err != nil {
			store.Faults.Restart()
			s = start()
		}
	}
	store.Faults.Restart()
	w.publish(s)
	close(done)
	wg.Wait()
	w.upToDate()
}
