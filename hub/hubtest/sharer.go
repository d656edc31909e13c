package hubtest

import (
	"context"
	"crypto/sha256"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"lockstep/hub/hubstore"
)

// A Shared is a store several hubs can use at a time.
type Shared interface {
	hubstore.Store
	hubstore.Sharer
}

// RunSharer tests shared stores. For each test, store makes an empty one and
// returns a function that opens it, each time as another process would.
func RunSharer(t *testing.T, store func(*testing.T) (open func() Shared)) {
	tests := []struct {
		name string
		test func(*testing.T, func() Shared)
	}{
		{"Claim", testClaim},
		{"Lease", testLease},
		{"Release", testRelease},
		{"Owners", testOwners},
		{"Division", testDivision},
		{"News", testNews},
		{"NewsMoving", testNewsMoving},
		{"Remember", testRemember},
		{"CancelShared", testCancelShared},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			tt.test(t, store(t))
		})
	}
}

// long is a ttl that does not end during the test.
const long = time.Hour

// claim claims and checks the result.
func claim(t *testing.T, s Shared, owner string, want int, ttl time.Duration, shards []int, owners int) {
	t.Helper()
	got, n, err := s.Claim(t.Context(), owner, want, ttl)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(got, shards) || n != owners {
		t.Fatalf("Claim(%s, %d) = %v of %d owners, want %v of %d", owner, want, got, n, shards, owners)
	}
}

// between returns the numbers from a to b-1.
func between(a, b int) []int {
	var all []int
	for i := a; i < b; i++ {
		all = append(all, i)
	}
	return all
}

func release(t *testing.T, s Shared, owner string) {
	t.Helper()
	if err := s.Release(t.Context(), owner); err != nil {
		t.Fatal(err)
	}
}

func testClaim(t *testing.T, open func() Shared) {
	a, b, c := open(), open(), open()
	claim(t, a, "a", hubstore.Shards, long, between(0, 256), 1)
	claim(t, a, "a", hubstore.Shards+9, long, between(0, 256), 1)
	claim(t, b, "b", hubstore.Shards, long, nil, 2) // no shard is free, but b counts as an owner
	claim(t, a, "a", 128, long, between(0, 128), 2)
	claim(t, b, "b", 128, long, between(128, 256), 2)
	claim(t, c, "c", 86, long, nil, 3)
	claim(t, a, "a", 86, long, between(0, 86), 3)
	claim(t, b, "b", 86, long, between(128, 214), 3)
	claim(t, c, "c", 86, long, slices.Concat(between(86, 128), between(214, 256)), 3)
	claim(t, c, "c", 1, long, []int{86}, 3)
	claim(t, c, "c", 0, long, nil, 3)
	claim(t, c, "c", -1, long, nil, 3)
	claim(t, b, "b", hubstore.Shards, long, between(86, 256), 3)
	claim(t, a, "a", hubstore.Shards, long, between(0, 86), 3)
}

func testLease(t *testing.T, open func() Shared) {
	const short = time.Second
	a, b := open(), open()
	claim(t, a, "a", 100, short, between(0, 100), 1)
	claim(t, b, "b", hubstore.Shards, long, between(100, 256), 2)
	after(t, short)
	claim(t, b, "b", hubstore.Shards, long, between(0, 256), 1)
	claim(t, a, "a", hubstore.Shards, short, nil, 2) // its shards belong to another owner now
	claim(t, b, "b", 128, short, between(0, 128), 2)
	after(t, short)
	// Its lease is over, but no other owner has claimed the shards: it continues.
	claim(t, b, "b", 128, long, between(0, 128), 1)
	claim(t, a, "a", hubstore.Shards, long, between(128, 256), 2)
}

// after waits until a lease that was taken before has expired.
func after(t *testing.T, ttl time.Duration) {
	t.Helper()
	select {
	case <-time.After(ttl + 20*time.Millisecond):
	case <-t.Context().Done():
		t.Fatal(t.Context().Err())
	}
}

