package bench

import (
	"bytes"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"lockstep/catalog"
	"lockstep/intake"
	oaiintake "lockstep/intake/harvest/oaipmh"
	"lockstep/internal/fetch"
	"lockstep/oaipmh"
	"lockstep/oaipmh/oaipmhtest"
	"lockstep/storage/sqlite"
)

var (
	oaiRecords = flag.Int("oai.records", 100_000, "records of the repository")
	oaiPage    = flag.Int("oai.page", 100, "records of a response")
	oaiSize    = flag.Int("oai.size", 500, "bytes of a record's description")
	oaiDelay   = flag.Duration("oai.delay", 100*time.Millisecond, "what a real repository takes for a response, in the paced run")
	oaiRounds  = flag.Int("oai.rounds", 3, "measurements of each, in turn")
	oaiDir     = flag.String("oai.dir", "/dev/shm", "where the databases go")
)

// BenchmarkHarvest sets the first harvest of a repository beside a bare loop that
// asks for the same responses, reads them and looks for the resumption token
// alone: at a pace that a real repository could have, and as fast as ours is;
// durable in SQLite, contents and all, as sync and serve harvest, and in memory.
func BenchmarkHarvest(b *testing.B) {
	for _, bb := range []struct {
		name   string
		delay  time.Duration
		rounds int
		memory bool
	}{
		{"paced", *oaiDelay, 1, false},
		{"flatout", 0, *oaiRounds, false},
		{"flatout-memory", 0, *oaiRounds, true},
	} {
		b.Run(bb.name, func(b *testing.B) {
			server := newBenchRepository(b, oaipmhtest.Options{Records: *oaiRecords, Delay: bb.delay})
			if bb.delay == 0 {
				bareHarvest(b, server.url) // so that both find it warm
			}
			for b.Loop() {
				var bare, ours []float64
				for range bb.rounds {
					bare = append(bare, bareHarvest(b, server.url).Seconds())
					d, r := newBenchHarvest(b, server.url, bb.memory).scan(b)
					if r.Created != int64(*oaiRecords) {
						b.Fatalf("report = %+v", r)
					}
					ours = append(ours, d.Seconds())
				}
				slices.Sort(bare)
				slices.Sort(ours)
				mid := len(ours) / 2
				b.ReportMetric(float64(*oaiRecords)/ours[mid], "records/s")
				b.ReportMetric(float64(*oaiRecords)/bare[mid], "bare-records/s")
				b.ReportMetric(100*bare[mid]/ours[mid], "%of-bare")
			}
		})
	}
}

// BenchmarkHarvestIncremental sets harvests of a hundred changes of a small
// repository beside those of a large one.
func BenchmarkHarvestIncremental(b *testing.B) {
	for _, n := range []int{*oaiRecords / 100, *oaiRecords} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			server := newBenchRepository(b, oaipmhtest.Options{Records: n})
			h := newBenchHarvest(b, server.url, false)
			h.scan(b)
			var requests, sent int64
			runs := 0
			for b.Loop() {
				b.StopTimer()
				for i := range 100 {
					server.repo.Put(oaipmhtest.Record{Identifier: fmt.Sprintf("oai:example.org:%07d", i), Title: fmt.Sprint("Change ", runs)})
				}
				// The repository sorts its records again, which must not be measured.
				bareGet(b, oaipmh.URL(server.url, oaipmh.VerbListIdentifiers, "metadataPrefix", "oai_dc"))
				requests -= server.requests.Load()
				sent -= server.sent.Load()
				b.StartTimer()
				_, r := h.scan(b)
				runs++
				requests += server.requests.Load()
				sent += server.sent.Load()
				if r.Updated != 100 {
					b.Fatalf("report = %+v", r)
				}
			}
			b.ReportMetric(float64(requests)/float64(runs), "requests/op")
			b.ReportMetric(float64(sent)/float64(runs), "bytes-sent/op")
		})
	}
}

// A benchRepository counts what is asked of a repository.
type benchRepository struct {
	repo           *oaipmhtest.Repository
	url            string
	requests, sent atomic.Int64
}

func newBenchRepository(b *testing.B, o oaipmhtest.Options) *benchRepository {
	b.Helper()
	o.PageSize, o.Size = *oaiPage, *oaiSize
	s := &benchRepository{repo: oaipmhtest.New(o)}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		s.requests.Add(1)
		s.repo.ServeHTTP(&countingWriter{w, &s.sent}, q)
	}))
	b.Cleanup(server.Close)
	s.url = server.URL
	return s
}

// A countingWriter counts the bytes of bodies.
type countingWriter struct {
	http.ResponseWriter
	n *atomic.Int64
}

func (w *countingWriter) Write(p []byte) (int, error) {
	n, err := w.ResponseWriter.Write(p)
	w.n.Add(int64(n))
	return n, err
}

// A benchHarvest is a harvest into a database of its own.
type benchHarvest struct{ oai *oaiintake.Harvester }

func newBenchHarvest(b *testing.B, address string, memory bool) *benchHarvest {
	b.Helper()
	dir, err := os.MkdirTemp(*oaiDir, "lockstep-oai-")
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = os.RemoveAll(dir) }) // the next user of the directory notices leftovers
	cat, contents := catalog.Catalog(catalog.NewMem(nil)), intake.Contents(new(intake.MemContents))
	if !memory {
		db, err := sqlite.Open(filepath.Join(dir, "state.db"))
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { _ = db.Close() })
		cat, contents = db.Catalog(), db.Contents()
	}
	home, err := url.Parse(address)
	if err != nil {
		b.Fatal(err)
	}
	c, err := fetch.New(fetch.Options{Home: home})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(c.Close)
	h := &benchHarvest{}
	h.oai, err = oaiintake.New(address, c, cat, "set", oaiintake.Options{
		Contents: contents, State: filepath.Join(dir, "state.json"), TempDir: dir,
	})
	if err != nil {
		b.Fatal(err)
	}
	return h
}

func (h *benchHarvest) scan(b *testing.B) (time.Duration, intake.Report) {
	b.Helper()
	start := time.Now()
	r, err := h.oai.Scan(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	return time.Since(start), r
}

// bareHarvest asks for a whole list and makes nothing of it.
func bareHarvest(b *testing.B, base string) time.Duration {
	b.Helper()
	start := time.Now()
	for uri := oaipmh.URL(base, oaipmh.VerbListRecords, "metadataPrefix", "oai_dc"); uri != ""; {
		body := bareGet(b, uri)
		_, token, _ := bytes.Cut(body[max(len(body)-2000, 0):], []byte("<resumptionToken"))
		_, token, _ = bytes.Cut(token, []byte(">"))
		token, _, _ = bytes.Cut(token, []byte("<"))
		if uri = ""; len(token) > 0 {
			uri = oaipmh.URL(base, oaipmh.VerbListRecords, "resumptionToken", string(token))
		}
	}
	return time.Since(start)
}

func bareGet(b *testing.B, uri string) []byte {
	b.Helper()
	resp, err := http.Get(uri)
	if err != nil {
		b.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		b.Fatal(err)
	}
	return body
}
