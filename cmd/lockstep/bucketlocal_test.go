package main

import (
	"database/sql"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"lockstep/blob/s3"
)

// reads counts the objects that are read from a bucket.
type reads struct {
	mu    sync.Mutex // guards paths
	paths []string
}

func (r *reads) watch(_ http.ResponseWriter, req *http.Request) bool {
	if req.Method == http.MethodGet && !strings.Contains(req.URL.RawQuery, "list-type") && strings.Count(strings.Trim(req.URL.Path, "/"), "/") > 0 {
		r.mu.Lock()
		r.paths = append(r.paths, req.URL.Path)
		r.mu.Unlock()
	}
	return false
}

func (r *reads) take() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	got := r.paths
	r.paths = nil
	return got
}

// replaceObject puts other bytes of the same length in the place of an object.
func (b *testBucket) replaceObject(t *testing.T, name, data string) {
	t.Helper()
	bucket, err := s3.New(s3.Options{Endpoint: b.URL, Bucket: "copies", Prefix: b.dest, AccessKey: "k", SecretKey: "s"})
	if err != nil {
		t.Fatal(err)
	}
	w, err := bucket.Create(t.Context(), name)
	if err == nil {
		_, err = w.Write([]byte(data))
	}
	if err == nil {
		err = bucket.Commit(t.Context(), w)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestBucketMirrorTags has audit and sync notice replaced objects by their entity
// tags, and read no others.
func TestBucketMirrorTags(t *testing.T) {
	t.Parallel()
	b := newTestBucket(t)
	src := newCountingSource(t, 300)
	state := filepath.Join(t.TempDir(), "state")
	run := func(want int, args ...string) {
		t.Helper()
		args = append(args, src.URL+"/resourcelist.xml", b.address(), "--state", state)
		if code, stderr := b.run(t, time.Minute, args...); code != want {
			t.Fatalf("%v: exit code %d, want %d\n%s", args, code, want, stderr)
		}
	}
	run(0, "sync", "-q")
	var seen reads
	b.setFault(seen.watch)
	run(0, "audit", "-q")
	if got := seen.take(); len(got) > 0 {
		t.Errorf("audit read %d objects: %.3q", len(got), got)
	}
	var names []string
	for path := range src.files {
		names = append(names, strings.TrimPrefix(path, "/"))
	}
	slices.Sort(names)
	for _, name := range names[:3] {
		b.replaceObject(t, name, strings.Repeat("?", len(src.files["/"+name])))
	}
	run(3, "audit", "-q")
	if got := seen.take(); len(got) != 3 {
		t.Errorf("audit read %d objects, 3 were replaced: %.5q", len(got), got)
	}
	run(0, "sync", "-q")
	if got := slices.Compact(slices.Sorted(slices.Values(seen.take()))); len(got) != 3 { // compared with what was written, and with what is wanted
		t.Errorf("sync read %d objects, 3 were replaced: %.5q", len(got), got)
	}
	src.check(t, b.objects(t))
	seen.take()

	// A state of an earlier version knows no tags: sync reads each object once,
	// unless its MD5 is known.
	db, err := sql.Open("sqlite", filepath.Join(state, ".lockstep", "state.db"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.Exec(`UPDATE journal_held SET tag = '', written = NULL`); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	run(0, "sync", "-q")
	if got := seen.take(); len(got) > len(names) {
		t.Errorf("the first sync read %d objects", len(got))
	}
	run(0, "sync", "-q")
	run(0, "audit", "-q")
	if got := seen.take(); len(got) > 0 {
		t.Errorf("after the first sync %d objects were read: %.3q", len(got), got)
	}
}
