//go:build linux

package bench

import (
	"flag"
	"fmt"
	"maps"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"lockstep/catalog"
	"lockstep/resourcesync"
	"lockstep/storage/postgres/postgrestest"
)

var (
	growthResources = flag.String("growth.resources", "100000,1000000", "sizes of the collections whose costs are compared")
	growthDir       = flag.String("growth.dir", os.TempDir(), "where states and documents are: 10,000,000 resources need 8 GB")
)

// growthRoles are processes of the benchmarks of large collections, by their roles.
var growthRoles = map[string]func(args []string) error{"growth-source": grownSource, "growth-destination": grownDestination, "billion": billionSource}

// growthChanges is how many resources change before an incremental step.
const growthChanges = 100

// BenchmarkGrowth measures what a Source and a mirror cost at several sizes of the collection,
// with their states in SQLite and in PostgreSQL. From the costs at the two smallest sizes it computes those at the others, and at 10^9. Source and Destination are processes of their own, whose peak memory
// is measured. Contents of the mirror are in memory.
func BenchmarkGrowth(b *testing.B) {
	for _, engine := range []string{"sqlite", "postgres"} {
		b.Run(engine, func(b *testing.B) {
			for b.Loop() {
				var before map[string]float64
				var model growthModel
				for _, text := range strings.Split(*growthResources, ",") {
					n, err := strconv.Atoi(text)
					if err != nil {
						b.Fatal(err)
					}
					now := medianGrowth(b, engine, n)
					for _, name := range slices.Sorted(maps.Keys(now)) {
						fmt.Printf("%-8s %10d  %-34s %12.3f%s%s\n", engine, n, name, now[name], timesBefore(before, now, name), model.compare(name, n, now[name]))
						b.ReportMetric(now[name], name+"@"+text)
					}
					before = now
					model.learn(n, now)
				}
				for _, name := range slices.Sorted(maps.Keys(before)) {
					fmt.Printf("%-8s %10d  %-34s %12.3f computed\n", engine, billion, name, model.cost(name, billion))
				}
			}
			b.ReportMetric(0, "ns/op")
		})
	}
}

const billion = 1_000_000_000

// A growthModel computes costs from those at the two smallest sizes: a constant, and the cost of a resource.
type growthModel struct {
	sizes []int
	costs []map[string]float64
}

func (m *growthModel) learn(n int, costs map[string]float64) {
	if len(m.sizes) < 2 {
		m.sizes, m.costs = append(m.sizes, n), append(m.costs, costs)
	}
}

func (m *growthModel) cost(name string, n int) float64 {
	if len(m.sizes) < 2 {
		return math.NaN()
	}
	each := (m.costs[1][name] - m.costs[0][name]) / float64(m.sizes[1]-m.sizes[0])
	return m.costs[0][name] + each*float64(n-m.sizes[0])
}

func (m *growthModel) compare(name string, n int, measured float64) string {
	if len(m.sizes) < 2 {
		return ""
	}
	computed := m.cost(name, n)
	return fmt.Sprintf("; computed %.3f, %.2f of that", computed, computed/measured)
}

func timesBefore(before, now map[string]float64, name string) string {
	if before[name] == 0 {
		return ""
	}
	return fmt.Sprintf("  %6.2f times the size before", now[name]/before[name])
}

// A grownCollection is n resources, of which some have changed in each round. A process that is given base and n knows
// all of it.
type grownCollection struct {
	base string
	n    int

	mu       sync.Mutex // guards what follows
	versions map[int]int
}

func (g *grownCollection) path(i int) string {
	return fmt.Sprintf("data/%04d/%03d/resource-%08d.bin", i/1_000_000, i/1000%1000, i)
}

// resourceNumber returns the number of the resource at a path.
func resourceNumber(name string) (i int, ok bool) {
	i, err := strconv.Atoi(strings.TrimSuffix(strings.TrimPrefix(filepath.Base(name), "resource-"), ".bin"))
	return i, err == nil
}

func (g *grownCollection) content(i int) []byte {
	g.mu.Lock()
	defer g.mu.Unlock()
	return fmt.Appendf(nil, "resource %d version %d", i, g.versions[i])
}

func (g *grownCollection) hashes(i int) resourcesync.Hashes {
	h := resourcesync.NewHasher(resourcesync.MD5, resourcesync.SHA256)
	_, _ = h.Write(g.content(i)) // never fails
	return h.Sum()
}

