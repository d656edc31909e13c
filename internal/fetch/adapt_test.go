package fetch_test

import (
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"lockstep/internal/fetch"
)

const sourceHost = "source.example"

// A remote is a server with a number of places, each of which answers after a
// fixed time.
type remote struct {
	way    time.Duration // round trip time
	work   time.Duration // in a place
	places chan struct{}
	body   time.Duration                    // to send the body
	status func(n int, at time.Time) string // may change the answer: a status and header
	mu     sync.Mutex                       // guards the rest
	now    int
	most   int
	asked  []time.Time
}

func (s *remote) serve(w *wire, _ *http.Request, n int) {
	s.mu.Lock()
	s.now++
	s.most = max(s.most, s.now)
	s.asked = append(s.asked, time.Now())
	s.mu.Unlock()
	time.Sleep(s.way)
	if s.places != nil {
		s.places <- struct{}{}
	}
	time.Sleep(s.work)
	if s.places != nil {
		<-s.places
	}
	s.mu.Lock()
	s.now--
	s.mu.Unlock()
	other := ""
	if s.status != nil {
		other = s.status(n, time.Now())
	}
	switch {
	case other == "break":
	case other != "":
		w.say("HTTP/1.1 %s\r\nContent-Length: 0\r\nConnection: close\r\n\r\n", other)
	default:
		w.say("HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\n")
		time.Sleep(s.body)
		w.say("hello")
	}
}

// fetchAll gets n resources with that many workers, and returns the duration.
func fetchAll(t *testing.T, c *fetch.Client, n, workers int) time.Duration {
	t.Helper()
	took, failed := fetchSome(t, c, n, workers)
	if failed > 0 {
		t.Errorf("%d of %d resources failed", failed, n)
	}
	return took
}

// fetchSome is fetchAll where some may fail: it returns how many did.
func fetchSome(t *testing.T, c *fetch.Client, n, workers int) (took time.Duration, failed int64) {
	t.Helper()
	start := time.Now()
	todo := make(chan struct{}, n)
	for range n {
		todo <- struct{}{}
	}
	close(todo)
	var wg sync.WaitGroup
	var failures atomic.Int64
	for range workers {
		wg.Go(func() {
			for range todo {
				if _, err := get(t.Context(), c, fetch.Request{URI: "/a"}); err != nil {
					t.Log(err)
					failures.Add(1)
				}
			}
		})
	}
	wg.Wait()
	return time.Since(start), failures.Load()
}

// A near host with only one place, where most answers have waited for others,
// does not count as far.
func TestAdaptNearSlow(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &remote{work: time.Millisecond, places: make(chan struct{}, 1)}
		c := wired(t, fetch.Options{}, s.serve)
		if fetchAll(t, c, 200, 200); s.most != fetch.DefaultJobs {
			t.Errorf("%d requests were under way, want %d", s.most, fetch.DefaultJobs)
		}
	})
}

// For a near host, a short run opens no more connections than the initial ones,
// and a long run few more.
func TestAdaptNear(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &remote{work: time.Millisecond}
		c := wired(t, fetch.Options{}, s.serve)
		if fetchAll(t, c, 90, 90); s.most != fetch.DefaultJobs {
			t.Errorf("a short run had %d requests under way, want %d", s.most, fetch.DefaultJobs)
		}
		if fetchAll(t, c, 3000, 500); s.most != 64 {
			t.Errorf("a long run had %d requests under way, want 64", s.most)
		}
	})
}

// If an answer has a high latency, other requests use the time.
func TestAdaptFar(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &remote{way: 50 * time.Millisecond}
		c := wired(t, fetch.Options{}, s.serve)
		took := fetchAll(t, c, 4000, 700)
		if s.most < 450 || s.most > fetch.MaxJobs || took > 1200*time.Millisecond {
			t.Errorf("4000 fetches at 50ms: up to %d under way, %s; want about 500, 1.2s", s.most, took)
		}
	})
}

// If documents were read before, the first requests depend on their latency.
func TestAdaptFirst(t *testing.T) {
	t.Parallel()
	for way, want := range map[time.Duration]int{time.Millisecond: fetch.DefaultJobs, 30 * time.Millisecond: 75, 90 * time.Millisecond: 128, time.Second: 64} {
		synctest.Test(t, func(t *testing.T) {
			s := &remote{way: way}
			c := wired(t, fetch.Options{}, s.serve)
			for range 2 {
				if _, err := get(t.Context(), c, fetch.Request{URI: "/list", Document: true}); err != nil {
					t.Fatal(err)
				}
			}
			if got := c.Limit(sourceHost); got != want {
				t.Errorf("%d requests under way at first where a document takes %s, want %d", got, way, want)
			}
		})
	}
}

// More requests than a host processes at once would only wait in its queue.
func TestAdaptBusyHost(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		remote *remote
		places int
		limit  int
	}{
		{"far", &remote{way: 40 * time.Millisecond, work: 10 * time.Millisecond}, 4, 40},
		{"near", &remote{way: time.Millisecond, work: 20 * time.Millisecond}, 20, 40},
		{"one at a time", &remote{work: 20 * time.Millisecond}, 1, fetch.DefaultJobs + 8},
		{"narrow line", &remote{way: 20 * time.Millisecond, body: 200 * time.Millisecond}, 0, fetch.DefaultJobs},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				if tt.places > 0 {
					tt.remote.places = make(chan struct{}, tt.places)
				}
				c := wired(t, fetch.Options{}, tt.remote.serve)
				fetchAll(t, c, 1500, 300)
				if got := c.Limit(sourceHost); got > tt.limit {
					t.Errorf("%d requests under way in the end, want at most %d", got, tt.limit)
				}
			})
		})
	}
}

