//go:build linux

package bench

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"lockstep/atompmh"
	"lockstep/catalog"
	"lockstep/intake"
	feedintake "lockstep/intake/harvest/atompmh"
	"lockstep/internal/fetch"
	"lockstep/storage/sqlite"
)

// BenchmarkFeedHarvest sets the first harvest of a chain of archives of a thousand
// entries each, durable in SQLite, beside what it cannot do without: reading the
// documents one after the other, and putting the same resources into a catalog.
func BenchmarkFeedHarvest(b *testing.B) {
	p := newFeedPress(b, *feedEntries)
	p.walk(b) // so that both find it warm
	for b.Loop() {
		var walks, puts, harvests []float64
		for range min(*feedRounds, 3) {
			walks = append(walks, p.walk(b).Seconds())
			puts = append(puts, p.putAll(b).Seconds())
			start := time.Now()
			r := newFeedHarvest(b, p).scan(b)
			harvests = append(harvests, time.Since(start).Seconds())
			if r.Created != int64(*feedEntries) {
				b.Fatalf("report = %+v", r)
			}
		}
		n := float64(*feedEntries)
		b.ReportMetric(n/median(harvests), "entries/s")
		b.ReportMetric(n/median(walks), "read-entries/s")
		b.ReportMetric(n/median(puts), "put-entries/s")
		b.ReportMetric(100*(median(walks)+median(puts))/median(harvests), "%of-bound")
	}
}

// BenchmarkFeedIncremental harvests a hundred changes of feeds of a thousand
// records and of a hundred thousand, and reports the requests, next to the cost
// of a full harvest of the same feed.
func BenchmarkFeedIncremental(b *testing.B) {
	for _, n := range []int{1000, 100_000} {
		b.Run(strconv.Itoa(n), func(b *testing.B) {
			p := newFeedPress(b, n)
			h := newFeedHarvest(b, p)
			start := time.Now()
			h.scan(b)
			full := time.Since(start)
			fullRequests, fullBytes := p.took()
			var requests, size int64
			runs := 0
			for b.Loop() {
				b.StopTimer()
				p.change(100)
				b.StartTimer()
				if r := h.scan(b); r.Updated != 100 {
					b.Fatalf("report = %+v", r)
				}
				asked, sent := p.took()
				requests, size, runs = requests+asked, size+sent, runs+1
			}
			b.ReportMetric(float64(requests)/float64(runs), "requests/op")
			b.ReportMetric(float64(size)/float64(runs), "bytes/op")
			b.ReportMetric(float64(full.Milliseconds()), "full-ms")
			b.ReportMetric(float64(fullRequests), "full-requests")
			b.ReportMetric(float64(fullBytes), "full-bytes")
		})
	}
}

// feedPage is how many entries an archive document of a feedPress has.
const feedPage = 1000

// A feedPress serves a feed, all that ever happened in it, cut into archive
// documents.
type feedPress struct {
	base string

	mu       sync.Mutex     // guards what follows
	records  int            // each has one entry, in order;
	events   int            // then come changes
	archives map[int][]byte // as they were served
	requests int64
	bytes    int64
}

func newFeedPress(b *testing.B, records int) *feedPress {
	b.Helper()
	p := &feedPress{records: records, events: records, archives: make(map[int][]byte)}
	srv := httptest.NewServer(p)
	b.Cleanup(srv.Close)
	p.base = srv.URL
	return p
}

// change has so many records change, one after the other.
func (p *feedPress) change(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.events += n
}

// took returns what was asked for since, and sent.
func (p *feedPress) took() (requests, bytes int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	requests, bytes = p.requests, p.bytes
	p.requests, p.bytes = 0, 0
	return requests, bytes
}

func (p *feedPress) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.requests++
	newest := (p.events - 1) / feedPage
	doc, tag := newest, fmt.Sprintf(`"%d"`, p.events)
	if path, ok := strings.CutPrefix(r.URL.Path, "/archive/"); ok {
		doc, _ = strconv.Atoi(path)
		tag = `"archive"`
	}
	w.Header().Set("ETag", tag)
	if r.Header.Get("If-None-Match") == tag {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	text, ok := p.archives[doc]
	if doc == newest || !ok {
		text = p.print(doc)
		if doc != newest {
			p.archives[doc] = text
		}
	}
	p.bytes += int64(len(text))
	w.Header().Set("Content-Type", atompmh.MediaType)
	_, _ = w.Write(text) // the client may have disconnected
}