var grownTime = time.Date(2026, 4, 1, 0, 0, 0, 0, time.UTC)

func (g *grownCollection) lastmod(i int) time.Time {
	g.mu.Lock()
	defer g.mu.Unlock()
	return grownTime.Add(time.Duration(g.versions[i]) * time.Hour)
}

func (g *grownCollection) update(i int) catalog.Update {
	return catalog.Update{Record: catalog.Record{URI: g.base + g.path(i), Lastmod: g.lastmod(i), Length: int64(len(g.content(i))), Type: octets, Hashes: g.hashes(i), Token: "inode+ctime 1234"}}
}

// change changes resources: count anywhere, or beside each other.
func (g *grownCollection) change(round, count int, clustered bool) (changed []int) {
	for k := range count {
		i := (k*7919 + round) * 7919 % g.n
		if clustered {
			i = (round*31_337 + k) % g.n
		}
		changed = append(changed, i)
	}
	slices.Sort(changed)
	changed = slices.Compact(changed)
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, i := range changed {
		g.versions[i] = round
	}
	return changed
}

// growthRepeats is how often what a few million resources cost is measured, at most.
const growthRepeats = 5

// medianGrowth returns the medians of what each step costs at a size: one measurement of a short step says
// little about a size that is ten times larger.
func medianGrowth(b *testing.B, engine string, n int) map[string]float64 {
	b.Helper()
	all := map[string][]float64{}
	for range max(1, min(growthRepeats, 3_000_000/n)) {
		for name, cost := range growth(b, engine, n) {
			all[name] = append(all[name], cost)
		}
	}
	costs := map[string]float64{}
	for name, measured := range all {
		costs[name] = median(measured)
	}
	return costs
}

// growth returns what each step costs at a size, by its name.
func growth(b *testing.B, engine string, n int) map[string]float64 {
	b.Helper()
	dir, err := os.MkdirTemp(*growthDir, "lockstep-growth-")
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = os.RemoveAll(dir) }() // what is left is in a temporary directory
	place := func(name string) string {
		if engine == "postgres" {
			return postgrestest.URL(b)
		}
		return filepath.Join(dir, name+".db")
	}
	g := &grownCollection{n: n, versions: map[int]int{}}
	docs := http.FileServer(http.Dir(filepath.Join(dir, "docs")))
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		i, ok := resourceNumber(r.URL.Path)
		if !ok {
			docs.ServeHTTP(w, r)
			return
		}
		w.Header().Set("Content-Type", octets)
		_, _ = w.Write(g.content(i)) // a client that has gone reports it
	}))
	defer srv.Close()
	g.base = srv.URL + "/"
	src := startGrown(b, "growth-source", engine, place("source"), g.base, strconv.Itoa(n), filepath.Join(dir, "docs"))
	dest := startGrown(b, "growth-destination", engine, place("mirror"), g.base, strconv.Itoa(n))
	costs := map[string]float64{}
	do := func(name string, c *grownProcess, step string, args ...int) {
		r := c.do(b, step, args...)
		costs[name+"-s"] = r.Seconds
		if r.Written > 0 {
			costs[name+"-MB-written"] = float64(r.Written) / 1e6
		}
	}
	do("catalog", src, "fill")
	do("first-publication", src, "publish")
	do("mirror-rows", dest, "fill")
	dest.do(b, "sync", n, 0) // completes what is known of the resources
	do("plan-nothing-changed", dest, "compare", n, 0)
	round := 0
	var publish, sync []float64
	for range 3 {
		round++
		changed := len(g.change(round, growthChanges, false))
		src.do(b, "change", round, growthChanges, 0)
		publish = append(publish, src.do(b, "publish").Seconds)
		sync = append(sync, dest.do(b, "sync", -1, changed).Seconds)
	}
	costs["publish-100-changes-s"], costs["sync-100-changes-s"] = median(publish), median(sync)
	for i, name := range []string{"list-again-random", "list-again-clustered"} { // after the first one, no other part has changes
		round++
		g.change(round, n/1000, i == 1)
		src.do(b, "change", round, n/1000, i)
		do(name, src, "list")
	}
	costs["source-peak-MB"], costs["mirror-peak-MB"] = src.end(b), dest.end(b)
	return costs
}
