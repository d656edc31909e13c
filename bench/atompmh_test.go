//go:build linux

package bench

import (
	"bufio"
	"encoding/xml"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"lockstep/atompmh"
)

var (
	feedEntries = flag.Int("feed.entries", 50_000, "entries of the Atom feed to read and write")
	feedRounds  = flag.Int("feed.rounds", 9, "measurements of each, in turn")
)

// BenchmarkFeedRead sets the Reader of Atom feeds, from a file, beside
// encoding/xml into structs. The ratio is of medians.
func BenchmarkFeedRead(b *testing.B) {
	path := filepath.Join(b.TempDir(), "atom.xml")
	var size int64
	err := writeFile(path, func(out io.Writer) error {
		var err error
		size, err = writeFeed(out, feedSample(*feedEntries))
		return err
	})
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		var ours, standard []float64
		for range *feedRounds {
			start := time.Now()
			readFeed(b, path)
			ours = append(ours, time.Since(start).Seconds())
			start = time.Now()
			unmarshalFeed(b, path)
			standard = append(standard, time.Since(start).Seconds())
		}
		b.ReportMetric(median(ours)*1000, "read-ms")
		b.ReportMetric(float64(size)/(1<<20)/median(ours), "read-MB/s")
		b.ReportMetric(median(standard)*1000, "encoding/xml-ms")
		b.ReportMetric(median(standard)/median(ours), "encoding/xml/read")
	}
}

// BenchmarkFeedWrite sets the Writer beside encoding/xml writing the same
// entries from structs.
func BenchmarkFeedWrite(b *testing.B) {
	entries := feedSample(*feedEntries)
	feed := xmlFeed{ID: "urn:uuid:0d9e1f2a-7a1b-4f5e-8e0c-333333333333", Title: "Records", Updated: feedTime.Format(time.RFC3339Nano)}
	for i := range entries {
		e := xmlFeedEntry{ID: entries[i].ID, Title: entries[i].Title, Updated: entries[i].Updated.Format(time.RFC3339Nano)}
		for _, l := range entries[i].Links {
			e.Links = append(e.Links, xmlFeedLink{l.Rel, l.Href, l.Type})
		}
		feed.Entries = append(feed.Entries, e)
	}
	for b.Loop() {
		var ours, standard []float64
		var size int64
		for range *feedRounds {
			start := time.Now()
			n, err := writeFeed(io.Discard, entries)
			if err != nil {
				b.Fatal(err)
			}
			ours, size = append(ours, time.Since(start).Seconds()), n
			start = time.Now()
			if err := xml.NewEncoder(io.Discard).Encode(feed); err != nil {
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

// What a feed is to encoding/xml.
type (
	xmlFeed struct {
		XMLName xml.Name       `xml:"http://www.w3.org/2005/Atom feed"`
		ID      string         `xml:"id"`
		Title   string         `xml:"title"`
		Updated string         `xml:"updated"`
		Entries []xmlFeedEntry `xml:"entry"`
	}
	xmlFeedEntry struct {
		ID      string        `xml:"id"`
		Title   string        `xml:"title"`
		Updated string        `xml:"updated"`
		Links   []xmlFeedLink `xml:"link"`
	}
	xmlFeedLink struct {
		Rel  string `xml:"rel,attr"`
		Href string `xml:"href,attr"`
		Type string `xml:"type,attr"`
	}
)

var feedTime = time.Date(2024, 5, 2, 9, 30, 12, 0, time.UTC)

// feedSample returns entries of records, every other one in two formats.
func feedSample(n int) []atompmh.Entry {
	entries := make([]atompmh.Entry, n)
	for i := range entries {
		uri := fmt.Sprintf("https://lib.example.net/records/%03d/sheet-%07d", i%1000, i)
		e := atompmh.Entry{
			ID: atompmh.RecordID(uri), Title: fmt.Sprintf("Sheet %d & its neighbours", i), Kind: atompmh.Active,
			Updated: feedTime.Add(time.Duration(i-n) * 1234 * time.Millisecond),
			Links:   []atompmh.Link{{Rel: atompmh.RelAlternate, Type: "application/rdf+xml", Href: uri + ".rdf"}},
		}
		if i%2 == 0 {
			e.Links = append(e.Links, atompmh.Link{Rel: atompmh.RelAlternate, Type: "application/json", Href: uri + ".json?a=1&b=2"})
		}
		entries[i] = e
	}
	return entries
}

func writeFeed(out io.Writer, entries []atompmh.Entry) (int64, error) {
	w, err := atompmh.NewWriter(out, atompmh.Feed{
		ID: "urn:uuid:0d9e1f2a-7a1b-4f5e-8e0c-333333333333", Title: "Records", Author: "Example Library",
		Updated: feedTime, Self: "https://lib.example.net/atom.xml",
	})
	if err != nil {
		return 0, err
	}
	for i := range entries {
		if err := w.Write(&entries[i]); err != nil {
			return 0, err
		}
	}
	return w.Bytes(), w.Close()
}

// readFeed reads the feed at path to its end.
func readFeed(b *testing.B, path string) {
	b.Helper()
	file, err := os.Open(path)
	if err != nil {
		b.Fatal(err)
	}
	defer file.Close()
	n, r := 0, atompmh.NewReader(file, atompmh.ReaderOptions{})
	var e atompmh.Entry
	for {
		if err := r.Read(&e); err == io.EOF {
			break
		} else if err != nil {
			b.Fatal(err)
		}
		if e.Kind == atompmh.Active && len(e.Links) > 0 && !e.Updated.IsZero() {
			n++
		}
	}
	if n != *feedEntries {
		b.Fatalf("read %d entries, want %d", n, *feedEntries)
	}
}

// unmarshalFeed reads the feed into one struct after the other.
func unmarshalFeed(b *testing.B, path string) {
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
		start, ok := tok.(xml.StartElement)
		if !ok || start.Name.Local != "entry" {
			continue
		}
		var e xmlFeedEntry
		if err := d.DecodeElement(&e, &start); err != nil {
			b.Fatal(err)
		}
		if at, err := time.Parse(time.RFC3339Nano, e.Updated); err == nil && !at.IsZero() && len(e.Links) > 0 && e.ID != "" {
			n++
		}
	}
	if n != *feedEntries {
		b.Fatalf("encoding/xml read %d entries, want %d", n, *feedEntries)
	}
}
