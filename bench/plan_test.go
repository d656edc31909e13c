//go:build linux

package bench

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"flag"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"lockstep/destination"
	"lockstep/destination/journal"
	"lockstep/resourcesync"
	"lockstep/storage/sqlite"
)

var (
	planEntries = flag.Int("plan.entries", 500_000, "entries of the Resource List Index, in parts of 50,000")
	planDir     = flag.String("plan.dir", "/dev/shm", "where the mirror and the documents go: 5,000,000 files take more than a memory disk may hold")
	planRounds  = flag.Int("plan.rounds", 3, "measurements")
)

// BenchmarkPlan measures `lockstep sync -n`, the whole process, where all is
// held already: the index and its parts are read over HTTP, every entry is
// compared with its row of the Journal, and every file is looked at. The files
// are empty, and what lists and rows say their hashes are is made up: nothing
// reads them.
func BenchmarkPlan(b *testing.B) {
	n := *planEntries
	dir, err := os.MkdirTemp(*planDir, "lockstep-plan-")
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = os.RemoveAll(dir) }) // made above
	docs, mirror := filepath.Join(dir, "docs"), filepath.Join(dir, "mirror")
	if err := os.Mkdir(docs, 0o777); err != nil {
		b.Fatal(err)
	}
	srv := httptest.NewServer(http.FileServer(http.Dir(docs)))
	b.Cleanup(srv.Close)
	p := plannedMirror{base: srv.URL, entries: n, at: time.Now().UTC().Add(-time.Hour).Truncate(time.Second)}
	p.publish(b, docs)
	p.build(b, mirror)
	program := filepath.Join(b.TempDir(), "lockstep")
	if out, err := exec.Command("go", "build", "-o", program, "lockstep/cmd/lockstep").CombinedOutput(); err != nil {
		b.Fatalf("%v\n%s", err, out)
	}
	for b.Loop() {
		var seconds []float64
		var peak int64
		for range *planRounds {
			s, rss := timed(b, exec.Command(program, "sync", "-n", "-q", "--json", srv.URL+"/capabilitylist.xml", mirror))
			seconds, peak = append(seconds, s), max(peak, rss)
		}
		b.ReportMetric(median(seconds), "plan-s")
		b.ReportMetric(float64(n)/median(seconds), "entries/s")
		b.ReportMetric(float64(peak)/(1<<20), "plan-MB")
	}
	out, err := exec.Command(program, "sync", "-n", "-q", "--json", srv.URL+"/capabilitylist.xml", mirror).Output()
	var r destination.Report
	if jerr := json.Unmarshal(out, &r); err != nil || jerr != nil || r.Unchanged != int64(n) {
		b.Fatalf("%v, %v: %s", err, jerr, out)
	}
}

// A plannedMirror is a mirror in step with a Source of empty resources, of which
// hashes are made up, or of resources of a size, of which they are right.
type plannedMirror struct {
	base    string
	entries int
	at      time.Time
	size    int
}

// octets is the media type of all resources.
const octets = "application/octet-stream"

// content is that of a resource, if it is not empty.
func (p *plannedMirror) content(i int) []byte {
	b := bytes.Repeat([]byte{byte(i), 1, 2, 3}, p.size/4)
	if len(b) >= 8 {
		binary.LittleEndian.PutUint64(b, uint64(i))
	}
	return b
}

// path keeps a thousand files in a directory, and sorts as i does.
func (p *plannedMirror) path(i int) string {
	return fmt.Sprintf("data/%03d/%03d/resource-%07d.bin", i/1_000_000, i/1000%1000, i)
}

func (p *plannedMirror) hashes(i int) resourcesync.Hashes {
	if p.size > 0 {
		h := resourcesync.NewHasher(resourcesync.MD5, resourcesync.SHA256)
		_, _ = h.Write(p.content(i)) // never fails
		return h.Sum()
	}
	var d [32]byte
	for k := range 4 {
		binary.LittleEndian.PutUint64(d[8*k:], uint64(i+1)*0x9e3779b97f4a7c15>>k)
	}
	return resourcesync.Hashes{{Algorithm: resourcesync.MD5, Digest: string(d[:16])}, {Algorithm: resourcesync.SHA256, Digest: string(d[:])}}
}

