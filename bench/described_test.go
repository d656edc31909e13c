//go:build linux

package bench

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"
	"unsafe"

	"lockstep/destination/journal"
	"lockstep/resourcesync"
	"lockstep/storage/sqlite"
)

var describedRows = flag.Int("described.rows", 200_000, "rows of BenchmarkDescribed")

// BenchmarkDescribed measures what it costs a mirror to keep what the Source states of
// its resources: the size of the state and of a row in memory, and the time to read
// all rows, without it and with more and more of it.
func BenchmarkDescribed(b *testing.B) {
	cases := []struct {
		name     string
		describe func(h *journal.Held, i int)
	}{
		{"nothing", func(*journal.Held, int) {}},
		{"type", describedType},
		{"describedby", func(h *journal.Held, i int) {
			describedType(h, i)
			h.Links = []resourcesync.Link{{Rel: "describedby", Href: h.URI + ".xml", Type: "application/xml"}}
		}},
		{"republished", func(h *journal.Held, i int) {
			describedType(h, i)
			origin := fmt.Sprintf("https://origin.example.net/archive/item-%07d.pdf", i)
			h.Links = []resourcesync.Link{
				{Rel: "describedby", Href: h.URI + ".xml", Type: "application/xml"},
				{Rel: "collection", Href: "https://data.example.org/collections/theses"},
				{Rel: "via", Href: origin, Type: "application/pdf", Modified: resourcesync.NewDatetime(h.Lastmod.Add(-time.Hour)), Length: h.Length, HasLength: true, Hashes: h.Hashes},
			}
		}},
	}
	for _, c := range cases {
		b.Run(c.name, func(b *testing.B) {
			for b.Loop() {
				measureDescribed(b, c.describe)
			}
		})
	}
}

func describedType(h *journal.Held, _ int) {
	h.Type = "application/pdf"
	h.Stated = &journal.Stated{Lastmod: resourcesync.NewDatetime(h.Lastmod), Length: h.Length, Hashes: h.Hashes}
}

func measureDescribed(b *testing.B, describe func(*journal.Held, int)) {
	file := filepath.Join(benchDir(b, "lockstep-described-"), "state.db")
	db, err := sqlite.Open(file)
	if err != nil {
		b.Fatal(err)
	}
	began := time.Now()
	for at := 0; at < *describedRows; {
		var batch journal.Batch
		for ; len(batch.Put) < 4096 && at < *describedRows; at++ {
			h := journal.Held{URI: fmt.Sprintf("https://data.example.org/items/item-%07d.pdf", at), Path: fmt.Sprintf("items/item-%07d.pdf", at),
				Length: int64(100_000 + at), Lastmod: time.Unix(1_700_000_000+int64(at), 0).UTC(), ETag: fmt.Sprintf("%q", fmt.Sprint(at)), Sets: []int{1}, Written: time.Unix(1_700_000_000+int64(at), 0).UTC(),
				Hashes: resourcesync.Hashes{{Algorithm: resourcesync.MD5, Digest: fmt.Sprintf("%016d", at)}, {Algorithm: resourcesync.SHA256, Digest: fmt.Sprintf("%032d", at)}}}
			describe(&h, at)
			batch.Put = append(batch.Put, h)
		}
		if err := db.Journal().Record(b.Context(), batch); err != nil {
			b.Fatal(err)
		}
	}
	wrote := time.Since(began)
	if err := db.Close(); err != nil { // which moves all into one file
		b.Fatal(err)
	}
	info, err := os.Stat(file)
	if err != nil {
		b.Fatal(err)
	}
	if db, err = sqlite.Open(file); err != nil {
		b.Fatal(err)
	}
	defer db.Close()
	var before, after runtime.MemStats
	kept := make([]journal.Held, 0, *describedRows)
	runtime.GC()
	runtime.ReadMemStats(&before)
	began = time.Now()
	for h, err := range db.Journal().Held(b.Context(), "", "") {
		if err != nil {
			b.Fatal(err)
		}
		kept = append(kept, h)
	}
	read := time.Since(began)
	runtime.GC()
	runtime.ReadMemStats(&after)
	n := float64(len(kept))
	runtime.KeepAlive(kept)
	b.ReportMetric(float64(info.Size())/n, "disk-B/row")
	b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/n+heldBytes, "memory-B/row")
	b.ReportMetric(float64(wrote.Nanoseconds())/n, "write-ns/row")
	b.ReportMetric(float64(read.Nanoseconds())/n, "read-ns/row")
}

// heldBytes is the size of a Held itself, whose memory is there before the measurement.
const heldBytes = float64(unsafe.Sizeof(journal.Held{}))
