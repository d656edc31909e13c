package s3_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"lockstep/blob"
	"lockstep/blob/s3"
	"lockstep/catalog"
	"lockstep/destination"
	"lockstep/destination/journal"
	"lockstep/intake"
	intakebucket "lockstep/intake/bucket"
	"lockstep/internal/fetch"
	"lockstep/resourcesync"
	"lockstep/source"
)

// TestThroughBuckets: objects of a bucket become a set, its documents go to the
// same bucket, and a Destination follows it there by plain HTTP.
func TestThroughBuckets(t *testing.T) {
	t.Parallel()
	services(t, func(t *testing.T, o s3.Options) {
		o.Attributes = source.Attributes
		public(t, o)
		b := must[*s3.Bucket](t)(s3.New(o))
		want := map[string]string{"one.txt": "1", "d/zwei drei.txt": "23", "d/é": "x", "large.bin": string(random(1, part+5))}
		for name, text := range want {
			commit(t, b, name, []byte(text), time.Time{})
		}
		base := o.Endpoint + "/" + o.Bucket + "/"
		set := must[string](t)(source.CapabilityListURI(base, "main"))
		cat := catalog.NewMem(nil)
		in := must[*intakebucket.Bucket](t)(intakebucket.New(b, cat, set, intakebucket.Options{BaseURI: base, Content: intakebucket.ReadMissing}))
		src := must[*source.Source](t)(source.New(cat, b, source.Options{BaseURL: base}))
		dest := must[*blob.Dir](t)(blob.NewDir(filepath.Join(t.TempDir(), "mirror"), blob.DirOptions{}))
		defer dest.Close()
		client := must[*fetch.Client](t)(fetch.New(fetch.Options{AllowPrivate: true}))
		d := must[*destination.Destination](t)(destination.New(dest, &journal.Mem{}, client, destination.Options{}))
		follow := func() {
			t.Helper()
			must[intake.Report](t)(in.Scan(t.Context()))
			must[source.Report](t)(src.Publish(t.Context()))
			if r, err := d.Sync(t.Context(), base+".well-known/resourcesync"); err != nil || r.Failed > 0 {
				t.Fatalf("Sync = %+v, %v", r, err)
			}
			n := 0
			for info, err := range dest.List(t.Context(), "") {
				if err != nil {
					t.Fatal(err)
				}
				name, ours := strings.CutPrefix(info.Name, o.Bucket+"/")
				if !ours {
					continue
				}
				n++
				r := must[blob.Reader](t)(dest.Open(t.Context(), info.Name))
				got := must[[]byte](t)(io.ReadAll(r))
				_ = r.Close() // only read from
				if text, ok := want[name]; !ok || string(got) != text {
					t.Errorf("%s has %d bytes, want %d", name, len(got), len(text))
				}
			}
			if n != len(want) {
				t.Errorf("%d resources, want %d", n, len(want))
			}
		}
		follow()
		delete(want, "one.txt")
		want["d/é"], want["new"] = "other", "n"
		for _, name := range []string{"d/é", "new"} {
			commit(t, b, name, []byte(want[name]), time.Time{})
		}
		if err := b.Remove(t.Context(), "one.txt"); err != nil {
			t.Fatal(err)
		}
		follow()
		h := must[http.Header](t)(b.Head(t.Context(), ".well-known/resourcesync"))
		if got := h.Get("Content-Type"); got != "application/xml; charset=utf-8" {
			t.Errorf("the Source Description is %q", got)
		}
	})
}

// public makes the bucket readable by everyone, if the service requires that.
func public(t *testing.T, o s3.Options) {
	t.Helper()
	if strings.HasSuffix(t.Name(), "/fake") {
		return
	}
	policy := `{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Principal":"*","Action":["s3:GetObject"],"Resource":["arn:aws:s3:::` + o.Bucket + `/*"]}]}`
	if err := coreOf(t, o).SetBucketPolicy(t.Context(), o.Bucket, policy); err != nil {
		t.Fatal(err)
	}
}

