//go:build linux

package bench

import (
	"bufio"
	"encoding/binary"
	"encoding/xml"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"testing"
	"time"

	"lockstep/resourcesync"
)

var (
	documentEntries = flag.Int("document.entries", 50_000, "entries of the document to read and write")
	documentRounds  = flag.Int("document.rounds", 9, "measurements of each, in turn")
	documentParts   = flag.Int("document.parts", 20, "parts of the Index, of 50,000 entries each")
)

// BenchmarkDocumentRead sets the Reader, from a file, beside xmllint streaming
// over the same file, a process that only checks that it is well formed, and
// beside encoding/xml into structs. The ratios are of medians; above 1 the
// Reader is the faster.
func BenchmarkDocumentRead(b *testing.B) {
	path := filepath.Join(b.TempDir(), "resourcelist.xml")
	size := writeDocument(b, path, *documentEntries)
	lint, err := exec.LookPath("xmllint")
	if err != nil {
		b.Skip("xmllint is not installed")
	}
	for b.Loop() {
		var ours, theirs, standard []float64
		var allocs uint64
		for range *documentRounds {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			start := time.Now()
			readDocument(b, path, *documentEntries)
			ours = append(ours, time.Since(start).Seconds())
			runtime.ReadMemStats(&after)
			allocs = after.Mallocs - before.Mallocs

			start = time.Now()
			if out, err := exec.Command(lint, "--stream", "--noout", path).CombinedOutput(); err != nil {
				b.Fatalf("xmllint: %v: %s", err, out)
			}
			theirs = append(theirs, time.Since(start).Seconds())

			start = time.Now()
			unmarshalDocument(b, path, *documentEntries)
			standard = append(standard, time.Since(start).Seconds())
		}
		b.ReportMetric(median(ours)*1000, "read-ms")
		b.ReportMetric(float64(size)/(1<<20)/median(ours), "read-MB/s")
		b.ReportMetric(median(theirs)*1000, "xmllint-ms")
		b.ReportMetric(median(standard)*1000, "encoding/xml-ms")
		b.ReportMetric(median(theirs)/median(ours), "xmllint/read")
		b.ReportMetric(median(standard)/median(ours), "encoding/xml/read")
		b.ReportMetric(float64(allocs)/float64(*documentEntries), "allocs/entry")
	}
}

// BenchmarkDocumentWrite sets the Writer beside encoding/xml writing the same
// entries from structs.
func BenchmarkDocumentWrite(b *testing.B) {
	entries := documentSample(*documentEntries)
	structs := make([]xmlURL, len(entries))
	for i, e := range entries {
		structs[i] = xmlURL{Loc: e.Loc, Lastmod: e.Lastmod.String(),
			MD: xmlMD{Hash: e.Hashes.String(), Length: e.Length, Type: e.Type}}
	}
	for b.Loop() {
		var ours, standard []float64
		var size int64
		for range *documentRounds {
			start := time.Now()
			w := beginDocument(b, io.Discard)
			for i := range entries {
				if err := w.Write(&entries[i]); err != nil {
					b.Fatal(err)
				}
			}
			if err := w.Close(); err != nil {
				b.Fatal(err)
			}
			ours, size = append(ours, time.Since(start).Seconds()), w.Bytes()

			start = time.Now()
			enc := xml.NewEncoder(io.Discard)
			if err := enc.Encode(xmlURLSet{URL: structs}); err != nil {
				b.Fatal(err)
			}
			standard = append(standard, time.Since(start).Seconds())
		}
		b.ReportMetric(median(ours)*1000, "write-ms")
		b.ReportMetric(float64(size)/(1<<20)/median(ours), "write-MB/s")
		b.ReportMetric(median(standard)*1000, "encoding/xml-ms")
		b.ReportMetric(median(standard)/median(ours), "encoding/xml/write")
	}
}

// BenchmarkDocumentIndex reads an Index and all its parts, a million entries in
// a process of its own, and reports that process's peak memory.
func BenchmarkDocumentIndex(b *testing.B) {
	dir := b.TempDir()
	n := *documentParts * resourcesync.MaxEntries
	var locs []string
	_, err := resourcesync.WriteParts(documentHeader(false), func(yield func(resourcesync.Entry, error) bool) {
		rnd := rand.New(rand.NewPCG(1, 2))
		for i := range n {
			if !yield(sampleEntry(rnd, i), nil) {
				return
			}
		}
	}, func(part int, write func(io.Writer) error) error {
		name := fmt.Sprintf("resourcelist-%05d.xml", part)
		locs = append(locs, "https://data.example.org/resourcesync/"+name)
		return writeFile(filepath.Join(dir, name), write)
	})
	if err == nil {
		err = writeFile(filepath.Join(dir, "resourcelist.xml"), func(w io.Writer) error {
			index, err := resourcesync.NewWriter(w, documentHeader(true))
			for _, loc := range locs {
				if err == nil {
					err = index.Write(&resourcesync.Entry{Loc: loc})
				}
			}
			if err != nil {
				return err
			}
			return index.Close()
		})
	}
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		var seconds []float64
		var peak int64
		for range max(1, *documentRounds/3) {
			c := exec.Command(os.Args[0], "-test.run=^TestDocumentProcess$")
			c.Env = append(os.Environ(), "LOCKSTEP_BENCH_INDEX="+dir, "LOCKSTEP_BENCH_ENTRIES="+strconv.Itoa(n))
			s, rss := timed(b, c)
			seconds, peak = append(seconds, s), max(peak, rss)
		}
		b.ReportMetric(median(seconds), "index-s")
		b.ReportMetric(float64(n)/median(seconds), "entries/s")
		b.ReportMetric(float64(peak)/(1<<20), "index-MB")
	}
}

