package bench

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/binary"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"lockstep/memento"
	"lockstep/storage/sqlite"
)

var (
	timegateVersions  = flag.Int("timegate.versions", 10_000_000, "versions in the store")
	timegateResources = flag.Int("timegate.resources", 1_000_000, "resources that have them; one of them has a tenth of all")
	timegateRequests  = flag.Int("timegate.requests", 20_000, "requests that are measured, of each kind")
	timegateDir       = flag.String("timegate.dir", "", "where the store goes; default the temporary directory")
)

// A timegateWorld is a store with many versions.
type timegateWorld struct {
	path      string
	db        *sqlite.DB
	resources int
	each      int // versions of a resource
	busy      int // versions of the one that has many
	began     time.Time
}

const (
	timegateSet  = "https://data.example.org/resourcesync/main/capabilitylist.xml"
	timegateStep = 37 * time.Minute // between versions
)

func (w *timegateWorld) uri(i int) string {
	return fmt.Sprintf("https://data.example.org/collections/maps/%03d/sheet-%08d.xml", i%977, i)
}

// BenchmarkTimeGate asks a TimeGate for random resources at random instants.
// Yardsticks: a row by its primary key with SQLite alone, in the same file, and
// an HTTP handler that does nothing, over the same connection.
func BenchmarkTimeGate(b *testing.B) {
	w := newTimegateWorld(b)
	ctx := context.Background()
	store := w.db.Versions()
	around := func(i int, at time.Time) error {
		a, err := store.Around(ctx, w.uri(i), at)
		if err == nil && !a.Known {
			return fmt.Errorf("%s is not known", w.uri(i))
		}
		return err
	}
	b.Run("around", func(b *testing.B) { w.measure(b, around) })
	b.Run("around-busy", func(b *testing.B) { w.measure(b, func(_ int, at time.Time) error { return around(0, at) }) })
	b.Run("http", func(b *testing.B) {
		const base = "http://data.example.org/"
		ask := w.asks(b, memento.NewHandler(store, memento.Options{Base: base}), http.StatusFound)
		w.measure(b, func(i int, at time.Time) error { return ask(memento.TimeGatePrefix+w.uri(i), at) })
	})
	b.Run("walk", func(b *testing.B) { w.walk(b, store) })
	b.Run("yardstick-row", func(b *testing.B) { w.measure(b, w.rows(b)) })
	b.Run("yardstick-http", func(b *testing.B) {
		empty := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
		ask := w.asks(b, empty, http.StatusNoContent)
		w.measure(b, func(i int, at time.Time) error { return ask("", at) })
	})
}

func newTimegateWorld(b *testing.B) *timegateWorld {
	b.Helper()
	dir := *timegateDir
	if dir == "" {
		dir = b.TempDir()
	}
	w := &timegateWorld{path: filepath.Join(dir, "timegate.db"), resources: *timegateResources, began: time.Unix(1_600_000_000, 0)}
	w.busy = max(*timegateVersions/10, 1)
	w.each = max((*timegateVersions-w.busy)/w.resources, 1)
	db, err := sqlite.Open(w.path)
	if err != nil {
		b.Fatal(err)
	}
	w.db = db
	b.Cleanup(func() {
		_ = db.Close()
		for _, more := range []string{"", "-wal", "-shm"} {
			_ = os.Remove(w.path + more) // the last two are gone with Close
		}
	})
	start := time.Now()
	n := w.fill(b)
	size := int64(0)
	if fi, err := os.Stat(w.path); err == nil {
		size = fi.Size()
	}
	fmt.Printf("%d versions of %d resources, one with %d: %.0f MB, %.0f bytes a version, written in %.1f s\n",
		n, w.resources, w.busy, float64(size)/1e6, float64(size)/float64(n), time.Since(start).Seconds())
	return w
}