// publish writes the documents.
func (p *plannedMirror) publish(b *testing.B, dir string) {
	b.Helper()
	at := resourcesync.NewDatetime(p.at)
	up := []resourcesync.Link{{Rel: "up", Href: p.base + "/capabilitylist.xml"}}
	write := func(name string, h resourcesync.Header, es []resourcesync.Entry) {
		var buf bytes.Buffer
		w, err := resourcesync.NewWriter(&buf, h)
		if err != nil {
			b.Fatal(err)
		}
		for i := range es {
			if err := w.Write(&es[i]); err != nil {
				b.Fatal(err)
			}
		}
		if err := w.Close(); err != nil {
			b.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), buf.Bytes(), 0o666); err != nil {
			b.Fatal(err)
		}
	}
	const part = resourcesync.MaxEntries
	var index []resourcesync.Entry
	for from := 0; from < p.entries; from += part {
		var es []resourcesync.Entry
		for i := from; i < min(from+part, p.entries); i++ {
			e := resourcesync.Entry{Loc: p.base + "/" + p.path(i), Lastmod: at}
			e.Hashes, e.Length, e.HasLength, e.Type = p.hashes(i), int64(len(p.content(i))), true, octets
			es = append(es, e)
		}
		name := fmt.Sprintf("list-%05d.xml", from/part)
		write(name, resourcesync.Header{Capability: resourcesync.ResourceList, At: at, Links: up}, es)
		index = append(index, resourcesync.Entry{Loc: p.base + "/" + name})
	}
	write("resourcelist.xml", resourcesync.Header{Capability: resourcesync.ResourceList, Index: true, At: at, Links: up}, index)
	write("capabilitylist.xml", resourcesync.Header{Capability: resourcesync.CapabilityList, Links: []resourcesync.Link{{Rel: "up", Href: p.base + "/.well-known/resourcesync"}}},
		[]resourcesync.Entry{{Loc: p.base + "/resourcelist.xml", Metadata: resourcesync.Metadata{Capability: resourcesync.ResourceList}}})
}

// build writes the Journal and the files.
func (p *plannedMirror) build(b *testing.B, dir string) {
	b.Helper()
	state := filepath.Join(dir, filepath.FromSlash(destination.StateFile))
	if err := os.MkdirAll(filepath.Dir(state), 0o777); err != nil {
		b.Fatal(err)
	}
	db, err := sqlite.Open(state)
	if err != nil {
		b.Fatal(err)
	}
	defer db.Close()
	record := func(batch journal.Batch) error { return db.Journal().Record(context.Background(), batch) }
	list := p.base + "/capabilitylist.xml"
	save := map[string][]byte{
		"mirror": fmt.Appendf(nil, `{"origin":%q,"numbers":{%q:1}}`, p.base, list),
		"counts": fmt.Appendf(nil, `{"1":%d}`, p.entries),
		"set/1":  fmt.Appendf(nil, `{"uri":%q,"number":1,"complete":true}`, list),
	}
	if err := record(journal.Batch{Save: save}); err != nil {
		b.Fatal(err)
	}
	var g errgroup.Group
	g.SetLimit(4)
	const batch = 20_000
	for from := 0; from < p.entries; from += batch {
		to := min(from+batch, p.entries)
		g.Go(func() error { return p.touch(dir, from, to) })
		var rows journal.Batch
		for i := from; i < to; i++ {
			rows.Put = append(rows.Put, journal.Held{URI: p.base + "/" + p.path(i), Path: p.path(i), Length: int64(len(p.content(i))), Lastmod: p.at, Hashes: p.hashes(i),
				ETag: fmt.Sprintf(`"%x"`, i), Modified: p.at.Format(http.TimeFormat), Sets: []int{1}, Type: octets, Stated: p.stated(i)})
		}
		if err := record(rows); err != nil {
			b.Fatal(err)
		}
	}
	if err := g.Wait(); err != nil {
		b.Fatal(err)
	}
}

// stated is what publish states of a resource.
func (p *plannedMirror) stated(i int) *journal.Stated {
	return &journal.Stated{Lastmod: resourcesync.NewDatetime(p.at).WithGranularity(resourcesync.Second), Length: int64(len(p.content(i))), Hashes: p.hashes(i)}
}

func (p *plannedMirror) touch(dir string, from, to int) error {
	for i := from; i < to; i++ {
		name := filepath.Join(dir, p.path(i))
		if i%1000 == 0 {
			if err := os.MkdirAll(filepath.Dir(name), 0o777); err != nil {
				return err
			}
		}
		if err := os.WriteFile(name, p.content(i), 0o666); err != nil {
			return err
		}
		if err := os.Chtimes(name, time.Time{}, p.at); err != nil {
			return err
		}
	}
	return nil
}