// A host that becomes slower for reasons of its own is not given up.
func TestAdaptSlowerHost(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &remote{way: 20 * time.Millisecond}
		c := wired(t, fetch.Options{}, s.serve)
		fetchAll(t, c, 1000, 500)
		fast := c.Limit(sourceHost)
		s.way = 100 * time.Millisecond
		fetchAll(t, c, 3000, 500)
		if slow := c.Limit(sourceHost); slow < fast {
			t.Errorf("at 20ms there were %d requests under way, at 100ms %d", fast, slow)
		}
	})
}

// A few failures are chance: they neither slow down other requests nor take
// long.
func TestAdaptFaults(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		whole := &remote{way: 50 * time.Millisecond}
		c := wired(t, fetch.Options{}, whole.serve)
		least := fetchAll(t, c, 3000, 600)
		faulty := &remote{way: 50 * time.Millisecond, status: func(n int, _ time.Time) string {
			r := rand.New(rand.NewPCG(uint64(n), 1))
			time.Sleep(time.Duration(r.IntN(10_000)) * time.Microsecond) // else all faults of an instant come before its answers
			switch r.IntN(50) {
			case 0:
				return "503 x"
			case 1, 2:
				return "break"
			}
			return ""
		}}
		took := time.Hour
		for range 3 { // one in fifteen has a resource that fails four times
			if took <= least*2 {
				break
			}
			c = wired(t, fetch.Options{}, faulty.serve)
			var failed int64
			if took, failed = fetchSome(t, c, 3000, 600); failed > 1 { // one in 400 has a resource that fails as often as it is requested
				t.Errorf("%d resources failed", failed)
			}
		}
		if took > least*2 || c.Limit(sourceHost) < 400 {
			t.Errorf("with 6%% of faults %s, %d under way at last; without %s", took, c.Limit(sourceHost), least)
		}
	})
}

// An overloaded host gets fewer requests at once, and more when the overload is
// over.
func TestAdaptStrain(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		answer string
		pause  time.Duration // without requests
	}{
		{"503", "503 x", 0},
		{"503 with Retry-After", "503 x\r\nRetry-After: 2", 2 * time.Second},
		{"429", "429 x", 0},
		{"429 with Retry-After", "429 x\r\nRetry-After: 2", 2 * time.Second},
		{"broken", "break", 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := &remote{way: 50 * time.Millisecond}
				c := wired(t, fetch.Options{}, s.serve)
				fetchAll(t, c, 1500, 600)
				before := c.Limit(sourceHost)
				bad := time.Now()
				s.asked = nil
				s.status = func(_ int, at time.Time) string {
					if at.Sub(bad) < time.Second {
						return tt.answer
					}
					return ""
				}
				var after, low int
				time.AfterFunc(500*time.Millisecond, func() { after = c.Limit(sourceHost) })
				time.AfterFunc(1100*time.Millisecond, func() { low = c.Limit(sourceHost) })
				if fetchAll(t, c, 400, 400); after > before/2 {
					t.Errorf("%d requests under way after a bad half second, %d before", after, before)
				}
				during := 0
				for _, at := range s.asked {
					if d := at.Sub(bad); d > 300*time.Millisecond && d < max(tt.pause, time.Second) {
						during++
					}
				}
				if tt.pause > 0 && during > 0 {
					t.Errorf("%d requests while the host was to be left alone", during)
				}
				s.status = nil
				time.Sleep(5 * time.Second)
				if fetchAll(t, c, 1500, 600); c.Limit(sourceHost) <= low {
					t.Errorf("%d requests under way after a good while, %d after the bad second", c.Limit(sourceHost), low)
				}
			})
		})
	}
}

// Room shows which host can take the next request.
func TestRoom(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		hold := make(chan struct{})
		c := wired(t, fetch.Options{Jobs: 3}, func(w *wire, r *http.Request, _ int) {
			if r.Host == "slow.example" {
				<-hold
			}
			w.answer(200, "Connection: close\r\n", "x")
		})
		var wg sync.WaitGroup
		for range 5 {
			wg.Go(func() {
				if _, err := get(t.Context(), c, fetch.Request{URI: "http://slow.example/a"}); err != nil {
					t.Error(err)
				}
			})
		}
		synctest.Wait()
		if got := []int{c.Limit("slow.example"), c.Room("slow.example"), c.Room("fast.example")}; got[0] != 3 || got[1] != -2 || got[2] != 3 {
			t.Errorf("Limit, Room of the slow host, of another = %v, want [3 -2 3]", got)
		}
		if _, err := get(t.Context(), c, fetch.Request{URI: "http://fast.example/a"}); err != nil {
			t.Error(err)
		}
		close(hold)
		wg.Wait()
		if got := c.Room("slow.example"); got != 3 {
			t.Errorf("Room at rest = %d, want 3", got)
		}
	})
}

func TestHostOf(t *testing.T) {
	t.Parallel()
	for uri, want := range map[string]string{
		"http://A.example/x":      "a.example",
		"http://a.example:80/":    "a.example",
		"http://a.example:443/":   "a.example:443",
		"https://a.example:443/#": "a.example",
		"https://u:p@A.Example./": "a.example",
		"http://[::1]:80/":        "[::1]",
		"ftp://a.example/":        "",
		"x":                       "",
	} {
		if got := fetch.HostOf(uri); got != want {
			t.Errorf("HostOf(%s) = %q, want %q", uri, got, want)
		}
	}
}
