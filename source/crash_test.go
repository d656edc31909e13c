package source_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"lockstep/blob"
	"lockstep/source"
)

var errFault = errors.New("no space left on device")

// A faultyStore fails at one step: a creation, a write, the switching of one
// name, a removal. If it is to crash, everything fails from there on.
type faultyStore struct {
	blob.Store
	after   func() // called after each step that others can see
	mu      sync.Mutex
	step    int
	failAt  int
	crash   bool
	crashed bool
}

func (s *faultyStore) fault() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.step++
	if s.crashed || s.step == s.failAt {
		s.crashed = s.crash
		return errFault
	}
	return nil
}

func (s *faultyStore) Create(ctx context.Context, name string) (blob.Writer, error) {
	if err := s.fault(); err != nil {
		return nil, err
	}
	w, err := s.Store.Create(ctx, name)
	return faultyWriter{w, s}, err
}

type faultyWriter struct {
	blob.Writer
	s *faultyStore
}

func (w faultyWriter) Write(p []byte) (int, error) {
	if err := w.s.fault(); err != nil {
		return 0, err
	}
	return w.Writer.Write(p)
}

func (s *faultyStore) Commit(ctx context.Context, ws ...blob.Writer) error {
	for _, w := range ws {
		if err := s.fault(); err != nil {
			return err
		}
		if err := s.Store.Commit(ctx, w.(faultyWriter).Writer); err != nil {
			return err
		}
		s.after()
	}
	return nil
}

func (s *faultyStore) Remove(ctx context.Context, names ...string) error {
	for _, name := range names {
		if err := s.fault(); err != nil {
			return err
		}
		if err := s.Store.Remove(ctx, name); err != nil {
			return err
		}
		s.after()
	}
	return nil
}

func (s *faultyStore) Open(ctx context.Context, name string) (blob.Reader, error) {
	if s.isDead() {
		return nil, errFault
	}
	return s.Store.Open(ctx, name)
}

func (s *faultyStore) List(ctx context.Context, prefix string) iter.Seq2[blob.Info, error] {
	if s.isDead() {
		return func(yield func(blob.Info, error) bool) { yield(blob.Info{}, errFault) }
	}
	return s.Store.List(ctx, prefix)
}

func (s *faultyStore) isDead() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.crashed
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
	store := &faultyStore{Store: w.docs, failAt: failAt, crash: crash}
	store.after = func() {
		if store.step < failAt-1 {
			return // earlier runs were here
		}
		c, err := crawlAll(reader(store.Store))
		if err == nil {
			err = c.check(w.past)
		}
		if err != nil && !errors.Is(err, errNothing) {
			t.Errorf("step %d: %v", store.step, err)
		}
		seen.check(w.files())
	}
	w.docs = store.Store
	faulty := *w
	faulty.docs = store
	s := faulty.source()
	further := 2 // publications after the one that failed
	publish := func() {
		if _, err := s.Publish(context.Background()); err != nil {
			if !errors.Is(err, errFault) {
				t.Errorf("Publish = %v", err)
			}
			store.after()
			store.mu.Lock()
			store.crashed = false
			store.mu.Unlock()
			if crash {
				s = faulty.source()
			}
			w.pass(time.Minute)
			if failAt%2 == 0 {
				w.put(fmt.Sprintf("meanwhile=%d", failAt))
			}
			w.publish(s)
		}
		if store.step >= failAt {
			w.upToDate()
			further--
		}
	}
	script := []string{
		"a=1 b=2", "c=3", "d=4 e=5", "a=2", "b c", "", "f=1 g=1 h=1 i=1 j=1 k=1", "a=3", "b=3 e", "",
	}
	for i := 0; i < len(script) && further > 0; i++ {
		words := script[i]
		if words != "" {
			w.put(strings.Fields(words)...)
		}
		publish()
		w.pass(time.Hour)
		if i == 5 || i == 7 {
			w.pass(9 * time.Hour)
		}
	}
	return store.step >= failAt
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
		store := &faultyStore{Store: w.docs, after: func() {}, failAt: failAt, crash: true}
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
	store := &faultyStore{Store: w.docs, after: func() {}}
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
		store.mu.Lock()
		store.failAt, store.crash = store.step+1+random.IntN(40), random.IntN(2) == 0
		store.mu.Unlock()
		if _, err := s.Publish(context.Background()); err != nil {
			store.mu.Lock()
			store.crashed = false
			store.mu.Unlock()
			s = start()
		}
	}
	store.mu.Lock()
	store.failAt = 0
	store.mu.Unlock()
	w.publish(s)
	close(done)
	wg.Wait()
	w.upToDate()
}