func testRelease(t *testing.T, open func() Shared) {
	a, b := open(), open()
	release(t, a, "a") // without any claims
	claim(t, a, "a", 200, long, between(0, 200), 1)
	claim(t, b, "b", 200, long, between(200, 256), 2)
	release(t, a, "a")
	claim(t, b, "b", 200, long, slices.Concat(between(0, 144), between(200, 256)), 1)
	release(t, b, "none")
	claim(t, b, "b", 200, long, slices.Concat(between(0, 144), between(200, 256)), 1)
}

func testOwners(t *testing.T, open func() Shared) {
	s := open()
	names := append([]string{"", "owner' OR 1=1; --", "\x00\xff", "\\x61"}, hostile...)
	for i, name := range names {
		claim(t, s, name, 1, long, []int{i}, i+1)
	}
	for i, name := range names {
		release(t, s, name)
		claim(t, s, "other", i+1, long, between(0, i+1), len(names)-i)
	}
}

// testDivision lets several owners come and go, each of which repeatedly claims
// its fair share. No shard ever has two owners, and in the end the shards are
// divided evenly.
func testDivision(t *testing.T, open func() Shared) {
	const owners, rounds = 5, 12
	var mu sync.Mutex
	holder := make(map[int]string)
	var wg sync.WaitGroup
	stores := make([]Shared, owners)
	held := make([][]int, owners)
	share := make([]int, owners)
	step := func(i int) {
		name := fmt.Sprint("owner ", i)
		mu.Lock()
		for _, shard := range held[i][min(share[i], len(held[i])):] { // the highest are given up
			delete(holder, shard)
		}
		mu.Unlock()
		shards, n, err := stores[i].Claim(t.Context(), name, share[i], long)
		if err != nil {
			t.Error(err)
			return
		}
		mu.Lock()
		for _, shard := range shards {
			if h, ok := holder[shard]; ok && h != name {
				t.Errorf("%s got shard %d while %s had it", name, shard, h)
			}
			holder[shard] = name
		}
		mu.Unlock()
		held[i], share[i] = shards, (hubstore.Shards+n-1)/n
	}
	for i := range owners {
		stores[i], share[i] = open(), hubstore.Shards
		wg.Go(func() {
			for range rounds {
				step(i)
			}
		})
	}
	wg.Wait()
	for range 3 { // all owners learn of each other, give up shards, and claim those that are free
		for i := range owners {
			step(i)
		}
	}
	total := 0
	for i := range owners {
		if n := len(held[i]); n > 52 || n < 48 {
			t.Errorf("owner %d has %d shards", i, n)
		}
		total += len(held[i])
	}
	if total != hubstore.Shards || len(holder) != hubstore.Shards {
		t.Errorf("%d shards have an owner, want %d", total, hubstore.Shards)
	}
}

// testRemember records digests: each is new once, whichever owner asks, until
// it is removed; one whose time has passed is not new.
func testRemember(t *testing.T, open func() Shared) {
	a, b := open(), open()
	remember := func(s Shared, name string, until time.Time, want bool) {
		t.Helper()
		if fresh, err := s.Remember(t.Context(), sha256.Sum256([]byte(name)), until); err != nil || fresh != want {
			t.Fatalf("Remember(%s) = %v, %v, want %v", name, fresh, err, want)
		}
	}
	soon := time.Now().Add(long)
	remember(a, "x", soon, true)
	remember(a, "x", soon, false)
	remember(b, "x", soon, false)
	remember(b, "y", soon, true)
	remember(a, "old", time.Now().Add(-long), false)
	remember(a, "very old", time.Now().Add(-100*long), false)
	if err := b.Forget(t.Context(), sha256.Sum256([]byte("x"))); err != nil {
		t.Fatal(err)
	}
	remember(a, "x", soon, true)
	var fresh atomic.Int64
	var wg sync.WaitGroup
	for range 4 {
		s := open()
		wg.Go(func() {
			for i := range 20 {
				ok, err := s.Remember(t.Context(), sha256.Sum256(fmt.Append(nil, i)), soon)
				if err != nil {
					t.Error(err)
				}
				if ok {
					fresh.Add(1)
				}
			}
		})
	}
	wg.Wait()
	if n := fresh.Load(); n != 20 {
		t.Errorf("%d of 20 digests were new", n)
	}
}

