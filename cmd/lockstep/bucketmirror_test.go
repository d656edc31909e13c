package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"

	"lockstep/blob"
	"lockstep/blob/s3"
	"lockstep/storage/postgres/postgrestest"
)

// A testBucket is a service for buckets behind a fault.
type testBucket struct {
	*httptest.Server
	fault atomic.Pointer[func(w http.ResponseWriter, r *http.Request) bool] // may answer instead
	asked atomic.Int64
	dest  string // prefix of the mirror
	home  string // for states that have no directory of their own; "": the user's
}

func (b *testBucket) address() string { return "s3://copies/" + b.dest }

func newTestBucket(t *testing.T) *testBucket {
	b := &testBucket{dest: "here"}
	fake := gofakes3.New(s3mem.New(), gofakes3.WithAutoBucket(true)).Server()
	b.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b.asked.Add(1)
		if f := b.fault.Load(); f != nil && (*f)(w, r) {
			return
		}
		fake.ServeHTTP(w, r)
	}))
	t.Cleanup(b.Close)
	return b
}

func (b *testBucket) setFault(f func(w http.ResponseWriter, r *http.Request) bool) { b.fault.Store(&f) }

// objects reads what is in the mirror, without what uploads leave.
func (b *testBucket) objects(t *testing.T) map[string]string {
	t.Helper()
	bucket, err := s3.New(s3.Options{Endpoint: b.URL, Bucket: "copies", Prefix: b.dest, AccessKey: "k", SecretKey: "s"})
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for info, err := range bucket.List(t.Context(), "") {
		if err != nil {
			t.Fatal(err)
		}
		r, err := bucket.Open(t.Context(), info.Name)
		if errors.Is(err, blob.ErrNotExist) {
			continue // a process has removed it
		}
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(r)
		_ = r.Close() // only read from
		if err != nil {
			t.Fatal(err)
		}
		got[info.Name] = string(data)
	}
	return got
}

// run runs a command on the mirror, for no longer than limit, and returns its
// exit code (-1: killed) and what it said.
func (b *testBucket) run(t *testing.T, limit time.Duration, args ...string) (code int, said string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, "lockstep", args...)
	cmd.Env = os.Environ()
	for name, value := range bucketEnv(b.URL) {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	if b.home != "" {
		cmd.Env = append(cmd.Env, "XDG_STATE_HOME="+b.home)
	}
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	code, err := exitCodeOf(cmd.Run())
	if err != nil && ctx.Err() == nil {
		t.Fatal(err)
	}
	if ctx.Err() != nil {
		code = -1
	}
	return code, out.String()
}

// TestBucketMirrorKill kills syncs into a bucket. An object is always whole;
// in the end all are there, nothing else is, and --exec was told of each.
func TestBucketMirrorKill(t *testing.T) {
	t.Parallel()
	b := newTestBucket(t)
	b.setFault(func(_ http.ResponseWriter, r *http.Request) bool {
		if r.Method == http.MethodPut { // a bucket is not next door
			time.Sleep(time.Duration(rand.IntN(30)) * time.Millisecond)
		}
		return false
	})
	large := bytes.Repeat([]byte("0123456789abcdef"), 1<<20) // in parts
	src := newCountingSource(t, 600, map[string][]byte{"/large": large})
	for kills, round := 0, 0; kills < 10; round++ {
		b.dest = fmt.Sprint("here-", round)
		kills += b.killRound(t, src, 10-kills, filepath.Join(t.TempDir(), "state"))
	}
	t.Run("database", func(t *testing.T) {
		b.home = t.TempDir()
		for kills, round := 0, 0; kills < 10; round++ {
			b.dest = fmt.Sprint("database-", round)
			kills += b.killRound(t, src, 10-kills, postgrestest.URL(t))
		}
	})
}

