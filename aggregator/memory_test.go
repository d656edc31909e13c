package aggregator_test

import (
	"context"
	"fmt"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
	"time"

	"lockstep/aggregator"
	"lockstep/catalog"
	"lockstep/destination"
	"lockstep/internal/fetch"
	"lockstep/internal/mirrordir"
	"lockstep/storage/sqlite"
)

const (
	// idleBytes and idleGoroutines are what an upstream may keep between two polls. Most of it is
	// what describes it; before its first run it has half as much.
	idleBytes      = 64 << 10
	idleGoroutines = 8
)

// TestIdleUpstreamsKeepLittle: after its first run an upstream keeps neither what was
// fetched nor what fetched it, however much that was. It does not run beside other tests,
// whose memory would count.
func TestIdleUpstreamsKeepLittle(t *testing.T) {
	const before, upstreams = 3, 9
	cat, err := sqlite.Open(filepath.Join(t.TempDir(), "catalog.db"))
	must(t, err)
	t.Cleanup(func() { _ = cat.Close() }) // nothing is lost
	files := map[string]string{}
	for i := range 300 {
		files[fmt.Sprintf("f%d.txt", i)] = fmt.Sprint(i)
	}
	fleet, limits := aggregator.NewFleet(aggregator.FleetOptions{}), &fetch.Limits{}
	followOne := func(i int) *aggregator.Upstream {
		return followOnDisk(t, newSite(t, files), cat.Catalog(), aggregator.Options{Name: fmt.Sprint("u", i), URI: fmt.Sprint(here, i, "/"), Fleet: fleet, Follow: destination.FollowOptions{Poll: time.Hour}}, limits)
	}
	fetched := func(u *aggregator.Upstream) func() bool {
		return func() bool {
			st := u.Status()
			return st.State == aggregator.StateFollowing && st.Resources == int64(len(files))
		}
	}
	for i := range before { // what the process itself needs is there then
		eventually(t, "the first ones are in step", fetched(followOne(i)))
	}
	var many sync.WaitGroup
	end := make(chan struct{})
	for i := range 3000 { // what those leave behind that have ended is kept for the next ones
		many.Go(func() {
			if i < 250 { // so are threads, of which a busy machine needs many
				runtime.LockOSThread()
				defer runtime.UnlockOSThread()
			}
			<-end
		})
	}
	close(end)
	many.Wait()
	var bytes, goroutines int64
	eventually(t, "its connections are closed", func() bool {
		last := goroutines
		bytes, goroutines = inUse()
		return last == goroutines
	})
	for i := range upstreams {
		eventually(t, "one more is in step", fetched(followOne(before+i)))
	}
	var more, moreGoroutines int64
	defer func() {
		t.Logf("an upstream keeps %d bytes and %d goroutines, those of its server included", more, moreGoroutines)
	}()
	eventually(t, "idle upstreams keep little", func() bool {
		b, g := inUse()
		more, moreGoroutines = (b-bytes)/upstreams, (g-goroutines)/upstreams
		return more <= idleBytes && moreGoroutines <= idleGoroutines
	})
}

// inUse returns how many bytes of memory and how many goroutines are in use.
func inUse() (bytes, goroutines int64) {
	runtime.GC()
	runtime.GC() // what pools keep goes with the second
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc), int64(runtime.NumGoroutine())
}

// followOnDisk is follow with a mirror in a directory, as one of several upstreams has it.
func followOnDisk(t *testing.T, s *site, cat catalog.Catalog, o aggregator.Options, limits *fetch.Limits) *aggregator.Upstream {
	t.Helper()
	const idle = 10 * time.Millisecond
	o.Address, o.BaseURL = s.URL+"/capabilitylist.xml", here
	u, err := aggregator.New(cat, list, o, func(deliver func(context.Context, []destination.Change) error) (m aggregator.Mirror, err error) {
		d, err := mirrordir.OpenWith(t.TempDir(), sqlite.Options{Idle: idle})
		must(t, err)
		t.Cleanup(func() { _ = d.Close() }) // nothing is lost
		client, err := destination.NewClient(o.Address, destination.ClientOptions{Idle: idle, Limits: limits})
		must(t, err)
		t.Cleanup(client.Close)
		m = aggregator.Mirror{Store: d.Files, Journal: d.Journal}
		m.Destination, err = destination.New(m.Store, m.Journal, client, destination.Options{Deliver: deliver, DeliverStatements: true})
		return m, err
	})
	must(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	var work sync.WaitGroup
	work.Go(func() { _ = u.Watch(ctx, nil) }) // it ends with ctx
	t.Cleanup(func() { cancel(); work.Wait() })
	return u
}
