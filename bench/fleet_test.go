//go:build linux

package bench

import (
	"bufio"
	"context"
	"crypto/sha256"
	"flag"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

var (
	fleetUpstreams = flag.Int("fleet.upstreams", 10, "upstreams of BenchmarkFleet")
	fleetSick      = flag.Int("fleet.sick", 2, "how many of them are slow, hang, fail, lie or send garbage")
	fleetResources = flag.Int("fleet.resources", 10, "resources of each")
	fleetPoll      = flag.Duration("fleet.poll", time.Second, "how often each is polled")
	fleetFor       = flag.Duration("fleet.for", 3*time.Second, "how long changes are made and measured")
	fleetBinary    = flag.String("fleet.lockstep", "", "program to measure; default: built from this module")
)

// BenchmarkFleet measures an Aggregator of many upstreams, of which some are sick: the
// memory of the process, how late the healthy ones are polled, and the time from a change
// at one of these until it is announced. The healthy ones alone, in the same run, are
// the yardstick.
func BenchmarkFleet(b *testing.B) {
	program := *fleetBinary
	if program == "" {
		program = filepath.Join(b.TempDir(), "lockstep")
		if out, err := exec.Command("go", "build", "-o", program, "lockstep/cmd/lockstep").CombinedOutput(); err != nil {
			b.Fatalf("build: %v\n%s", err, out)
		}
	}
	for b.Loop() {
		alone := runFleet(b, program, *fleetUpstreams-*fleetSick, 0)
		all := runFleet(b, program, *fleetUpstreams, *fleetSick)
		b.ReportMetric(float64(all.memory)/1e6, "MB")
		b.ReportMetric(float64(alone.memory)/1e6, "alone-MB")
		b.ReportMetric(all.start.Seconds(), "s-to-first-in-step")
		b.ReportMetric(alone.start.Seconds(), "alone-s-to-first-in-step")
		b.ReportMetric(all.late, "schedule")
		b.ReportMetric(alone.late, "alone-schedule")
		b.ReportMetric(all.p99.Seconds(), "p99-s")
		b.ReportMetric(alone.p99.Seconds(), "alone-p99-s")
		b.ReportMetric(all.p99.Seconds()/alone.p99.Seconds(), "p99/alone")
		b.ReportMetric(0, "ns/op")
	}
}

// A fleetResult is what BenchmarkFleet measures.
type fleetResult struct {
	memory int64
	start  time.Duration // until all healthy upstreams are in step
	late   float64       // longest mean time between two polls of an upstream / the configured one
	p99    time.Duration // from a change to its announcement
}

// runFleet has an Aggregator follow n upstreams, the last of them sick.
func runFleet(b *testing.B, program string, n, sick int) (r fleetResult) {
	dir := benchDir(b, "lockstep-fleet-")
	config := "sets:\n- name: all\n  first_wait: 0s\n  upstreams:\n"
	ups := make([]*fleetUpstream, n)
	for i := range ups {
		ups[i] = newFleetUpstream(b, i)
		if k := i - (n - sick); k >= 0 {
			ups[i].sickness = 1 + k%5
		}
		config += fmt.Sprintf("  - {name: u%d, from: 'resourcesync:%s/capabilitylist.xml', poll: %s}\n", i, ups[i].base, *fleetPoll)
	}
	file := filepath.Join(dir, "config.yaml")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		b.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	address := l.Addr().String()
	_ = l.Close() // only its number is needed
	c := exec.Command(program, "serve", "--config", file, "--listen", address, "--state", filepath.Join(dir, "state"), "-q")
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = log.Close() }() // it is not read
	c.Stdout, c.Stderr = log, log
	start := time.Now()
	if err := c.Start(); err != nil {
		b.Fatal(err)
	}
	defer func() {
		_ = c.Process.Signal(syscall.SIGTERM) // it may have ended
		_ = c.Wait()
	}()
	healthy := ups[:n-sick]
	waitFleet(b, c, func() bool {
		return !slices.ContainsFunc(healthy, func(u *fleetUpstream) bool { return !u.isFetched() })
	})
	r.start = time.Since(start)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	seen := listenFleet(ctx, b, "http://"+address+"/")
	waitFleet(b, c, func() bool { return quietFor(seen, 2*time.Second) })
	for _, u := range healthy {
		u.restart()
	}
	pending := map[string]time.Time{}
	var took []time.Duration
	tick := time.NewTicker(max(*fleetPoll/time.Duration(len(healthy)), time.Millisecond))
	defer tick.Stop()
	changing, end := time.After(*fleetFor), time.After(*fleetFor+5**fleetPoll+time.Minute)
	for done := false; !done || len(pending) > 0; {
		select {
		case <-changing:
			done = true
			tick.Stop()
		case <-tick.C:
			u := healthy[rand.N(len(healthy))]
			if k, ok := u.change(); ok {
				pending[fmt.Sprintf("http://%s/all/u%d/r%d", address, u.number, k)] = time.Now()
			}
		case uri := <-seen:
			if at, ok := pending[uri]; ok {
				took = append(took, time.Since(at))
				delete(pending, uri)
			}
		case <-end:
			b.Fatalf("%d changes were not announced", len(pending))
		}
	}
	for _, u := range healthy {
		r.late = max(r.late, u.interval().Seconds()/fleetPoll.Seconds())
	}
	if len(took) == 0 {
		b.Fatal("nothing changed")
	}
	slices.Sort(took)
	r.p99 = took[len(took)*99/100]
	r.memory = peakMemory(c.Process.Pid, c.Args)
	b.Logf("%d upstreams, %d sick: in step after %s, peak %d MB, %d changes, p50 %s, p99 %s, latest schedule %.2f", n, sick, r.start.Round(time.Millisecond), r.memory/1e6, len(took), took[len(took)/2], r.p99, r.late)
	return r
}

