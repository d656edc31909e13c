//go:build linux

package bench

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"lockstep/blob"
	"lockstep/catalog"
	"lockstep/destination"
	"lockstep/destination/journal"
	"lockstep/internal/faultclock"
	"lockstep/internal/fetch"
	"lockstep/resourcesync"
	"lockstep/source"
	"lockstep/storage/postgres"
	"lockstep/storage/postgres/postgrestest"
	"lockstep/storage/sqlite"
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
					now := growth(b, engine, n)
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

// A grownProcess is a Source or a Destination that carries out the steps it is sent.
type grownProcess struct {
	*exec.Cmd
	to   io.WriteCloser
	from *bufio.Scanner
}

// A grownResult is the result of a step.
type grownResult struct {
	Seconds float64
	Written int64
	Error   string
}

func startGrown(b *testing.B, role string, args ...string) *grownProcess {
	b.Helper()
	p := &grownProcess{Cmd: exec.Command(os.Args[0], args...)}
	p.Env = append(os.Environ(), roleVar+"="+role)
	p.Stderr = os.Stderr
	var err error
	if p.to, err = p.StdinPipe(); err != nil {
		b.Fatal(err)
	}
	out, err := p.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	p.from = bufio.NewScanner(out)
	if err := p.Start(); err != nil {
		b.Fatal(err)
	}
	return p
}

func (p *grownProcess) do(b *testing.B, step string, args ...int) (r grownResult) {
	b.Helper()
	line := step
	for _, a := range args {
		line += " " + strconv.Itoa(a)
	}
	_, err := fmt.Fprintln(p.to, line)
	if err == nil && !p.from.Scan() {
		err = errors.Join(io.ErrUnexpectedEOF, p.from.Err())
	}
	if err == nil {
		err = json.Unmarshal(p.from.Bytes(), &r)
	}
	if err == nil && r.Error != "" {
		err = errors.New(r.Error)
	}
	if err != nil {
		b.Fatalf("%s: %v", line, err)
	}
	return r
}

// end ends the process and returns its peak memory in MiB.
func (p *grownProcess) end(b *testing.B) float64 {
	b.Helper()
	peak := peakMemory(p.Process.Pid, p.Args)
	_ = p.to.Close() // it ends
	if err := p.Wait(); err != nil {
		b.Fatal(err)
	}
	return math.Round(float64(peak) / (1 << 20))
}

// grownSteps carries out steps from standard input.
func grownSteps(step func(name string, args []int) error) error {
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		words := strings.Fields(lines.Text())
		var args []int
		for _, w := range words[1:] {
			n, err := strconv.Atoi(w)
			if err != nil {
				return err
			}
			args = append(args, n)
		}
		var r grownResult
		before, start := writtenBytes(), time.Now()
		if err := step(words[0], args); err != nil {
			r.Error = err.Error()
		}
		r.Seconds, r.Written = time.Since(start).Seconds(), writtenBytes()-before
		if err := json.NewEncoder(os.Stdout).Encode(&r); err != nil {
			return err
		}
	}
	return lines.Err()
}

// A grownState is a state in either engine.
type grownState interface {
	Catalog() catalog.Catalog
	Journal() journal.Journal
	Close() error
}

type sqliteState struct{ *sqlite.DB }

func (s sqliteState) Catalog() catalog.Catalog { return s.DB.Catalog() }
func (s sqliteState) Journal() journal.Journal { return s.DB.Journal() }

type postgresState struct {
	*postgres.DB
	owner *postgres.Owner
}

func (s postgresState) Catalog() catalog.Catalog { return s.DB.Catalog() }
func (s postgresState) Journal() journal.Journal { return s.DB.Journal() }
func (s postgresState) Close() error             { return errors.Join(s.owner.Close(), s.DB.Close()) }

func openGrown(engine, place string, clock func() time.Time) (grownState, error) {
	if engine == "sqlite" {
		db, err := sqlite.Options{Clock: clock}.Open(place)
		return sqliteState{db}, err
	}
	db, err := postgres.Options{Clock: clock, Scratch: os.TempDir()}.Open(context.Background(), place)
	if err != nil {
		return nil, err
	}
	owner, err := db.Own(context.Background(), postgres.OwnOptions{Name: "benchmark"})
	return postgresState{db, owner}, err
}

// grownBatch is how many rows are written in a transaction.
const grownBatch = 10_000

