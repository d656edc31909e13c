//go:build linux

package bench

import (
	"context"
	"flag"
	"slices"
	"testing"
	"time"

	"lockstep/catalog"
	"lockstep/internal/faultclock"
)

var besideListResources = flag.Int("besidelist.resources", 1_000_000, "catalogued resources of the Resource List that is written while changes are published")

// BenchmarkChangesBesideList measures how long a change takes from the catalog to the
// published Change List while a large Resource List is written, of which a tenth has
// changed. The yardstick is the time for the list: that is how long changes would wait
// for it.
func BenchmarkChangesBesideList(b *testing.B) {
	for b.Loop() {
		clock := faultclock.New(time.Date(2026, 5, 1, 2, 0, 0, 0, time.UTC))
		cat, docs := steadyStores(b, b.TempDir(), clock)
		fillCatalog(b, cat, *besideListResources, 10_000)
		src := relistSource(b, cat, docs, clock, 50_000)
		relistOnce(b, src)
		clock.Step(25 * time.Hour)
		updates := make([]catalog.Update, 0, 10_000)
		for i := range *besideListResources / 10 {
			updates = append(updates, catalogUpdate(i*7919%*besideListResources, 1))
			if len(updates) == cap(updates) {
				applyCatalog(b, cat, updates)
				updates = updates[:0]
			}
		}
		clock.Step(time.Second)
		if _, err := src.PublishChanges(context.Background()); err != nil {
			b.Fatal(err)
		}
		ended := make(chan float64)
		go func() {
			seconds, _ := relistOnce(b, src)
			ended <- seconds
		}()
		var took []float64
		for version, running := 2, true; running; version++ {
			start := time.Now()
			clock.Step(time.Millisecond)
			applyCatalog(b, cat, []catalog.Update{catalogUpdate(version%1000, version)})
			r, err := src.PublishChanges(context.Background())
			if err != nil {
				b.Fatal(err)
			}
			if r.Sets[0].Changes > 0 { // otherwise Publish was faster
				took = append(took, 1000*time.Since(start).Seconds())
			}
			select {
			case seconds := <-ended:
				running = false
				b.ReportMetric(seconds, "list-s")
			case <-time.After(20 * time.Millisecond):
			}
		}
		if len(took) == 0 {
			b.Fatal("the list was written before a change was published")
		}
		slices.Sort(took)
		b.ReportMetric(quantile(took, 0.5), "p50-ms")
		b.ReportMetric(quantile(took, 0.99), "p99-ms")
		b.ReportMetric(took[len(took)-1], "max-ms")
		b.ReportMetric(0, "ns/op")
	}
}