// waitFleet waits until is returns true, as long as c runs.
func waitFleet(b *testing.B, c *exec.Cmd, is func() bool) {
	b.Helper()
	for end := time.Now().Add(time.Hour); !is(); time.Sleep(100 * time.Millisecond) {
		if err := c.Process.Signal(syscall.Signal(0)); err != nil || time.Now().After(end) {
			b.Fatalf("the Aggregator is not in step: %v", err)
		}
	}
}

// quietFor discards URIs, and reports whether none came for a time.
func quietFor(seen <-chan string, d time.Duration) bool {
	for {
		select {
		case <-seen:
		case <-time.After(d):
			return true
		}
	}
}

var (
	fleetStream = regexp.MustCompile(`<rs:ln rel="[^"]*events" href="([^"]*)"`)
	fleetLoc    = regexp.MustCompile(`<loc>([^<]*)</loc>`)
)

// listenFleet returns the URIs of changes that the Source at base announces.
func listenFleet(ctx context.Context, b *testing.B, base string) <-chan string {
	text := fetchText(b, base+"resourcesync/all/capabilitylist.xml")
	m := fleetStream.FindStringSubmatch(text)
	if m == nil {
		b.Fatalf("no stream of events in\n%s", text)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, m[1], nil)
	if err != nil {
		b.Fatal(err)
	}
	req.Header.Set("Accept", "text/event-stream")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		b.Fatal(err)
	}
	seen := make(chan string, 1<<16)
	go func() {
		defer func() { _ = resp.Body.Close() }() // it ends with ctx
		r := bufio.NewReaderSize(resp.Body, 1<<20)
		for {
			line, err := r.ReadString('\n')
			if err != nil {
				return
			}
			for _, m := range fleetLoc.FindAllStringSubmatch(line, -1) {
				seen <- m[1]
			}
		}
	}()
	return seen
}

func fetchText(b *testing.B, uri string) string {
	b.Helper()
	out, err := exec.Command("curl", "-sf", uri).Output()
	if err != nil {
		b.Fatalf("get %s: %v", uri, err)
	}
	return string(out)
}

// A fleetUpstream is a simulated upstream. Its resources are named r0, r1, ….
type fleetUpstream struct {
	number   int
	base     string
	sickness int // 0: healthy

	mu      sync.Mutex // guards the rest
	version []int
	changes []fleetChange
	fetched map[string]bool // resources, until each was
	polls   []time.Time
}

type fleetChange struct {
	resource int
	at       time.Time
}

func newFleetUpstream(b *testing.B, number int) *fleetUpstream {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	u := &fleetUpstream{number: number, base: "http://" + l.Addr().String(), version: make([]int, *fleetResources), fetched: map[string]bool{}}
	srv := &http.Server{Handler: u}
	b.Cleanup(func() { _ = srv.Close() }) // nothing is lost
	go func() { _ = srv.Serve(l) }()      // until it is closed
	return u
}