// fill writes the versions, one of each resource after another, as a Source
// comes to them.
func (w *timegateWorld) fill(b *testing.B) (n int) {
	b.Helper()
	var vs []memento.Version
	put := func(i int, at time.Time) {
		n++
		vs = append(vs, memento.Version{
			URI: w.uri(i), At: at, Digest: sha256.Sum256(binary.AppendVarint(nil, int64(n))), Length: int64(1000 + n%100_000),
			Type: "application/xml", Lastmod: at, Event: at.Add(3 * time.Second), Seq: int64(n),
		})
		if len(vs) == 200_000 {
			w.append(b, vs, n)
			vs = vs[:0]
		}
	}
	for round := range w.each {
		for i := range w.resources {
			put(i, w.began.Add(time.Duration(round)*timegateStep))
		}
	}
	for round := range w.busy {
		put(0, w.began.Add(time.Duration(w.each+round)*timegateStep))
	}
	w.append(b, vs, n)
	return n
}

func (w *timegateWorld) append(b *testing.B, vs []memento.Version, n int) {
	b.Helper()
	if err := w.db.Versions().Append(context.Background(), timegateSet, int64(n), vs); err != nil {
		b.Fatal(err)
	}
}

// measure calls f for random resources and instants.
func (w *timegateWorld) measure(b *testing.B, f func(i int, at time.Time) error) {
	for b.Loop() {
		took := make([]float64, 0, *timegateRequests)
		for range *timegateRequests {
			i, at := rand.IntN(w.resources), w.began.Add(rand.N(time.Duration(w.each)*timegateStep))
			start := time.Now()
			if err := f(i, at); err != nil {
				b.Fatal(err)
			}
			took = append(took, float64(time.Since(start).Microseconds()))
		}
		slices.Sort(took)
		b.ReportMetric(quantile(took, 0.5), "p50-µs")
		b.ReportMetric(quantile(took, 0.99), "p99-µs")
	}
}

func quantile(sorted []float64, q float64) float64 {
	return sorted[min(int(q*float64(len(sorted))), len(sorted)-1)]
}

// walk reads all versions, as retention and the sweep of their bytes do.
func (w *timegateWorld) walk(b *testing.B, store memento.Store) {
	for b.Loop() {
		start := time.Now()
		n := 0
		for _, err := range store.Walk(context.Background(), timegateSet, "") {
			if err != nil {
				b.Fatal(err)
			}
			n++
		}
		b.ReportMetric(float64(n)/time.Since(start).Seconds(), "versions/s")
	}
}

// asks serves h and returns what asks it, one request at a time.
func (w *timegateWorld) asks(b *testing.B, h http.Handler, want int) func(target string, at time.Time) error {
	b.Helper()
	s := httptest.NewServer(h)
	b.Cleanup(s.Close)
	client := &http.Client{
		Transport:     &http.Transport{},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	b.Cleanup(client.CloseIdleConnections)
	return func(target string, at time.Time) error {
		r, err := http.NewRequest(http.MethodHead, s.URL+"/"+target, nil)
		if err != nil {
			return err
		}
		r.Header.Set("Accept-Datetime", memento.FormatDatetime(at))
		res, err := client.Do(r)
		if err != nil {
			return err
		}
		if err := res.Body.Close(); err != nil {
			return err
		}
		if res.StatusCode != want || want == http.StatusFound && !strings.Contains(res.Header.Get("Location"), memento.VersionsPrefix) {
			return fmt.Errorf("%s at %s: %s, %q", target, memento.FormatDatetime(at), res.Status, res.Header)
		}
		return nil
	}
}

// rows returns what reads one row by its key, the statement prepared.
func (w *timegateWorld) rows(b *testing.B) func(int, time.Time) error {
	b.Helper()
	db, err := sql.Open("sqlite", w.path)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = db.Close() })
	row, err := db.Prepare(`SELECT no FROM memento_resource WHERE set_id = 1 AND uri = ?`)
	if err != nil {
		b.Fatal(err)
	}
	return func(i int, _ time.Time) error {
		var no int64
		return row.QueryRow(w.uri(i)).Scan(&no)
	}
}