// grownSource is the process of the Source: engine, place of the state, base URL, resources, and directory of the documents.
func grownSource(args []string) error {
	ctx, g := context.Background(), &grownCollection{base: args[2], versions: map[int]int{}}
	g.n, _ = strconv.Atoi(args[3])
	clock := faultclock.New(grownTime.Add(30 * 24 * time.Hour))
	state, err := openGrown(args[0], args[1], clock.Now)
	if err != nil {
		return err
	}
	defer state.Close()
	docs, err := blob.NewDir(args[4], blob.DirOptions{})
	if err != nil {
		return err
	}
	cat := state.Catalog()
	src, err := source.New(cat, docs, source.Options{BaseURL: g.base, Now: clock.Now, SmallSet: 1, Temp: filepath.Dir(args[4])})
	if err != nil {
		return err
	}
	set, err := source.CapabilityListURI(g.base, "main")
	if err != nil {
		return err
	}
	apply := func(all []int) error {
		for part := range slices.Chunk(all, grownBatch) {
			updates := make([]catalog.Update, len(part))
			for k, i := range part {
				updates[k] = g.update(i)
			}
			if _, err := cat.Apply(ctx, set, updates); err != nil {
				return err
			}
		}
		return nil
	}
	return grownSteps(func(step string, args []int) error {
		switch step {
		case "fill":
			updates := make([]catalog.Update, 0, grownBatch)
			for i := range g.n {
				if updates = append(updates, g.update(i)); len(updates) == grownBatch || i == g.n-1 {
					if _, err := cat.Apply(ctx, set, updates); err != nil {
						return err
					}
					updates = updates[:0]
				}
			}
			return nil
		case "change":
			clock.Step(time.Second)
			return apply(g.change(args[0], args[1], args[2] == 1))
		case "list":
			clock.Step(25 * time.Hour)
		default:
			clock.Step(time.Second)
		}
		r, err := src.Publish(ctx)
		if err == nil && step == "list" && !r.Sets[0].List {
			err = errors.New("no new Resource List")
		}
		return err
	})
}

// grownDestination is the process of the Destination: engine, place of the state, base URL, and resources.
func grownDestination(args []string) error {
	ctx, g := context.Background(), &grownCollection{base: args[2], versions: map[int]int{}}
	g.n, _ = strconv.Atoi(args[3])
	state, err := openGrown(args[0], args[1], nil)
	if err != nil {
		return err
	}
	defer state.Close()
	set, err := source.CapabilityListURI(g.base, "main")
	if err != nil {
		return err
	}
	j := state.Journal()
	client, err := fetch.New(fetch.Options{AllowPrivate: true})
	if err != nil {
		return err
	}
	defer client.Close()
	store := &grownStore{collection: g}
	d, err := destination.New(store, j, client, destination.Options{CheckLocal: destination.CheckNever})
	if err != nil {
		return err
	}
	all, err := destination.New(store, j, client, destination.Options{CheckLocal: destination.CheckNever, Baseline: true})
	if err != nil {
		return err
	}
	return grownSteps(func(step string, args []int) error {
		if step == "fill" {
			return g.record(ctx, j, set)
		}
		run := d
		if step == "compare" {
			run = all
		}
		r, err := run.Sync(ctx, g.base)
		if err != nil {
			return err
		}
		if r.Updated != int64(args[1]) || r.Created+r.Deleted > 0 || args[0] >= 0 && r.Unchanged != int64(args[0]) {
			return fmt.Errorf("%d created, %d updated, %d deleted, %d unchanged; want %d updated, and %d unchanged", r.Created, r.Updated, r.Deleted, r.Unchanged, args[1], args[0])
		}
		return nil
	})
}

// record writes the journal of a mirror that has everything.
func (g *grownCollection) record(ctx context.Context, j journal.Journal, set string) error {
	err := j.Record(ctx, journal.Batch{Save: map[string][]byte{
		"mirror": fmt.Appendf(nil, `{"origin":%q,"numbers":{%q:1}}`, strings.TrimSuffix(g.base, "/"), set),
		"counts": fmt.Appendf(nil, `{"1":%d}`, g.n),
		"set/1":  fmt.Appendf(nil, `{"uri":%q,"number":1,"complete":true}`, set),
	}})
	rows := journal.Batch{}
	for i := 0; i < g.n && err == nil; i++ {
		length, hashes, at := int64(len(g.content(i))), g.hashes(i), g.lastmod(i)
		stated := &journal.Stated{Lastmod: resourcesync.NewDatetime(at).WithGranularity(resourcesync.Second), Length: length, Hashes: hashes}
		rows.Put = append(rows.Put, journal.Held{URI: g.base + g.path(i), Path: g.path(i), Length: length, Lastmod: at, Hashes: hashes, Sets: []int{1}, Written: grownTime, Type: octets, Stated: stated})
		if len(rows.Put) == grownBatch || i == g.n-1 {
			err = j.Record(ctx, rows)
			rows.Put = rows.Put[:0]
		}
	}
	return err
}

// A grownStore has the contents of all resources, of which it keeps in memory those that were written.
type grownStore struct {
	blob.Mem
	collection *grownCollection
}

func (s *grownStore) Stat(ctx context.Context, name string) (blob.Info, error) {
	info, err := s.Mem.Stat(ctx, name)
	if !errors.Is(err, blob.ErrNotExist) {
		return info, err
	}
	i, ok := resourceNumber(name)
	if !ok || i >= s.collection.n {
		return info, err
	}
	return blob.Info{Name: name, Size: int64(len(s.collection.content(i))), ModTime: grownTime}, nil
}