// TestDocumentProcess is the process that BenchmarkDocumentIndex measures.
func TestDocumentProcess(t *testing.T) {
	dir := os.Getenv("LOCKSTEP_BENCH_INDEX")
	if dir == "" {
		return // only when BenchmarkDocumentIndex starts it
	}
	n := 0
	each(t, filepath.Join(dir, "resourcelist.xml"), func(part *resourcesync.Entry) {
		each(t, filepath.Join(dir, filepath.Base(part.Loc)), func(*resourcesync.Entry) { n++ })
	})
	if want := os.Getenv("LOCKSTEP_BENCH_ENTRIES"); strconv.Itoa(n) != want {
		t.Fatalf("read %d entries, want %s", n, want)
	}
}

// each calls f for every entry of the document at path.
func each(t testing.TB, path string, f func(*resourcesync.Entry)) {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	r := resourcesync.NewReader(file, resourcesync.ReaderOptions{})
	var e resourcesync.Entry
	for {
		if err := r.Read(&e); err == io.EOF {
			return
		} else if err != nil {
			t.Fatal(err)
		}
		f(&e)
	}
}

func readDocument(b *testing.B, path string, want int) {
	b.Helper()
	n := 0
	each(b, path, func(e *resourcesync.Entry) {
		if len(e.Hashes) == 2 && e.HasLength {
			n++
		}
	})
	if n != want {
		b.Fatalf("read %d entries, want %d", n, want)
	}
}

// What a Resource List is to encoding/xml.
type (
	xmlURLSet struct {
		XMLName xml.Name `xml:"http://www.sitemaps.org/schemas/sitemap/0.9 urlset"`
		URL     []xmlURL `xml:"url"`
	}
	xmlURL struct {
		Loc     string `xml:"loc"`
		Lastmod string `xml:"lastmod"`
		MD      xmlMD  `xml:"http://www.openarchives.org/rs/terms/ md"`
	}
	xmlMD struct {
		Hash   string `xml:"hash,attr"`
		Length int64  `xml:"length,attr"`
		Type   string `xml:"type,attr"`
	}
)

// unmarshalDocument reads the document into one struct after the other.
func unmarshalDocument(b *testing.B, path string, want int) {
	b.Helper()
	file, err := os.Open(path)
	if err != nil {
		b.Fatal(err)
	}
	defer file.Close()
	n, d := 0, xml.NewDecoder(bufio.NewReaderSize(file, 128<<10))
	for {
		tok, err := d.Token()
		if err == io.EOF {
			break
		}
		if err != nil {
			b.Fatal(err)
		}
		if start, ok := tok.(xml.StartElement); ok && start.Name.Local == "url" {
			var u xmlURL
			if err := d.DecodeElement(&u, &start); err != nil {
				b.Fatal(err)
			}
			if u.MD.Hash != "" && u.MD.Length > 0 {
				n++
			}
		}
	}
	if n != want {
		b.Fatalf("encoding/xml read %d entries, want %d", n, want)
	}
}

// writeDocument writes a Resource List and returns its size.
func writeDocument(b *testing.B, path string, entries int) (size int64) {
	b.Helper()
	err := writeFile(path, func(out io.Writer) error {
		w := beginDocument(b, out)
		for _, e := range documentSample(entries) {
			if err := w.Write(&e); err != nil {
				return err
			}
		}
		size = w.Bytes()
		return w.Close()
	})
	if err != nil {
		b.Fatal(err)
	}
	return size
}

func writeFile(path string, write func(io.Writer) error) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	if err := write(f); err != nil {
		_ = f.Close() // the first error counts
		return err
	}
	return f.Close()
}

func beginDocument(b *testing.B, out io.Writer) *resourcesync.Writer {
	b.Helper()
	w, err := resourcesync.NewWriter(out, documentHeader(false))
	if err != nil {
		b.Fatal(err)
	}
	return w
}

func documentHeader(index bool) resourcesync.Header {
	return resourcesync.Header{
		Capability: resourcesync.ResourceList, Index: index,
		At:    resourcesync.NewDatetime(time.Date(2024, 5, 1, 2, 0, 0, 0, time.UTC)),
		Links: []resourcesync.Link{{Rel: resourcesync.RelUp, Href: "https://data.example.org/capabilitylist.xml"}},
	}
}

func documentSample(n int) []resourcesync.Entry {
	rnd, entries := rand.New(rand.NewPCG(1, 2)), make([]resourcesync.Entry, n)
	for i := range entries {
		entries[i] = sampleEntry(rnd, i)
	}
	return entries
}

// sampleEntry returns resource i, with md5 and sha-256.
func sampleEntry(rnd *rand.Rand, i int) resourcesync.Entry {
	digest := make([]byte, 0, 48)
	for range 6 {
		digest = binary.BigEndian.AppendUint64(digest, rnd.Uint64())
	}
	return resourcesync.Entry{
		Loc:     fmt.Sprintf("https://data.example.org/collection/%03d/resource-%07d.txt", i%1000, i),
		Lastmod: resourcesync.NewDatetime(time.Unix(1_600_000_000+rnd.Int64N(1e8), 0)),
		Metadata: resourcesync.Metadata{
			Hashes: resourcesync.Hashes{
				{Algorithm: resourcesync.MD5, Digest: string(digest[:16])},
				{Algorithm: resourcesync.SHA256, Digest: string(digest[16:])},
			},
			Length: 1 + rnd.Int64N(1<<20), HasLength: true, Type: "text/plain; charset=utf-8",
		},
	}
}
