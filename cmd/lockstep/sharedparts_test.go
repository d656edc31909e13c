package main

import (
	"context"
	"crypto/sha256"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"lockstep/blob"
	"lockstep/catalog"
	"lockstep/destination"
	"lockstep/internal/faultclock"
	"lockstep/mirror"
	"lockstep/resourcesync"
	"lockstep/source"
)

// A partedSource publishes a small set in small parts, and serves it.
type partedSource struct {
	testing.TB
	cat   catalog.Catalog
	docs  *blob.Mem
	src   *source.Source
	clock *faultclock.Clock
	url   string
	mu    sync.Mutex // guards files
	files map[string]string
	past  []partedMoment
}

// A partedMoment is what the set held from an instant on.
type partedMoment struct {
	at    time.Time
	files map[string]string
}

func newPartedSource(t testing.TB, o source.Options) *partedSource {
	s := &partedSource{TB: t, docs: new(blob.Mem), clock: faultclock.New(time.Now().Add(-100 * 24 * time.Hour)), files: make(map[string]string)}
	srv := httptest.NewServer(s)
	t.Cleanup(srv.Close)
	s.url = srv.URL + "/"
	s.cat = catalog.NewMem(s.clock.Now)
	o.BaseURL, o.Now = s.url, s.clock.Now
	var err error
	if s.src, err = source.New(s.cat, s.docs, o); err != nil {
		t.Fatal(err)
	}
	return s
}

func (s *partedSource) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	content, ok := s.files[strings.TrimPrefix(r.URL.Path, "/")]
	s.mu.Unlock()
	if ok {
		w.Header().Set("ETag", strconv.Quote(content))
		http.ServeContent(w, r, "", time.Unix(1, 0), strings.NewReader(content))
		return
	}
	s.src.Handler().ServeHTTP(w, r)
}

func (s *partedSource) change(name, content string) {
	s.Helper()
	u := catalog.Update{Deleted: content == "", Record: catalog.Record{URI: s.url + name}}
	if content != "" {
		sum := sha256.Sum256([]byte(content))
		u.Length, u.Hashes = int64(len(content)), resourcesync.Hashes{{Algorithm: resourcesync.SHA256, Digest: string(sum[:])}}
	}
	if _, err := s.cat.Apply(context.Background(), s.url+"resourcesync/main/capabilitylist.xml", []catalog.Update{u}); err != nil {
		s.Fatal(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.files[name] = content; content == "" {
		delete(s.files, name)
	}
}

func (s *partedSource) publish() {
	s.Helper()
	s.clock.Step(time.Millisecond)
	s.past = append(s.past, partedMoment{s.clock.Now(), maps.Clone(s.files)})
	s.clock.Step(time.Millisecond)
	if _, err := s.src.Publish(context.Background()); err != nil {
		s.Fatal(err)
	}
}

// Mirrors converge with a Source whose lists share parts with earlier ones, whichever
// lists they miss: after runs that follow the changes, full comparisons, gaps that the
// Change List does not cover, and as new mirrors.
func TestMirrorsOfSharedParts(t *testing.T) {
	t.Parallel()
	for seed := range uint64(4) {
		random := rand.New(rand.NewPCG(seed, 23))
		s := newPartedSource(t, source.Options{MaxEntries: 4 + random.IntN(8), Keep: 6 * 24 * time.Hour, Grace: time.Hour, SmallSet: 1})
		for i := range 60 {
			s.change(fmt.Sprintf("f%03d", i), fmt.Sprint("first ", i))
		}
		dir := t.TempDir()
		for round := range 12 {
			where := random.IntN(60)
			for range 1 + random.IntN(4) {
				name := fmt.Sprintf("f%03d", where+random.IntN(12))
				if content := fmt.Sprint("changed ", random.Int()); random.IntN(4) > 0 {
					s.change(name, content)
				} else {
					s.change(name, "")
				}
			}
			s.publish()
			s.clock.Step(time.Duration(random.IntN(50)) * time.Hour)
			switch random.IntN(4) {
			case 0:
				continue // this list is not seen
			case 1:
				dir = t.TempDir()
			}
			r, err := mirror.Sync(t.Context(), s.url, dir, mirror.Options{MaxDelete: 100, Adjust: func(o *destination.Options, _ *destination.ClientOptions) {
				o.Baseline = random.IntN(3) == 0
			}})
			got, rerr := contents(dir)
			if err != nil || rerr != nil || !maps.Equal(got, s.files) {
				t.Fatalf("seed %d, round %d: Sync = %+v, %v; %d files, want %d, %v", seed, round, r, err, len(got), len(s.files), rerr)
			}
		}
	}
}

// A list that shares parts with earlier ones is not taken for the state at its own at:
// some parts are later.
func TestPastStateIsNotReadOffSharedParts(t *testing.T) {
	t.Parallel()
	s := newPartedSource(t, source.Options{MaxEntries: 5, SmallSet: 1})
	for i := range 60 {
		s.change(fmt.Sprintf("f%03d", i), "first")
	}
	for day := range 5 {
		s.publish()
		s.clock.Step(25 * time.Hour)
		s.change(fmt.Sprintf("f%03d", 30+day), fmt.Sprint("day", day))
		s.change(fmt.Sprintf("new%03d", day), fmt.Sprint("day", day))
	}
	s.publish()
	exact := 0
	for _, m := range s.past {
		dir := t.TempDir()
		_, err := mirror.Sync(t.Context(), s.url, dir, mirror.Options{MaxDelete: 100, Adjust: func(o *destination.Options, _ *destination.ClientOptions) { o.At = m.at }})
		got, rerr := contents(dir)
		if rerr != nil {
			t.Fatal(rerr)
		}
		for name, content := range got {
			if m.files[name] != content {
				t.Errorf("as of %s: %s is %q, was %q", m.at, name, content, m.files[name])
			}
		}
		if err == nil && !maps.Equal(got, m.files) {
			t.Errorf("as of %s: %d files without an error, want %d", m.at, len(got), len(m.files))
		}
		if err == nil {
			exact++
		}
	}
	if exact == 0 {
		t.Error("not even the present state is known")
	}
}

// What is published with shared parts is valid.
func TestSharedPartsAreValid(t *testing.T) {
	t.Parallel()
	s := newPartedSource(t, source.Options{MaxEntries: 5, SmallSet: 1})
	for i := range 40 {
		s.change(fmt.Sprintf("f%03d", i), "first")
	}
	for day := range 4 {
		s.publish()
		s.clock.Step(25 * time.Hour)
		s.change(fmt.Sprintf("f%03d", 20+day), fmt.Sprint("day", day))
		s.change(fmt.Sprintf("f%03d", 2*day), "")
		s.change(fmt.Sprintf("g%03d", day), "new")
		if day > 0 {
			s.change(fmt.Sprintf("g%03d", day-1), "")
			s.change(fmt.Sprintf("f%03d", 2*day-2), "again")
		}
	}
	s.publish()
	if code, stdout, stderr := lockstepRun(t, "validate", s.url); code != 0 || strings.Contains(stdout, "warning") || strings.Contains(stdout, "advice") {
		t.Errorf("validate exits with %d:\n%s%s", code, stdout, stderr)
	}
}