// TestChecksums: the real service computes a SHA-256 when asked to, and reports
// it.
func TestChecksums(t *testing.T) {
	t.Parallel()
	o := realBucket(t)
	core := coreOf(t, o)
	options := putOptions
	text := []byte("text")
	options.UserMetadata = map[string]string{"x-amz-checksum-sha256": checksumOf(text)}
	_, err := core.PutObject(t.Context(), o.Bucket, "a", bytes.NewReader(text), int64(len(text)), "", "", options)
	if err != nil {
		t.Fatal(err)
	}
	b := must[*s3.Bucket](t)(s3.New(o))
	cat := catalog.NewMem(nil)
	in := must[*intakebucket.Bucket](t)(intakebucket.New(b, cat, "set", intakebucket.Options{BaseURI: "https://data.example.org/"}))
	must[intake.Report](t)(in.Scan(t.Context()))
	for r, err := range cat.Resources(t.Context(), "set", catalog.Range{}) {
		if err != nil || len(r.Hashes) != 2 || r.Hashes.Get(resourcesync.MD5) == "" || r.Hashes.Get(resourcesync.SHA256) == "" {
			t.Errorf("%+v, %v, want MD5 and SHA-256", r, err)
		}
	}
}

// errRefused reports that a document names a missing one.
var errRefused = errors.New("names a document that is not there")

// A crawler reads documents from the service behind all faults.
type crawler struct{ service http.Handler }

func (c crawler) get(url string) (int, []byte) {
	path := strings.TrimPrefix(url, siteURL)
	rec := httptest.NewRecorder()
	c.service.ServeHTTP(rec, httptest.NewRequest(http.MethodGet, "/"+bucket+"/"+path, nil))
	return rec.Code, rec.Body.Bytes()
}

const siteURL = "https://data.example.org/"

// crawl reads all documents from the Source Description on, and returns the URIs
// of the resources of the Resource List. Before the first publication is
// complete there may be none.
func (c crawler) crawl() (map[string]bool, error) {
	resources := make(map[string]bool)
	err := c.walk(siteURL+".well-known/resourcesync", "", resources)
	return resources, err
}

func (c crawler) walk(uri, from string, resources map[string]bool) error {
	status, data := c.get(uri)
	if status == http.StatusNotFound && from == "" {
		return nil
	}
	if status != http.StatusOK {
		return fmt.Errorf("%s %w: %s (%d)", from, errRefused, uri, status)
	}
	r := resourcesync.NewReader(bytes.NewReader(data), resourcesync.ReaderOptions{})
	h, err := r.Header()
	if err != nil {
		return fmt.Errorf("%s: %w", uri, err)
	}
	for e, err := range r.Entries() {
		switch {
		case err != nil:
			return fmt.Errorf("%s: %w", uri, err)
		case h.Index || h.Capability == resourcesync.Description || h.Capability == resourcesync.CapabilityList:
			if err := c.walk(e.Loc, uri, resources); err != nil {
				return err
			}
		case h.Capability == resourcesync.ResourceList:
			resources[e.Loc] = true
		}
	}
	return nil
}

// A faulty service fails at one request that writes, or at every nth. With crash
// it answers nothing more from there on: to a bucket this looks as if the
// publishing process was killed.
type faulty struct {
	next  http.Handler
	after func() // called after each request that has written

	mu     sync.Mutex // guards what follows
	step   int
	failAt int
	every  int
	crash  bool
	down   bool
	random *rand.Rand
}