// print makes a document.
func (p *feedPress) print(doc int) []byte {
	from, to := doc*feedPage, min((doc+1)*feedPage, p.events)
	f := atompmh.Feed{ID: "urn:x-test:feed", Title: "Records", Author: "Bench", Updated: pressTime(to - 1), Self: p.base + "/feed"}
	if doc > 0 {
		f.PrevArchive = fmt.Sprintf("%s/archive/%d", p.base, doc-1)
	}
	var text bytes.Buffer
	w, err := atompmh.NewWriter(&text, f)
	for n := from; err == nil && n < to; n++ {
		err = w.Write(&atompmh.Entry{
			ID: recordID(n % p.records), Title: fmt.Sprintf("Record %d", n%p.records), Updated: pressTime(n), Kind: atompmh.Active,
			Links: []atompmh.Link{{Rel: "alternate", Type: "application/rdf+xml", Href: p.uri(n % p.records)}},
		})
	}
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		panic(err) // a bug of the benchmark
	}
	return text.Bytes()
}

// pressTime is when the n-th thing happened.
func pressTime(n int) time.Time {
	return time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC).Add(time.Duration(n) * time.Second)
}

// recordID is the identifier of the n-th record: in no order, as they are.
func recordID(n int) string { return atompmh.RecordID(strconv.Itoa(n)) }

func (p *feedPress) uri(n int) string { return fmt.Sprintf("%s/record/%d.rdf", p.base, n) }

// walk reads the documents of the chain, and nothing else.
func (p *feedPress) walk(b *testing.B) time.Duration {
	b.Helper()
	start := time.Now()
	for uri := p.base + "/feed"; uri != ""; {
		resp, err := http.Get(uri)
		if err != nil {
			b.Fatal(err)
		}
		r := atompmh.NewReader(resp.Body, atompmh.ReaderOptions{Base: uri})
		for _, err := range r.Entries() {
			if err != nil {
				b.Fatal(err)
			}
		}
		f, err := r.Feed()
		if err != nil {
			b.Fatal(err)
		}
		_ = resp.Body.Close() // only read from
		uri = f.PrevArchive
	}
	return time.Since(start)
}

// putAll puts the resources of the records into a catalog, and nothing else.
func (p *feedPress) putAll(b *testing.B) time.Duration {
	b.Helper()
	db, _ := feedDatabase(b)
	start := time.Now()
	var batch []catalog.Update
	for n := range p.records {
		r := catalog.Record{URI: p.uri(n), Type: "application/rdf+xml", Length: -1, Lastmod: pressTime(n), Token: "atom-pmh " + recordID(n)}
		batch = append(batch, catalog.Update{Record: r})
		if len(batch) == 1000 || n == p.records-1 {
			if _, err := db.Catalog().Apply(b.Context(), "set", batch); err != nil {
				b.Fatal(err)
			}
			batch = nil
		}
	}
	return time.Since(start)
}

func feedDatabase(b *testing.B) (*sqlite.DB, string) {
	b.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "lockstep-feed-")
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = os.RemoveAll(dir) }) // the next user of the directory notices leftovers
	db, err := sqlite.Open(filepath.Join(dir, "state.db"))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = db.Close() })
	return db, dir
}

// A feedHarvest is a harvest into a database of its own.
type feedHarvest struct{ pmh *feedintake.Harvester }

func newFeedHarvest(b *testing.B, p *feedPress) *feedHarvest {
	b.Helper()
	db, dir := feedDatabase(b)
	home, err := url.Parse(p.base)
	if err != nil {
		b.Fatal(err)
	}
	c, err := fetch.New(fetch.Options{Home: home})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(c.Close)
	a, err := feedintake.New(p.base+"/feed", c, db.Catalog(), "set", db.Ledger(), feedintake.Options{
		State: filepath.Join(dir, "state.json"), TempDir: dir,
	})
	if err != nil {
		b.Fatal(err)
	}
	return &feedHarvest{a}
}

func (h *feedHarvest) scan(b *testing.B) intake.Report {
	b.Helper()
	r, err := h.pmh.Scan(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	if r.Unreadable.Count > 0 {
		b.Fatalf("report = %+v", r)
	}
	return r
}
