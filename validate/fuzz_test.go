package validate_test

import (
	"archive/zip"
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"lockstep/validate"
	"lockstep/validate/opener"
)

// FuzzDocument: any document leads to a report, every finding is of a rule, and
// the run is short.
func FuzzDocument(f *testing.F) {
	paths, _ := filepath.Glob(filepath.Join("..", "testdata", "vectors", "*.xml")) // there may be none
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		_, doc, _ := bytes.Cut(text, []byte("-->\n"))
		f.Add(doc)
	}
	for _, name := range []string{"site", "feeds", "repository"} {
		s := readSite(f, name)
		for file := range s.texts {
			f.Add(s.file(file))
		}
	}
	f.Fuzz(func(t *testing.T, doc []byte) {
		r, err := validate.Document(t.Context(), bytes.NewReader(doc), "https://vectors.example/rs/document.xml", validate.Options{DocumentBytes: 1 << 20})
		if err != nil {
			t.Fatal(err)
		}
		inTable(t, r)
	})
}

// FuzzPackage: any package leads to a report.
func FuzzPackage(f *testing.F) {
	s := goodSite(f)
	f.Add(s.file("rs/maps/dump-1.zip"), []byte(nil))
	f.Add(s.file("rs/maps/changes-1.zip"), []byte(nil))
	f.Add([]byte("PK\x05\x06"), s.file("rs/maps/dump-1.xml"))
	f.Fuzz(func(t *testing.T, data, manifest []byte) {
		if len(manifest) > 0 { // a valid package with an arbitrary manifest
			var b bytes.Buffer
			w := zip.NewWriter(&b)
			m, err := w.Create("manifest.xml")
			if err == nil {
				_, err = m.Write(manifest)
			}
			if err == nil {
				_, err = w.Create("b/1.txt")
			}
			if err == nil {
				err = w.Close()
			}
			if err != nil {
				t.Fatal(err)
			}
			data = b.Bytes()
		}
		r, err := validate.Package(t.Context(), bytes.NewReader(data), int64(len(data)), "https://lib.example.net/p.zip", validate.Options{DocumentBytes: 1 << 20, Sample: validate.SampleAll, ResourceBytes: 1 << 20})
		if err != nil {
			t.Fatal(err)
		}
		inTable(t, r)
	})
}

// FuzzFeed: any documents of a feed are checked to the end.
func FuzzFeed(f *testing.F) {
	s := readSite(f, "feeds")
	f.Add(s.file("pmh/feed.atom"), s.file("pmh/archive-2.atom"), s.file("pmh/archive-1.atom"))
	f.Add(s.file("pmh/archive-1.atom"), s.file("pmh/feed.atom"), s.file("pmh/feed.atom"))
	f.Add(s.file("pmh/feed.atom"), []byte(`<feed xmlns="http://www.w3.org/2005/Atom"><link rel="current" href="archive-1.atom"/></feed>`), []byte{0x1f, 0x8b})
	f.Fuzz(func(t *testing.T, first, second, third []byte) {
		asked := 0
		open := func(_ context.Context, r opener.Request) (*opener.Answer, error) {
			if asked++; asked > 10_000 {
				t.Fatal("asks for ever")
			}
			b := third
			switch {
			case r.IfNoneMatch != "" && len(first)%2 == 0:
				return nil, opener.ErrNotModified
			case strings.HasSuffix(r.URI, "feed.atom"):
				b = first
			case strings.HasSuffix(r.URI, "archive-2.atom"):
				b = second
			case len(r.URI)%5 == 0:
				return nil, fs.ErrNotExist
			}
			return &opener.Answer{Size: int64(len(b)), Header: http.Header{"Etag": {`"x"`}}, Body: io.NopCloser(bytes.NewReader(b))}, nil
		}
		r, err := validate.Source(t.Context(), open, base+"pmh/feed.atom",
			validate.Options{DocumentBytes: 1 << 20, Documents: 100, Sample: 5, Jobs: 1, Settle: 1})
		if err != nil && !strings.Contains(err.Error(), "documents are enough") {
			t.Fatal(err)
		}
		inTable(t, r)
	})
}

// FuzzRepository: any answers of a repository are checked to the end.
func FuzzRepository(f *testing.F) {
	s := readSite(f, "repository")
	f.Add(s.file("oai?verb=Identify"), s.file("oai?verb=ListRecords&metadataPrefix=oai_dc"), s.file("oai?verb=ListSets"))
	f.Add(s.file("oai?verb=Identify"), s.file("oai?verb=ListRecords&resumptionToken=t2"), s.file("oai?verb=Lockstep"))
	f.Fuzz(func(t *testing.T, identify, records, other []byte) {
		open := func(_ context.Context, r opener.Request) (*opener.Answer, error) {
			b := other
			if strings.Contains(r.URI, "verb=Identify") {
				b = identify
			} else if strings.Contains(r.URI, "Record") {
				b = records
			}
			return &opener.Answer{Size: int64(len(b)), Body: io.NopCloser(bytes.NewReader(b))}, nil
		}
		r, err := validate.Repository(t.Context(), open, base+"oai?set=x&metadataPrefix=%31", validate.Options{DocumentBytes: 1 << 20})
		if err != nil && !errors.Is(err, validate.ErrNoSuch) {
			t.Fatal(err)
		}
		inTable(t, r)
	})
}

// FuzzSource: any documents, robots.txt and Link headers of a Source are
// checked to the end.
func FuzzSource(f *testing.F) {
	s := goodSite(f)
	f.Add(s.file(".well-known/resourcesync"), s.file("rs/maps/capabilitylist.xml"), s.file("robots.txt"), `<a>; rel="resourcesync", <b>;rel=x`)
	f.Add(s.file("rs/maps/resourcelist.xml"), s.file("rs/maps/list-1.xml"), []byte("Sitemap:\nsitemap: x"), `<<>;rel=resourcesync;anchor="x"`)
	f.Add(s.file("rs/maps/changelist.xml"), s.file("rs/maps/changes-1.xml"), []byte{}, `"`)
	f.Add(s.file("rs/maps/changedump.xml"), s.file("rs/maps/changes-1.zip"), []byte{}, "")
	f.Fuzz(func(t *testing.T, top, below, robots []byte, link string) {
		asked := 0
		open := func(_ context.Context, r opener.Request) (*opener.Answer, error) {
			if asked++; asked > 10_000 {
				t.Fatal("asks for ever")
			}
			b := below
			switch name := strings.TrimPrefix(r.URI, base); {
			case name == ".well-known/resourcesync":
				b = top
			case name == "robots.txt":
				b = robots
			case len(name)%5 == 0:
				return nil, fs.ErrNotExist
			}
			a := &opener.Answer{Size: int64(len(b)), Header: http.Header{"Link": {link}, "Vary": {link}}}
			if r.Ranged() {
				a.Partial = true
				b = b[min(r.First, a.Size):min(r.Last+1, a.Size)]
			}
			a.Body = io.NopCloser(bytes.NewReader(b))
			return a, nil
		}
		r, err := validate.Source(t.Context(), open, base+".well-known/resourcesync",
			validate.Options{DocumentBytes: 1 << 20, Documents: 100, Sample: 5, Jobs: 1, Settle: 1, ResourceBytes: 1 << 20})
		if err != nil && !strings.Contains(err.Error(), "documents are enough") {
			t.Fatal(err)
		}
		inTable(t, r)
	})
}
