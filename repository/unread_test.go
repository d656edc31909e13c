package repository_test

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"strings"
	"testing"
	"time"

	"lockstep/catalog"
	"lockstep/repository"
	"lockstep/resourcesync"
)

// broken is a document of which only the beginning can be read.
type broken struct{ io.Reader }

func (broken) Close() error { return nil }

func (b broken) Read(p []byte) (int, error) {
	n, err := b.Reader.Read(p)
	if errors.Is(err, io.EOF) {
		err = errors.New("input/output error")
	}
	return n, err
}

// A record whose document cannot be read while it is indexed is never reported as
// deleted: it remains in the lists of its format, is left out of responses, and gets a
// new datestamp once it can be read.
func TestUnreadableWhenIndexed(t *testing.T) {
	t.Parallel()
	const uri = "https://example.org/1"
	for name, open := range map[string]func(text string) (io.ReadCloser, error){
		"not opened": func(string) (io.ReadCloser, error) { return nil, errors.New("permission denied") },
		"missing":    func(string) (io.ReadCloser, error) { return nil, fs.ErrNotExist },
		"cut off":    func(text string) (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(text[:20])), nil },
		"read error": func(text string) (io.ReadCloser, error) { return broken{strings.NewReader(text[:20])}, nil },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			failing := false
			w := newWorld(t, nil)
			w.opts.Sets[0].Open = func(ctx context.Context, r *catalog.Record) (io.ReadCloser, error) {
				if failing && r.URI == uri {
					return open(w.contents[uri])
				}
				return w.open(ctx, r)
			}
			w.restart()
			w.put(uri, "text/xml", `<r xmlns="urn:example:r">1</r>`)
			w.put("https://example.org/2", "text/xml", `<r xmlns="urn:example:r">2</r>`)
			prefix := w.ask("verb=ListMetadataFormats").Formats[1].Prefix
			list, headers := "verb=ListRecords&metadataPrefix="+prefix, "verb=ListIdentifiers&metadataPrefix="+prefix
			w.pass(time.Minute)
			failing = true
			w.put(uri, "text/xml", `<r xmlns="urn:example:r">one</r>`)
			during := w.ask(list)
			wantIDs(t, []*response{during}, "https://example.org/2")
			wantIDs(t, w.all(headers), "https://example.org/2", uri)
			w.pass(time.Minute)
			wantIDs(t, w.all(headers), "https://example.org/2", uri) // it still cannot be read
			failing = false
			w.pass(time.Minute)
			rs := w.all(list + "&from=" + during.ResponseDate)
			wantIDs(t, rs, uri)
			if got := rs[0].Records[0].Metadata.Inner; !strings.Contains(got, "one") {
				t.Errorf("once it could be read: %s", got)
			}
		})
	}
}

// A new record whose document cannot be read when it is first indexed gets its format,
// and a new datestamp, once it can be read.
func TestUnreadableAtFirst(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.fail("https://example.org/1", errors.New("input/output error"))
	w.put("https://example.org/1", "text/xml", `<r xmlns="urn:example:r">1</r>`)
	w.put("https://example.org/2", "text/xml", `<r xmlns="urn:example:r">2</r>`)
	prefix := w.ask("verb=ListMetadataFormats").Formats[1].Prefix
	list := "verb=ListRecords&metadataPrefix=" + prefix
	w.pass(time.Minute)
	first := w.ask(list)
	wantIDs(t, []*response{first}, "https://example.org/2")
	w.fail("https://example.org/1", nil)
	w.pass(time.Minute)
	wantIDs(t, w.all(list+"&from="+first.ResponseDate), "https://example.org/1")
}

// A document that was read to its end and cannot be a record has left its format: it
// is not mistaken for one that cannot be read.
func TestNoRecordAnyMore(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	for _, n := range []string{"1", "2"} {
		w.put("https://example.org/"+n, "text/xml", `<r xmlns="urn:example:r">`+n+`</r>`)
	}
	prefix := w.ask("verb=ListMetadataFormats").Formats[1].Prefix
	w.pass(time.Minute)
	w.put("https://example.org/1", "text/xml", `<r xmlns="urn:example:r">`)
	w.put("https://example.org/2", "text/xml", `<r xmlns="urn:example:r">`+strings.Repeat(" ", 5<<20)+`</r>`)
	w.pass(time.Minute)
	wantIDs(t, w.all("verb=ListRecords&metadataPrefix="+prefix), "-https://example.org/1", "-https://example.org/2")
	wantIDs(t, w.all("verb=ListRecords&metadataPrefix=oai_dc"), "https://example.org/1", "https://example.org/2")
}

// The datestamp that a record gets once it can be read again remains when everything
// is compared.
func TestReadAgainThenCompared(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(o *repository.Options) { o.Records = 10 })
	w.put("https://example.org/1", "text/xml", `<r xmlns="urn:example:r">1</r>`)
	prefix := w.ask("verb=ListMetadataFormats").Formats[1].Prefix
	list := "verb=ListRecords&metadataPrefix=" + prefix
	w.fail("https://example.org/1", errors.New("input/output error"))
	w.pass(time.Minute)
	w.put("https://example.org/2", "text/xml", `<r xmlns="urn:example:r">2</r>`)
	during := w.ask(list)
	wantIDs(t, []*response{during}, "https://example.org/2")
	w.fail("https://example.org/1", nil)
	w.pass(time.Minute)
	w.ask("verb=Identify") // notices that it can be read
	w.put("https://example.org/3", "text/plain", "x", resourcesync.Link{Rel: "via", Href: "x:y"})
	w.pass(time.Minute)
	if err := w.catalog.Forget(t.Context(), listURI, w.mark(listURI)); err != nil {
		t.Fatal(err)
	}
	w.restart()
	wantIDs(t, w.all(list+"&from="+during.ResponseDate), "https://example.org/2", "https://example.org/1")
}
