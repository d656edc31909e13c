//go:build linux

package bench

import (
	"bufio"
	"context"
	"encoding/binary"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"lockstep/blob"
	"lockstep/destination"
	"lockstep/destination/journal"
	"lockstep/discover"
	"lockstep/internal/fetch"
	"lockstep/resourcesync"
	"lockstep/storage/sqlite"
)

var (
	catchUpDays      = flag.Int("catchup.days", 30, "archived Change Lists, one for each day")
	catchUpEvents    = flag.Int("catchup.events", 50_000, "changes in each")
	catchUpResources = flag.Int("catchup.resources", 100_000, "resources of the mirror, all of which change")
	catchUpDir       = flag.String("catchup.dir", "/dev/shm", "where the mirror and the documents go")
	catchUpRounds    = flag.Int("catchup.rounds", 3, "measurements")
)

// BenchmarkCatchUp measures `lockstep sync -n`, the whole process, of a mirror
// that was away for as long as the archive of the Change List has documents: it
// reads them over HTTP, proves that they join, and plans. xmllint streaming over
// the same documents, from files, is set beside it.
func BenchmarkCatchUp(b *testing.B) {
	dir, err := os.MkdirTemp(*catchUpDir, "lockstep-catchup-")
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
	p := awayMirror{
		plannedMirror: plannedMirror{base: srv.URL, entries: *catchUpResources, at: time.Now().UTC().AddDate(0, 0, -*catchUpDays-1).Truncate(time.Second)},
		docs:          docs,
	}
	files := p.publish(b)
	p.build(b, mirror)
	p.leave(b, mirror)
	program := filepath.Join(b.TempDir(), "lockstep")
	if out, err := exec.Command("go", "build", "-o", program, "lockstep/cmd/lockstep").CombinedOutput(); err != nil {
		b.Fatalf("%v\n%s", err, out)
	}
	args := []string{"sync", "-n", "-q", "--json", srv.URL + "/capabilitylist.xml", mirror}
	out, err := exec.Command(program, args...).Output()
	var r destination.Report
	if jerr := json.Unmarshal(out, &r); err != nil || jerr != nil || r.Mode != destination.ModeIncremental || int(r.Updated) != p.changed {
		b.Fatalf("%v, %v: %s, want %d updated", err, jerr, out, p.changed)
	}
	lint, lintErr := exec.LookPath("xmllint")
	events := float64(*catchUpDays) * float64(*catchUpEvents)
	for b.Loop() {
		var ours, cpu, theirs []float64
		var peak int64
		for range *catchUpRounds {
			c := exec.Command(program, args...)
			s, rss := timed(b, c)
			ours, peak = append(ours, s), max(peak, rss)
			cpu = append(cpu, (c.ProcessState.UserTime() + c.ProcessState.SystemTime()).Seconds())
			if lintErr == nil {
				s, _ := timed(b, exec.Command(lint, append([]string{"--stream", "--noout"}, files...)...))
				theirs = append(theirs, s)
			}
		}
		b.ReportMetric(median(ours), "catchup-s")
		b.ReportMetric(median(cpu), "catchup-cpu-s")
		b.ReportMetric(events/median(ours), "events/s")
		b.ReportMetric(float64(peak)/(1<<20), "catchup-MB")
		if lintErr == nil {
			b.ReportMetric(median(theirs), "xmllint-s")
			b.ReportMetric(median(theirs)/median(ours), "xmllint/catchup")
		}
	}
	if lintErr != nil {
		b.Log("xmllint is not installed: there is no yardstick beside this")
	}
}

// An awayMirror is a mirror that was in step with a Source when the first of
// the archived changes happened.
type awayMirror struct {
	plannedMirror
	docs    string
	changed int // resources
}

