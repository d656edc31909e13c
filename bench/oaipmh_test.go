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
	"testing"
	"time"

	"lockstep/intake"
	"lockstep/internal/fetch"
	"lockstep/oaipmh"
	"lockstep/oaipmh/oaipmhtest"
	"lockstep/storage/sqlite"
)

var (
	oaiRecords = flag.Int("oai.records", 100_000, "records of the repository")
	oaiPage    = flag.Int("oai.page", 500, "records of a response")
	oaiSize    = flag.Int("oai.size", 500, "bytes of a record's description")
	oaiDelay   = flag.Duration("oai.delay", 100*time.Millisecond, "what a real repository takes for a response, in the paced run")
	oaiRounds  = flag.Int("oai.rounds", 3, "measurements of each, in turn")
	oaiDir     = flag.String("oai.dir", "/dev/shm", "where the databases go")
)

// BenchmarkHarvest sets the first harvest of a repository, durable in SQLite,
// contents and all, beside a bare loop that asks for the same responses, reads
// them and looks for the resumption token alone; at a pace that a real repository
// could have, and as fast as ours is.
func BenchmarkHarvest(b *testing.B) {
	for _, bb := range []struct {
		name  string
		delay time.Duration
	}{{"paced", *oaiDelay}, {"flatout", 0}} {
		b.Run(bb.name, func(b *testing.B) {
			repo := oaipmhtest.New(oaipmhtest.Options{Records: *oaiRecords, PageSize: *oaiPage, Size: *oaiSize, Delay: bb.delay})
			server := httptest.NewServer(repo)
			defer server.Close()
			bareHarvest(b, server.URL) // so that both find it warm
			for b.Loop() {
				var bare, ours []float64
				for range *oaiRounds {
					bare = append(bare, bareHarvest(b, server.URL).Seconds())
					h := newBenchHarvest(b, server.URL)
					d, r := h.scan(b)
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

// BenchmarkHarvestIncremental sets a harvest of a hundred changes beside one of a
// repository that is ten times as large.
func BenchmarkHarvestIncremental(b *testing.B) {
	for _, n := range []int{*oaiRecords / 10, *oaiRecords} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			repo := oaipmhtest.New(oaipmhtest.Options{Records: n, PageSize: *oaiPage, Size: *oaiSize})
			server := httptest.NewServer(repo)
			defer server.Close()
			h := newBenchHarvest(b, server.URL)
			h.scan(b)
			asked := len(repo.Requests())
			runs := 0
			for b.Loop() {
				b.StopTimer()
				for i := range 100 {
					repo.Put(oaipmhtest.Record{Identifier: fmt.Sprintf("oai:example.org:%07d", i), Title: fmt.Sprint("Change ", runs)})
				}
				repo.Requests() // sorted anew with the next list, which is not ours to measure
				bareGet(b, oaipmh.URL(server.URL, oaipmh.VerbListIdentifiers, "metadataPrefix", "oai_dc"))
				b.StartTimer()
				_, r := h.scan(b)
				runs++
				if r.Updated != 100 {
					b.Fatalf("report = %+v", r)
				}
			}
			b.ReportMetric(float64(len(repo.Requests())-asked)/float64(runs)-1, "requests/op")
		})
	}
}

// A benchHarvest is a harvest into a database of its own.
type benchHarvest struct{ oai *intake.OAIPMH }

func newBenchHarvest(b *testing.B, address string) *benchHarvest {
	b.Helper()
	dir, err := os.MkdirTemp(*oaiDir, "lockstep-oai-")
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = os.RemoveAll(dir) }) // what stays is told by the next who looks
	db, err := sqlite.Open(filepath.Join(dir, "state.db"))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = db.Close() })
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
	h.oai, err = intake.NewOAIPMH(address, c, db.Catalog(), "set", intake.OAIPMHOptions{
		Contents: db.Contents(), State: filepath.Join(dir, "state.json"), TempDir: dir,
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