func (f *faulty) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodGet || r.Method == http.MethodHead {
		f.mu.Lock()
		down := f.down
		f.mu.Unlock()
		if down {
			panic(http.ErrAbortHandler)
		}
		f.next.ServeHTTP(w, r)
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.step++
	fault := f.down || f.step == f.failAt || f.every > 0 && f.random.IntN(f.every) == 0
	was := f.down
	f.down = f.down || fault && f.crash
	switch {
	case fault && (was || f.random.IntN(3) == 0): // the request is lost
		panic(http.ErrAbortHandler)
	case fault && f.random.IntN(2) == 0: // the service fails
		w.WriteHeader(http.StatusInternalServerError)
	case fault: // the answer is lost
		f.next.ServeHTTP(httptest.NewRecorder(), r)
		f.after()
		panic(http.ErrAbortHandler)
	default:
		f.next.ServeHTTP(w, r)
		f.after()
	}
}

// playFaults publishes a changing set through the faulty service, and checks
// after each request that no document names a missing one.
func playFaults(t *testing.T, rounds int, f *faulty) {
	t.Helper()
	var c crawler
	address := fake(t, func(next http.Handler) http.Handler {
		f.next, c.service = next, next
		f.after = func() {
			if f.step < f.failAt-1 {
				return // others have been here
			}
			if _, err := c.crawl(); err != nil {
				t.Errorf("after step %d: %v", f.step, err)
			}
		}
		return f
	})
	cat := catalog.NewMem(nil)
	set := must[string](t)(source.CapabilityListURI(siteURL, "main"))
	start := func() *source.Source {
		b := open(t, s3.Options{Endpoint: address, Attempts: 1})
		return must[*source.Source](t)(source.New(cat, b, source.Options{BaseURL: siteURL, MaxEntries: 3, Grace: time.Nanosecond, Keep: time.Nanosecond}))
	}
	src := start()
	n := 0
	for i := range rounds {
		var us []catalog.Update
		for j := range 1 + i%4 {
			r := catalog.Record{URI: fmt.Sprintf("%sr%d", siteURL, (i+j)%11), Length: int64(i)}
			us = append(us, catalog.Update{Record: r, Deleted: i%3 == 2 && j == 0})
		}
		must[catalog.Applied](t)(cat.Apply(t.Context(), set, us))
		if _, err := src.Publish(context.Background()); err != nil {
			n++
			f.mu.Lock()
			f.down = false
			f.mu.Unlock()
			if f.crash {
				src = start()
			}
		}
	}
	f.mu.Lock()
	f.failAt, f.every, f.down = 0, 0, false
	f.mu.Unlock()
	must[source.Report](t)(src.Publish(t.Context()))
	got, err := c.crawl()
	if err != nil {
		t.Error(err)
	}
	for r, err := range cat.Resources(t.Context(), set, catalog.Range{}) {
		if err != nil || !got[r.URI] {
			t.Errorf("in the end %s is not listed (%v)", r.URI, err)
		}
		delete(got, r.URI)
	}
	if len(got) > 0 {
		t.Errorf("in the end %v are listed", got)
	}
	if n == 0 && f.every > 0 {
		t.Error("nothing failed")
	}
}

// TestPublishFaults: one of every few requests fails, before or after it took
// effect.
func TestPublishFaults(t *testing.T) {
	t.Parallel()
	for _, every := range []int{2, 5, 11} {
		for _, crash := range []bool{false, true} {
			playFaults(t, 15, &faulty{every: every, crash: crash, random: rand.New(rand.NewPCG(1, uint64(every)))})
		}
	}
}

// TestPublishKilled: the process that publishes dies at its first, second, …
// request.
func TestPublishKilled(t *testing.T) {
	t.Parallel()
	for failAt := 1; ; failAt++ {
		f := &faulty{failAt: failAt, crash: true, random: rand.New(rand.NewPCG(2, uint64(failAt)))}
		playFaults(t, 4, f)
		if t.Failed() {
			t.Fatalf("killed at request %d", failAt)
		}
		if f.step < failAt {
			if failAt < 20 {
				t.Errorf("only %d requests", failAt)
			}
			return
		}
	}
}
