package bench

import (
	"context"
	"crypto/md5"
	"crypto/sha256"
	"encoding/binary"
	"flag"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"lockstep/catalog"
	"lockstep/resourcesync"
	"lockstep/storage/sqlite"
)

var catalogResources = flag.Int("catalog-resources", 1_000_000, "resources in the catalog that is measured")

const catalogSet = "https://data.example.org/resourcesync/main/capabilitylist.xml"

// catalogUpdate puts the i-th of many resources, as a scan of a directory would.
func catalogUpdate(i, version int) catalog.Update {
	var seed [16]byte
	binary.LittleEndian.PutUint64(seed[:], uint64(i))
	binary.LittleEndian.PutUint64(seed[8:], uint64(version))
	m, s := md5.Sum(seed[:]), sha256.Sum256(seed[:])
	return catalog.Update{Record: catalog.Record{
		URI:     fmt.Sprintf("https://data.example.org/articles/%05d/item-%08d.xml", i/1000, i),
		Lastmod: time.Unix(1_700_000_000+int64(i), 123_456_000).UTC(),
		Length:  4096,
		Type:    "application/xml",
		Hashes:  resourcesync.Hashes{{Algorithm: resourcesync.MD5, Digest: string(m[:])}, {Algorithm: resourcesync.SHA256, Digest: string(s[:])}},
		Token:   string(seed[:]) + "inode+ctime 1234",
	}}
}

// fillCatalog creates n resources, in order, with an Apply for each batch.
func fillCatalog(tb testing.TB, c catalog.Catalog, n, batch int) {
	tb.Helper()
	updates := make([]catalog.Update, 0, batch)
	for i := range n {
		updates = append(updates, catalogUpdate(i, 0))
		if len(updates) == batch || i == n-1 {
			applyCatalog(tb, c, updates)
			updates = updates[:0]
		}
	}
}

func applyCatalog(tb testing.TB, c catalog.Catalog, updates []catalog.Update) {
	tb.Helper()
	a, err := c.Apply(context.Background(), catalogSet, updates)
	if err != nil {
		tb.Fatal(err)
	}
	if a.Created+a.Updated+a.Deleted+a.Unchanged != len(updates) {
		tb.Fatalf("Apply = %+v of %d", a, len(updates))
	}
}

func openCatalog(tb testing.TB) catalog.Catalog {
	tb.Helper()
	db, err := sqlite.Open(filepath.Join(tb.TempDir(), "catalog.db"))
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = db.Close() })
	return db.Catalog()
}

func perRow(b *testing.B, rows int) {
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(rows), "ns/row")
	b.ReportMetric(float64(rows)*float64(b.N)/b.Elapsed().Seconds(), "rows/s")
	b.ReportMetric(0, "ns/op")
}

// BenchmarkCatalogCreate puts sorted resources into an empty set.
func BenchmarkCatalogCreate(b *testing.B) {
	for _, n := range []int{100_000, *catalogResources} {
		for _, batch := range []int{1000, 10_000} {
			b.Run(fmt.Sprintf("resources=%d/batch=%d", n, batch), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					b.StopTimer()
					c := openCatalog(b)
					updates := make([]catalog.Update, n)
					for i := range updates {
						updates[i] = catalogUpdate(i, 0)
					}
					b.StartTimer()
					for chunk := range slices.Chunk(updates, batch) {
						applyCatalog(b, c, chunk)
					}
				}
				perRow(b, n)
			})
		}
	}
}

// BenchmarkCatalogFull measures what is done with a large set.
func BenchmarkCatalogFull(b *testing.B) {
	n := *catalogResources
	c := openCatalog(b)
	fillCatalog(b, c, n, 10_000)
	if _, err := c.Mark(b.Context(), catalogSet); err != nil {
		b.Fatal(err)
	}
	read := func(b *testing.B, r catalog.Range) (rows int) {
		for _, err := range c.Resources(b.Context(), catalogSet, r) {
			if err != nil {
				b.Error(err)
			}
			rows++
		}
		return rows
	}
	for _, readers := range []int{1, runtime.GOMAXPROCS(0)} {
		b.Run(fmt.Sprintf("Resources/readers=%d", readers), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				var g sync.WaitGroup
				from := ""
				for to, err := range c.Split(b.Context(), catalogSet, (n+readers-1)/readers) {
					if err != nil {
						b.Fatal(err)
					}
					r := catalog.Range{From: from, To: to}
					g.Go(func() { read(b, r) })
					from = to
				}
				read(b, catalog.Range{From: from})
				g.Wait()
			}
			perRow(b, n)
		})
	}
	b.Run("Split", func(b *testing.B) {
		for b.Loop() {
			for _, err := range c.Split(b.Context(), catalogSet, 50_000) {
				if err != nil {
					b.Fatal(err)
				}
			}
		}
	})
	b.Run("Unchanged100000", func(b *testing.B) { // what a scan that finds nothing reads
		for b.Loop() {
			read(b, catalog.Range{To: catalogUpdate(100_000, 0).URI})
		}
	})
	version := 0
	for _, k := range []int{1, 100, 10_000} {
		b.Run(fmt.Sprintf("Change%d", k), func(b *testing.B) {
			updates := make([]catalog.Update, k)
			for b.Loop() {
				b.StopTimer()
				version++
				for i := range updates {
					updates[i] = catalogUpdate(rand.IntN(n), version)
				}
				b.StartTimer()
				applyCatalog(b, c, updates)
			}
		})
	}
	b.Run("Rewrite100000", func(b *testing.B) { // every resource of a part changed, in order
		updates := make([]catalog.Update, 100_000)
		for b.Loop() {
			b.StopTimer()
			version++
			for i := range updates {
				updates[i] = catalogUpdate(i, version)
			}
			b.StartTimer()
			applyCatalog(b, c, updates)
		}
	})
	b.Run("Changes", func(b *testing.B) {
		rows := 0
		for b.Loop() {
			rows = 0
			for _, err := range c.Changes(b.Context(), catalogSet, 0) {
				if err != nil {
					b.Fatal(err)
				}
				rows++
			}
		}
		perRow(b, rows)
	})
}

// BenchmarkCatalogOpen opens and closes a database that exists.
func BenchmarkCatalogOpen(b *testing.B) {
	path := filepath.Join(b.TempDir(), "catalog.db")
	for b.Loop() {
		db, err := sqlite.Open(path)
		if err != nil {
			b.Fatal(err)
		}
		if _, err := db.Catalog().Status(b.Context(), catalogSet); err != nil {
			b.Fatal(err)
		}
		if err := db.Close(); err != nil {
			b.Fatal(err)
		}
	}
}