// killRound makes a mirror with at most so many kills, and returns how many
// there were.
func (b *testBucket) killRound(t *testing.T, src *countingSource, most int, state string) (kills int) {
	events := filepath.Join(t.TempDir(), "events.jsonl")
	sync := []string{"sync", "-q", src.URL + "/resourcelist.xml", b.address(), "--state", state, "--exec", "cat >> " + events}
	for {
		limit := time.Duration(rand.IntN(400)) * time.Millisecond
		if kills >= most {
			limit = time.Minute
		}
		code, stderr := b.run(t, limit, sync...)
		if code > 0 {
			t.Fatalf("exit code %d\n%s", code, stderr)
		}
		got := b.objects(t)
		for name, data := range got {
			if want, ok := src.files["/"+name]; !ok || string(want) != data {
				t.Fatalf("after %d kills: %s has %d bytes that are not the Source's", kills, name, len(data))
			}
		}
		if code == 0 {
			src.check(t, got)
			break
		}
		kills++
	}
	reported := map[string]bool{}
	text, err := os.ReadFile(events)
	if err != nil {
		t.Fatal(err)
	}
	for line := range bytes.Lines(text) {
		var e struct{ URI, Path, Change string }
		if json.Unmarshal(line, &e) == nil { // one may be cut off: its batch comes again
			reported[strings.TrimPrefix(e.URI, src.URL)] = true
		}
	}
	for path := range src.files {
		if !reported[path] {
			t.Errorf("--exec was not told of %s", path)
		}
	}
	if code, stderr := b.run(t, time.Minute, "audit", "-q", src.URL+"/resourcelist.xml", b.address(), "--state", state); code != 0 {
		t.Errorf("audit: exit code %d\n%s", code, stderr)
	}
	return kills
}

// TestBucketMirrorFaults syncs into a bucket that fails now and then, that
// fails always, and that says no.
func TestBucketMirrorFaults(t *testing.T) {
	t.Parallel()
	b := newTestBucket(t)
	src := newCountingSource(t, 60)
	state := filepath.Join(t.TempDir(), "state")
	sync := []string{"sync", "-q", src.URL + "/resourcelist.xml", b.address(), "--state", state}
	answer := func(status int) func(http.ResponseWriter, *http.Request) bool {
		return func(w http.ResponseWriter, r *http.Request) bool {
			if r.Method == http.MethodPut {
				w.WriteHeader(status)
			}
			return r.Method == http.MethodPut
		}
	}
	for _, tt := range []struct {
		status int
		want   string
	}{{http.StatusServiceUnavailable, "503"}, {http.StatusForbidden, "AWS_ACCESS_KEY_ID|Access ?Denied|403"}} {
		b.setFault(answer(tt.status))
		b.asked.Store(0)
		start := time.Now()
		code, stderr := b.run(t, time.Minute, sync...)
		if code != exitFailed || !strings.Contains(stderr, "error: ") || strings.Contains(stderr, "goroutine") {
			t.Errorf("status %d: exit code %d\n%s", tt.status, code, stderr)
		}
		t.Logf("status %d: %d requests, %v\n%s", tt.status, b.asked.Load(), time.Since(start), stderr)
		if n := b.asked.Load(); n > 1500 {
			t.Errorf("status %d: %d requests were made", tt.status, n)
		}
	}
	b.setFault(func(w http.ResponseWriter, _ *http.Request) bool {
		switch rand.IntN(30) {
		case 0:
			w.WriteHeader(http.StatusServiceUnavailable)
			return true
		case 1:
			panic(http.ErrAbortHandler) // the connection ends
		}
		return false
	})
	code, stderr := b.run(t, time.Minute, sync...)
	for n := 0; code == exitFailed && n < 3; n++ {
		code, stderr = b.run(t, time.Minute, sync...)
	}
	if code != exitOK {
		t.Fatalf("exit code %d\n%s", code, stderr)
	}
	b.setFault(func(http.ResponseWriter, *http.Request) bool { return false })
	src.check(t, b.objects(t))
}
