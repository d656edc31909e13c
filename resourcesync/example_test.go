package resourcesync_test

import (
	"bytes"
	"fmt"
	"io"
	"log"
	"os"
	"slices"
	"strings"
	"time"

	"lockstep/resourcesync"
)

func ExampleReader() {
	const doc = `<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9" xmlns:rs="http://www.openarchives.org/rs/terms/">
  <rs:ln rel="up" href="https://lib.example.net/capabilitylist.xml"/>
  <rs:md capability="changelist" from="2024-05-02T00:00:00Z"/>
  <url><loc>https://lib.example.net/7.tif</loc><rs:md change="created" datetime="2024-05-02T06:00:00Z" length="881"/></url>
  <url><loc>https://lib.example.net/3.tif</loc><rs:md change="Deleted" datetime="2024-05-02T09:30:00Z"/></url>
</urlset>`
	r := resourcesync.NewReader(strings.NewReader(doc), resourcesync.ReaderOptions{
		OnWarning: func(w resourcesync.Warning) { fmt.Println("warning:", w.Rule, w.Message) },
	})
	h, err := r.Header()
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(h.Capability, "from", h.From, "open:", h.Open())
	for e, err := range r.Entries() {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(e.EventTime(), e.Change, e.Loc)
	}
	// Output:
	// changelist from 2024-05-02T00:00:00Z open: true
	// 2024-05-02T06:00:00Z created https://lib.example.net/7.tif
	// warning: RS-EM-02 change "Deleted", which is spelt deleted
	// 2024-05-02T09:30:00Z deleted https://lib.example.net/3.tif
}

func ExampleReader_strict() {
	r := resourcesync.NewReader(strings.NewReader(`<urlset><url><loc>https://lib.example.net/</loc></url></urlset>`),
		resourcesync.ReaderOptions{Strict: true})
	_, err := r.Header()
	fmt.Println(err)
	// Output: line 1, column 9: the root element is not in the namespace of Sitemaps (RS-GEN-01)
}

func ExampleWriter() {
	w, err := resourcesync.NewWriter(os.Stdout, resourcesync.Header{
		Capability: resourcesync.ResourceList,
		At:         resourcesync.NewDatetime(time.Date(2024, 5, 1, 2, 0, 0, 0, time.UTC)),
		Links:      []resourcesync.Link{{Rel: resourcesync.RelUp, Href: "https://lib.example.net/capabilitylist.xml"}},
	})
	if err != nil {
		log.Fatal(err)
	}
	sum := resourcesync.NewHasher(resourcesync.MD5)
	_, _ = io.WriteString(sum, "test") // never fails
	err = w.Write(&resourcesync.Entry{
		Loc:      "https://lib.example.net/a?b&c",
		Metadata: resourcesync.Metadata{Hashes: sum.Sum(), Length: sum.Size(), HasLength: true, Type: "text/plain"},
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("refused:", w.Write(&resourcesync.Entry{Loc: "/relative"}))
	if err := w.Close(); err != nil {
		log.Fatal(err)
	}
	// Output:
	// refused: write entry /relative: loc is no absolute URI of the characters allowed in one (RS-XML-09)
	// <?xml version="1.0" encoding="UTF-8"?>
	// <urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9" xmlns:rs="http://www.openarchives.org/rs/terms/">
	// <rs:ln rel="up" href="https://lib.example.net/capabilitylist.xml"/>
	// <rs:md capability="resourcelist" at="2024-05-01T02:00:00Z"/>
	// <url><loc>https://lib.example.net/a?b&amp;c</loc><rs:md hash="md5:098f6bcd4621d373cade4e832627b4f6" length="4" type="text/plain"/></url>
	// </urlset>
}

func ExampleWriteParts() {
	h := resourcesync.Header{
		Capability: resourcesync.ResourceList,
		At:         resourcesync.NewDatetime(time.Date(2024, 5, 1, 2, 0, 0, 0, time.UTC)),
		Links:      []resourcesync.Link{{Rel: resourcesync.RelUp, Href: "https://lib.example.net/capabilitylist.xml"}},
	}
	entries := func(yield func(resourcesync.Entry, error) bool) {
		for i := range 120_000 {
			if !yield(resourcesync.Entry{Loc: fmt.Sprintf("https://lib.example.net/%06d", i)}, nil) {
				return
			}
		}
	}
	documents := map[string][]byte{}
	_, err := resourcesync.WriteParts(h, entries, func(part int, write func(io.Writer) error) error {
		var doc bytes.Buffer
		if err := write(&doc); err != nil {
			return err
		}
		documents[fmt.Sprintf("resourcelist-%05d.xml", part)] = doc.Bytes()
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
	names := make([]string, 0, len(documents))
	for name, doc := range documents {
		names = append(names, fmt.Sprint(name, ": ", bytes.Count(doc, []byte("<url>"))))
	}
	slices.Sort(names)
	fmt.Println(strings.Join(names, "\n"))
	// Output:
	// resourcelist-00001.xml: 50000
	// resourcelist-00002.xml: 50000
	// resourcelist-00003.xml: 20000
}

func ExampleHashes_Compare() {
	stated, _ := resourcesync.ParseHashes("md5:098f6bcd4621d373cade4e832627b4f6 blake3:00")
	h := stated.NewHasher()
	_, _ = io.WriteString(h, "test") // never fails
	common, differs := stated.Compare(h.Sum())
	fmt.Println("verified:", common > 0 && differs == 0)
	// Output: verified: true
}

func ExampleParseDatetime() {
	d, err := resourcesync.ParseDatetime("2012-01-01T00:00+02:00")
	fmt.Println(d, err)
	// Output: 2011-12-31T22:00:00Z <nil>
}