// isFetched reports whether all resources were fetched, and changes were asked for since.
func (u *fleetUpstream) isFetched() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return len(u.fetched) == *fleetResources && len(u.polls) > 1
}

// restart forgets the polls.
func (u *fleetUpstream) restart() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.polls = nil
}

// interval returns the mean time between two polls.
func (u *fleetUpstream) interval() time.Duration {
	u.mu.Lock()
	defer u.mu.Unlock()
	if len(u.polls) < 2 {
		return *fleetFor
	}
	return u.polls[len(u.polls)-1].Sub(u.polls[0]) / time.Duration(len(u.polls)-1)
}

// change changes a resource, each of which changes once.
func (u *fleetUpstream) change() (resource int, ok bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if len(u.changes) == len(u.version) {
		return 0, false
	}
	resource = len(u.changes)
	u.version[resource]++
	u.changes = append(u.changes, fleetChange{resource, time.Now()})
	return resource, true
}

func (u *fleetUpstream) content(resource int) string {
	return strings.Repeat(fmt.Sprintf("%d %d %d\n", u.number, resource, u.version[resource]), 64)
}

const fleetHead = `<?xml version="1.0" encoding="UTF-8"?><urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9" xmlns:rs="http://www.openarchives.org/rs/terms/">`

var fleetBegan = time.Now().UTC()

func (u *fleetUpstream) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	lie := false
	switch u.sickness {
	case 1: // slow
		select {
		case <-time.After(5 * time.Second):
		case <-r.Context().Done():
			return
		}
	case 2: // hangs
		<-r.Context().Done()
		return
	case 3:
		http.Error(w, "sick", http.StatusInternalServerError)
		return
	case 4:
		lie = true
	case 5:
		_, _ = w.Write([]byte("<html><p>garbage")) // a client that is gone needs no answer
		return
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	tag := fmt.Sprintf(`"%d"`, len(u.changes))
	entry := func(text *strings.Builder, k int, md string) {
		body := u.content(k)
		sum := sha256.Sum256([]byte(body))
		if lie {
			sum[0]++
		}
		fmt.Fprintf(text, `<url><loc>%s/r%d</loc><rs:md %shash="sha-256:%x" length="%d"/></url>`, u.base, k, md, sum, len(body))
	}
	var text strings.Builder
	text.WriteString(fleetHead)
	switch r.URL.Path {
	case "/capabilitylist.xml":
		tag = `"same"`
		fmt.Fprintf(&text, `<rs:md capability="capabilitylist"/><url><loc>%s/resourcelist.xml</loc><rs:md capability="resourcelist"/></url><url><loc>%s/changelist.xml</loc><rs:md capability="changelist"/></url></urlset>`, u.base, u.base)
	case "/resourcelist.xml":
		fmt.Fprintf(&text, `<rs:md capability="resourcelist" at="%s"/>`, fleetBegan.Format(time.RFC3339Nano))
		for k := range u.version {
			entry(&text, k, "")
		}
		text.WriteString(`</urlset>`)
	case "/changelist.xml":
		u.polls = append(u.polls, time.Now())
		fmt.Fprintf(&text, `<rs:md capability="changelist" from="%s"/>`, fleetBegan.Format(time.RFC3339Nano))
		for _, c := range u.changes {
			entry(&text, c.resource, fmt.Sprintf(`change="updated" datetime="%s" `, c.at.UTC().Format(time.RFC3339Nano)))
		}
		text.WriteString(`</urlset>`)
	default:
		var k int
		if n, err := fmt.Sscanf(r.URL.Path, "/r%d", &k); n != 1 || err != nil || k >= len(u.version) {
			http.NotFound(w, r)
			return
		}
		if len(u.fetched) < len(u.version) {
			u.fetched[r.URL.Path] = true
		}
		text.Reset()
		text.WriteString(u.content(k))
		tag = fmt.Sprintf(`"%d"`, u.version[k])
	}
	w.Header().Set("ETag", tag)
	if r.Header.Get("If-None-Match") == tag {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	_, _ = w.Write([]byte(text.String())) // a client that is gone needs no answer
}