// publish writes the documents, and returns the files of the archived ones.
func (p *awayMirror) publish(b *testing.B) (files []string) {
	b.Helper()
	up := []resourcesync.Link{{Rel: resourcesync.RelUp, Href: p.base + "/capabilitylist.xml"}}
	archive := p.create(b, "changelist-archive.xml", resourcesync.Header{Capability: resourcesync.ChangeListArchive, Links: up})
	random := rand.New(rand.NewPCG(1, 2))
	changed := map[int]bool{}
	from := p.at
	for day := range *catchUpDays {
		until := from.AddDate(0, 0, 1)
		name := fmt.Sprintf("changes-%04d.xml", day)
		list := p.create(b, name, resourcesync.Header{Capability: resourcesync.ChangeList, From: resourcesync.NewDatetime(from), Until: resourcesync.NewDatetime(until), Links: up})
		for i := range *catchUpEvents {
			n := random.IntN(p.entries)
			if i == 0 || len(changed) < p.entries {
				changed[n] = true
			}
			list.write(p.event(n, from.Add(until.Sub(from)/time.Duration(*catchUpEvents)*time.Duration(i))))
		}
		files = append(files, list.close())
		archive.write(resourcesync.Entry{Loc: p.base + "/" + name,
			Metadata: resourcesync.Metadata{From: resourcesync.NewDatetime(from), Until: resourcesync.NewDatetime(until)}})
		from = until
	}
	archive.close()
	p.create(b, "changelist.xml", resourcesync.Header{Capability: resourcesync.ChangeList, From: resourcesync.NewDatetime(from), Links: up}).close()
	caps := p.create(b, "capabilitylist.xml", resourcesync.Header{Capability: resourcesync.CapabilityList,
		Links: []resourcesync.Link{{Rel: resourcesync.RelUp, Href: p.base + "/.well-known/resourcesync"}}})
	for _, c := range []resourcesync.Capability{resourcesync.ResourceList, resourcesync.ChangeList, resourcesync.ChangeListArchive} {
		caps.write(resourcesync.Entry{Loc: p.base + "/" + string(c) + ".xml", Metadata: resourcesync.Metadata{Capability: c}})
	}
	caps.close()
	p.changed = len(changed)
	return files
}

// event is an update of the n-th resource.
func (p *awayMirror) event(n int, at time.Time) resourcesync.Entry {
	e := resourcesync.Entry{Loc: p.base + "/" + p.path(n), Lastmod: resourcesync.NewDatetime(at)}
	e.Change, e.Datetime = resourcesync.Updated, e.Lastmod
	e.Length, e.HasLength, e.Type = 100, true, "application/octet-stream"
	var d [32]byte
	binary.LittleEndian.PutUint64(d[:], uint64(at.UnixNano()))
	e.Hashes = resourcesync.Hashes{{Algorithm: resourcesync.MD5, Digest: string(d[:16])}, {Algorithm: resourcesync.SHA256, Digest: string(d[:])}}
	return e
}

// leave has the mirror know the Source as of when the archive begins.
func (p *awayMirror) leave(b *testing.B, dir string) {
	b.Helper()
	db, err := sqlite.Open(filepath.Join(dir, filepath.FromSlash(destination.StateFile)))
	if err != nil {
		b.Fatal(err)
	}
	defer db.Close()
	state := fmt.Appendf(nil, `{"uri":%q,"number":1,"complete":true,"selection":%q,"watermark":%q}`, p.base+"/capabilitylist.xml", selection(b), p.at.Format(time.RFC3339))
	if err := db.Journal().Record(context.Background(), journal.Batch{Save: map[string][]byte{"set/1": state}}); err != nil {
		b.Fatal(err)
	}
}

// selection is what a mirror that selects nothing notes of that.
func selection(b *testing.B) string {
	b.Helper()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = fmt.Fprint(w, `<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9" xmlns:rs="http://www.openarchives.org/rs/terms/">`+
			`<rs:md capability="resourcelist" at="2026-01-01T00:00:00Z"/></urlset>`)
	}))
	defer srv.Close()
	client, err := fetch.New(fetch.Options{Home: discover.Home(srv.URL)})
	if err != nil {
		b.Fatal(err)
	}
	defer client.Close()
	var journal journal.Mem
	d, err := destination.New(&blob.Mem{}, &journal, client, destination.Options{})
	if err != nil {
		b.Fatal(err)
	}
	if _, err := d.Sync(context.Background(), srv.URL+"/resourcelist.xml"); err != nil {
		b.Fatal(err)
	}
	var set struct{ Selection string }
	saved, err := journal.Load(context.Background(), "set/1")
	if jerr := json.Unmarshal(saved, &set); err != nil || jerr != nil {
		b.Fatal(err, jerr)
	}
	return set.Selection
}

// A document is one being written.
type document struct {
	b    *testing.B
	file *os.File
	buf  *bufio.Writer
	w    *resourcesync.Writer
}

func (p *awayMirror) create(b *testing.B, name string, h resourcesync.Header) *document {
	b.Helper()
	f, err := os.Create(filepath.Join(p.docs, name))
	if err != nil {
		b.Fatal(err)
	}
	d := &document{b: b, file: f, buf: bufio.NewWriterSize(f, 1<<20)}
	if d.w, err = resourcesync.NewWriter(d.buf, h); err != nil {
		b.Fatal(err)
	}
	return d
}

func (d *document) write(e resourcesync.Entry) {
	if err := d.w.Write(&e); err != nil {
		d.b.Fatal(err)
	}
}

// close returns the name of the file.
func (d *document) close() string {
	for _, end := range []func() error{d.w.Close, d.buf.Flush, d.file.Close} {
		if err := end(); err != nil {
			d.b.Fatal(err)
		}
	}
	return d.file.Name()
}