func news(t *testing.T, s Shared, mark int64) (map[string]int64, int64) {
	t.Helper()
	got, next, err := s.News(t.Context(), mark)
	if err != nil {
		t.Fatal(err)
	}
	if next < mark {
		t.Fatalf("News(%d) goes back to %d", mark, next)
	}
	return got, next
}

func testNews(t *testing.T, open func() Shared) {
	a, b := open(), open()
	got, mark := news(t, b, 0)
	same(t, "news", got, nil)
	save(t, a, hubstore.Changes{Topics: []hubstore.Topic{{URL: "quiet"}}})
	appendTo(t, a, message(topicA, "1"), message(topicB, "1"), message(topicA, "2"))
	got, next := news(t, b, mark)
	same(t, "news", got, map[string]int64{topicA: 2, topicB: 1})
	same(t, "news of what was heard", first(news(t, b, next)), nil)
	appendTo(t, b, message(topicB, "2"))
	appendTo(t, a, message(topicB, "3"))
	trim(t, a, topicA, 1)
	save(t, a, hubstore.Changes{Topics: []hubstore.Topic{{URL: topicA, State: []byte("x")}}})
	same(t, "news", first(news(t, b, next)), map[string]int64{topicB: 3})
	same(t, "all news", first(news(t, b, 0)), map[string]int64{topicA: 2, topicB: 3})
	for _, url := range hostile {
		_, next = news(t, b, next)
		appendTo(t, a, message(url, "1"))
		same(t, "news", first(news(t, b, next)), map[string]int64{url: 1})
	}
	_, next = news(t, b, 0)
	if got, back, err := b.News(t.Context(), next+1); err != nil || back != next || len(got) > 0 {
		t.Errorf("News(%d) = %v, %d, %v, want the mark %d: the store does not have that one", next+1, got, back, err, next)
	}
}

func first[A, B any](a A, _ B) A { return a }

// testNewsMoving calls News while others append. In the end no message was
// missed.
func testNewsMoving(t *testing.T, open func() Shared) {
	const sides, rounds = 4, 25
	ctx, stop := context.WithCancel(t.Context())
	listener := open()
	heard := make(map[string]int64)
	var mark int64
	listen := func() {
		got, next := news(t, listener, mark)
		mark = next
		for url, last := range got {
			if last < heard[url] {
				t.Errorf("%s goes back from %d to %d", url, heard[url], last)
			}
			heard[url] = last
		}
	}
	var wg, ear sync.WaitGroup
	for side := range sides {
		s := open()
		wg.Go(func() {
			for round := range rounds {
				ms := []hubstore.Message{message(fmt.Sprint("side ", side), "x"), message(fmt.Sprint("round ", round%5), "x")}
				if _, err := s.Append(t.Context(), ms); err != nil {
					t.Error(err)
				}
			}
		})
	}
	ear.Go(func() {
		for ctx.Err() == nil {
			listen()
		}
	})
	wg.Wait()
	stop()
	ear.Wait()
	listen()
	want := make(map[string]int64)
	for _, topic := range topics(t, listener) {
		want[topic.URL] = topic.Last
	}
	same(t, "what was heard", heard, want)
}

func testCancelShared(t *testing.T, open func() Shared) {
	s := open()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if shards, _, err := s.Claim(ctx, "a", 1, long); err == nil || shards != nil {
		t.Errorf("Claim = %v, %v", shards, err)
	}
	if err := s.Release(ctx, "a"); err == nil {
		t.Error("Release succeeds")
	}
	if got, _, err := s.News(ctx, 0); err == nil || got != nil {
		t.Errorf("News = %v, %v", got, err)
	}
	claim(t, s, "b", 1, long, []int{0}, 1)
}
