//go:build linux

package bench

import (
	"context"
	"flag"
	"fmt"
	"testing"
	"time"

	"lockstep/blob"
	"lockstep/catalog"
	"lockstep/internal/faultclock"
	"lockstep/resourcesync"
	"lockstep/source"
)

var (
	relistResources = flag.Int("relist.resources", 100_000, "catalogued resources of the Resource List that is written again, e.g. 100000, 1000000, 10000000")
	relistParts     = flag.Int("relist.parts", 200, "parts of that list, or as many as its resources need")
	relistRounds    = flag.Int("relist.rounds", 3, "lists of each kind")
)

// BenchmarkRelist measures a new Resource List after a thousandth of the resources of a
// SQLite catalog has changed, beside each other or anywhere, which shares parts with the
// list before; and beside each, as yardstick, one that is written as a whole.
func BenchmarkRelist(b *testing.B) {
	for _, where := range []string{"clustered", "random"} {
		b.Run(where, func(b *testing.B) {
			for b.Loop() {
				relist(b, where == "random")
			}
		})
	}
}

func relist(b *testing.B, random bool) {
	b.Helper()
	clock := faultclock.New(time.Date(2026, 5, 1, 2, 0, 0, 0, time.UTC))
	cat, docs := steadyStores(b, b.TempDir(), clock)
	fillCatalog(b, cat, *relistResources, 10_000)
	parts := min(resourcesync.MaxEntries, *relistResources / *relistParts)
	src := relistSource(b, cat, docs, clock, parts)
	relistOnce(b, src)
	var shared, whole, sharedBytes, wholeBytes []float64
	for round := range *relistRounds {
		updates := make([]catalog.Update, *relistResources/1000)
		for i := range updates {
			k := (round*31 + 17) * parts % *relistResources // within one part, or two
			if k += i; random {
				k = (i*7919 + round) * 7919
			}
			updates[i] = catalogUpdate(k%*relistResources, round+1)
		}
		clock.Step(25 * time.Hour)
		applyCatalog(b, cat, updates)
		clock.Step(time.Second)
		seconds, bytes := relistOnce(b, src)
		shared, sharedBytes = append(shared, seconds), append(sharedBytes, bytes)
		if err := docs.Remove(context.Background(), ".lockstep/main.json", ".lockstep/main.tail.json"); err != nil {
			b.Fatal(err)
		}
		clock.Step(time.Second)
		src = relistSource(b, cat, docs, clock, parts) // does not know the parts any more
		seconds, bytes = relistOnce(b, src)
		whole, wholeBytes = append(whole, seconds), append(wholeBytes, bytes)
	}
	b.ReportMetric(median(shared), "s")
	b.ReportMetric(median(whole), "whole-s")
	b.ReportMetric(median(shared)/median(whole), "s/whole-s")
	b.ReportMetric(median(sharedBytes)/1e6, "MB-written")
	b.ReportMetric(median(wholeBytes)/1e6, "whole-MB-written")
	b.ReportMetric(100*median(sharedBytes)/median(wholeBytes), "%-of-whole-MB")
	b.ReportMetric(0, "ns/op")
}

func relistSource(b *testing.B, cat catalog.Catalog, docs blob.Store, clock *faultclock.Clock, parts int) *source.Source {
	b.Helper()
	src, err := source.New(cat, docs, source.Options{BaseURL: "https://data.example.org/", Now: clock.Now, MaxEntries: parts, SmallSet: 1})
	if err != nil {
		b.Fatal(err)
	}
	return src
}

// relistOnce publishes a new Resource List. It returns the time it takes, and all that
// the process has written meanwhile.
func relistOnce(b *testing.B, src *source.Source) (seconds, bytes float64) {
	b.Helper()
	before, start := written(b), time.Now()
	r, err := src.Publish(context.Background())
	if err != nil || !r.Sets[0].List {
		b.Fatal(fmt.Errorf("Publish = %+v, %w", r, err))
	}
	return time.Since(start).Seconds(), float64(written(b) - before)
}
