package source_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"lockstep/blob"
	"lockstep/blob/blobtest"
	"lockstep/source"
)

// What is no document of ours goes through as it is.
func TestCompressedIsAStore(t *testing.T) {
	t.Parallel()
	blobtest.Run(t, func(t *testing.T) blob.Store { return source.Compressed(new(blob.Mem)) })
}

// variants holds that every document has a variant with the same content and
// time, or that none has.
func (w *world) variants(want bool) {
	w.Helper()
	ctx := context.Background()
	n := 0
	for info, err := range w.docs.List(ctx, "") {
		if err != nil {
			w.Fatal(err)
		}
		if !strings.HasSuffix(info.Name, ".xml") && !strings.HasSuffix(info.Name, ".atom") {
			continue
		}
		variant, err := w.docs.Stat(ctx, info.Name+".gz")
		if !want {
			if !errors.Is(err, blob.ErrNotExist) {
				w.Errorf("%s has a compressed variant, %v", info.Name, err)
			}
			continue
		}
		n++
		if err != nil || !variant.ModTime.Equal(info.ModTime) {
			w.Errorf("%s of %s: variant %+v, %v", info.Name, info.ModTime, variant, err)
			continue
		}
		plain, err1 := reader(w.docs)(info.Name)
		packed, err2 := unpacked(reader(w.docs))(info.Name)
		if err1 != nil || err2 != nil || string(plain) != string(packed) {
			w.Errorf("%s differs from its variant, %v, %v", info.Name, err1, err2)
		}
	}
	if want && n < 3 {
		w.Errorf("only %d documents", n)
	}
}

func TestCompressedVariants(t *testing.T) {
	t.Parallel()
	w := newWorld(t, source.Options{MaxEntries: 4, Grace: time.Hour, Sets: []source.Set{{Atom: &source.Atom{Entries: 5}}}})
	plain := w.docs
	w.docs = source.Compressed(plain)
	s := w.source()
	for i := range 12 {
		w.put(fmt.Sprintf("r%d=x", i), "a b=x")
		delete(w.live, baseURL+"a b") // no document can state it
		w.publish(s)
		w.variants(true)
		w.pass(30 * time.Minute)
	}
	w.pass(time.Hour)
	w.publish(s) // what was replaced goes
	before := w.files()
	if r := w.publish(w.source()); r.Written || !maps.Equal(before, w.files()) {
		t.Errorf("Publish = %+v, want nothing written", r)
	}
	for name := range before { // some are lost
		if strings.HasSuffix(name, "000.xml.gz") || strings.HasSuffix(name, "list.xml.gz") || strings.HasSuffix(name, ".atom.gz") {
			if err := plain.Remove(context.Background(), name); err != nil {
				t.Fatal(err)
			}
		}
	}
	w.publish(w.source())
	w.variants(true)

	w.docs = plain // it is not asked for any more
	s = w.source()
	w.publish(s)
	w.variants(false)
	w.write("resourcesync/main/resourcelist.xml.gz", "someone else's") // whose business it is
	w.pass(time.Hour)
	w.put("r0=y")
	w.publish(s)
	if _, err := w.docs.Stat(context.Background(), "resourcesync/main/resourcelist.xml.gz"); err != nil {
		t.Errorf("a file of someone else's: %v", err)
	}

	w.docs = source.Compressed(plain) // and again it is
	w.publish(w.source())
	w.variants(true)
}

// Who asks for a variant by its name gets it as it is.
func TestVariantsAreServed(t *testing.T) {
	t.Parallel()
	w := newWorld(t, source.Options{})
	w.docs = source.Compressed(w.docs)
	s := w.source()
	w.publish(s)
	r := httptest.NewRequest("GET", "/resourcesync/main/resourcelist.xml.gz", nil)
	r.Header.Set("Accept-Encoding", "gzip")
	rec := httptest.NewRecorder()
	s.Handler().ServeHTTP(rec, r)
	want, err := reader(w.docs)("resourcesync/main/resourcelist.xml.gz")
	if err != nil || rec.Body.String() != string(want) || rec.Header().Get("Content-Encoding") != "" || rec.Header().Get("Content-Type") != "application/gzip" {
		t.Errorf("GET: %d, %v, %v", rec.Code, rec.Header(), err)
	}
}

// A commit that comes to a halt says how many documents are visible.
func TestCompressedCommitError(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	mem := new(blob.Mem)
	s := source.Compressed(haltingStore{mem, 4})
	var ws []blob.Writer
	for _, name := range []string{"resourcesync/a.xml", "b", "resourcesync/c.xml", "d"} {
		w, err := s.Create(ctx, name)
		if err != nil {
			t.Fatal(err)
		}
		ws = append(ws, w)
	}
	err := s.Commit(ctx, ws...)
	if c, ok := errors.AsType[*blob.CommitError](err); !ok || c.Done != 2 {
		t.Errorf("Commit = %v, want an error after 2 documents", err)
	}
	if err := s.Commit(ctx, ws[2:]...); err != nil {
		t.Errorf("the rest: %v", err)
	}
	for _, name := range []string{"resourcesync/a.xml.gz", "b", "resourcesync/c.xml", "resourcesync/c.xml.gz", "d"} {
		if _, err := mem.Stat(ctx, name); err != nil {
			t.Error(err)
		}
	}
}

// A haltingStore commits no more than so many blobs in a batch.
type haltingStore struct {
	blob.Store
	most int
}

func (s haltingStore) Commit(ctx context.Context, ws ...blob.Writer) error {
	n := min(len(ws), s.most)
	if err := s.Store.Commit(ctx, ws[:n]...); err != nil || n == len(ws) {
		return err
	}
	return &blob.CommitError{Done: n, Name: ws[n].Name(), Err: errFault}
}

func TestAttributes(t *testing.T) {
	t.Parallel()
	const xml, forever, ask = "application/xml; charset=utf-8", "public, max-age=31536000, immutable", "no-cache"
	for name, want := range map[string][2]string{
		".well-known/resourcesync":                                             {xml, ask},
		"robots.txt":                                                           {"text/plain; charset=utf-8", ask},
		"resourcesync/index.html":                                              {"text/html; charset=utf-8", ask},
		"resourcesync/description-0123456789abcdef.xml":                        {xml, forever},
		"resourcesync/main/capabilitylist.xml":                                 {xml, ask},
		"resourcesync/main/resourcelist.xml":                                   {xml, ask},
		"resourcesync/main/resourcelist-archive.xml":                           {xml, ask},
		"resourcesync/main/resourcelist-20260501T030000.0000000Z-00001.xml":    {xml, forever},
		"resourcesync/main/resourcelist-20260501T030000.0000000Z-00001.xml.gz": {"application/gzip", forever},
		"resourcesync/main/changelist.xml.gz":                                  {"application/gzip", ask},
		"resourcesync/main/changelist-20260501T030000.0000005Z.xml":            {xml, ask},
		"resourcesync/main/resourcedump-20260501T030000.0000000Z-00001.zip":    {"application/zip", forever},
		"resourcesync/main/changedump-20260501T030000.0000005Z.zip":            {"application/zip", forever},
		"resourcesync/main/changedump.xml":                                     {xml, ask},
		".lockstep/main.json":                                                  {"application/json", "no-store"},
		".lockstep/main.tail.json":                                             {"application/json", "no-store"},
	} {
		if typ, caching := source.Attributes(name); typ != want[0] || caching != want[1] {
			t.Errorf("Attributes(%s) = %q, %q; want %q", name, typ, caching, want)
		}
	}
}
