package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"database/sql"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"lockstep/oaipmh/oaipmhtest"
)

// harvestKills is what a release is tested with a larger number of.
var harvestKills = flag.Int("harvest-kills", 6, "how often TestKillHarvest kills syncs and follows of a feed, and of a repository")

// TestKillHarvest kills the binary at random moments of a sync or a follow of
// what has to be harvested, while that changes: what stands under a final name is
// always whole, and the mirror ends exact, its memory intact and without litter.
func TestKillHarvest(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"atom-pmh", "oai-pmh"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			for killed := 0; killed < *harvestKills; {
				killed += killHarvest(t, kind, min(*harvestKills-killed, 12))
			}
		})
	}
}

// killHarvest makes a mirror, killing that kills times.
func killHarvest(t *testing.T, kind string, kills int) int {
	t.Helper()
	var src harvestSource = newKillFeed(t)
	if kind == "oai-pmh" {
		src = newKillRepository(t)
	}
	dest := filepath.Join(t.TempDir(), "mirror")
	args := []string{"-q", "--max-delete", "100", src.address(), dest}
	for range kills {
		src.change()
		command := []string{"sync", "sync", "follow"}[rand.IntN(3)]
		ctx, cancel := context.WithTimeout(t.Context(), time.Duration(rand.IntN(500))*time.Millisecond)
		out, err := exec.CommandContext(ctx, "lockstep", append([]string{command}, args...)...).CombinedOutput()
		if err != nil && ctx.Err() == nil {
			t.Fatalf("%s: %v\n%s", command, err, out)
		}
		cancel()
		for path, text := range readMirror(t, dest) {
			if !src.isWhole(text) {
				t.Fatalf("%s is not whole: %.200q", path, text)
			}
		}
	}
	for range 2 { // a harvest that was broken off is ended first
		if out, err := exec.CommandContext(t.Context(), "lockstep", append([]string{"sync"}, args...)...).CombinedOutput(); err != nil {
			t.Fatalf("sync: %v\n%s", err, out)
		}
	}
	got, want := readMirror(t, dest), src.want()
	for path, text := range want {
		if got[path] != text {
			t.Errorf("%s = %.100q, want %.100q", path, got[path], text)
		}
	}
	if len(got) != len(want) {
		t.Errorf("%d files, want %d", len(got), len(want))
	}
	checkNoLitter(t, dest)
	checkMemory(t, filepath.Join(dest, ".lockstep"))
	out, err := exec.CommandContext(t.Context(), "lockstep", "audit", "--content", src.address(), dest).CombinedOutput()
	if err != nil {
		t.Errorf("audit: %v\n%s", err, out)
	}
	return kills
}

// checkMemory fails if the memory of a harvest in dir is damaged, or more of it
// is there than one needs.
func checkMemory(t *testing.T, dir string) {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(dir, "harvest*"))
	if err != nil || len(found) != 2 {
		t.Errorf("memory: %v, %v; want the database and how far it is", found, err)
	}
	db, err := sql.Open("sqlite", filepath.Join(dir, "harvest.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	var is string
	if err := db.QueryRowContext(t.Context(), "PRAGMA integrity_check").Scan(&is); err != nil || is != "ok" {
		t.Errorf("harvest.db: %s, %v", is, err)
	}
	left, err := filepath.Glob(filepath.Join(dir, "*tmp*"))
	for _, name := range left {
		if in, rerr := os.ReadDir(name); rerr != nil || len(in) > 0 {
			t.Errorf("left behind: %s, %v, %v", name, err, rerr)
		}
	}
}

// A harvestSource has records that change.
type harvestSource interface {
	address() string
	change()
	want() map[string]string // the files of a mirror
	isWhole(text string) bool
}

// sealed is a text that shows if it is not whole.
func sealed(text string) string { return fmt.Sprintf("%s %x", text, sha256.Sum256([]byte(text))) }

// A killFeed is a feed with archives, each of 25 entries.
type killFeed struct {
	srv *httptest.Server

	mu      sync.Mutex // guards what follows
	history []killEntry
	last    map[int]int // of each record, the number of its newest entry
}

type killEntry struct {
	record int
	gone   bool
}

func newKillFeed(t *testing.T) *killFeed {
	f := &killFeed{last: map[int]int{}}
	f.srv = httptest.NewServer(f)
	t.Cleanup(f.srv.Close)
	for i := range 400 {
		f.add(killEntry{record: i})
	}
	return f
}

func (f *killFeed) add(e killEntry) {
	f.last[e.record] = len(f.history)
	f.history = append(f.history, e)
}

func (f *killFeed) address() string { return "atom-pmh:" + f.srv.URL + "/feed" }

func (f *killFeed) change() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for range rand.IntN(60) {
		f.add(killEntry{record: rand.IntN(500), gone: rand.IntN(3) == 0})
	}
}

func (f *killFeed) text(record int) string {
	return sealed(fmt.Sprintf("record %d, edition %d %s", record, f.last[record], strings.Repeat("x", record*20)))
}

func (f *killFeed) isWhole(text string) bool {
	i := strings.LastIndexByte(text, ' ')
	return i > 0 && sealed(text[:i]) == text
}

func (f *killFeed) want() map[string]string {
	f.mu.Lock()
	defer f.mu.Unlock()
	all := map[string]string{}
	for record, n := range f.last {
		if !f.history[n].gone {
			all[fmt.Sprintf("r/%d", record)] = f.text(record)
		}
	}
	return all
}

func (f *killFeed) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var text string
	var n int
	cut := len(f.history) - len(f.history)%25
	switch _, err := fmt.Sscanf(r.URL.Path, "/r/%d", &n); {
	case r.URL.Path == "/feed":
		text = f.document(cut, len(f.history))
	case err == nil:
		last, known := f.last[n]
		if !known || f.history[last].gone {
			http.NotFound(w, r)
			return
		}
		text = f.text(n)
	default:
		if _, err := fmt.Sscanf(r.URL.Path, "/archive/%d", &n); err != nil || n > cut || n < 25 {
			http.NotFound(w, r)
			return
		}
		text = f.document(n-25, n)
	}
	w.Header().Set("ETag", fmt.Sprintf(`"%x"`, sha256.Sum256([]byte(text))))
	_, _ = w.Write([]byte(text)) // a client that was killed is what the test is about
}

func (f *killFeed) document(from, to int) string {
	at := func(n int) string {
		return time.Date(2024, 1, 1, 0, 0, n, 0, time.UTC).Format(time.RFC3339)
	}
	var b strings.Builder
	fmt.Fprintf(&b, `<feed xmlns="http://www.w3.org/2005/Atom"><id>urn:x:feed</id><title>t</title><author><name>x</name></author><updated>%s</updated>`, at(to-1))
	if from > 0 {
		fmt.Fprintf(&b, `<link rel="prev-archive" href="/archive/%d"/>`, from)
	}
	for n := from; n < to; n++ {
		e := f.history[n]
		fmt.Fprintf(&b, `<entry><id>urn:x:%d</id><title>t</title><updated>%s</updated>`, e.record, at(n))
		if e.gone {
			b.WriteString(`<content/></entry>`)
		} else {
			fmt.Fprintf(&b, `<link href="/r/%d" type="text/plain"/></entry>`, e.record)
		}
	}
	return b.String() + `</feed>`
}

// A killRepository is a repository of OAI-PMH.
type killRepository struct {
	*oaipmhtest.Repository
	url string
}

func newKillRepository(t *testing.T) *killRepository {
	r := &killRepository{Repository: oaipmhtest.New(oaipmhtest.Options{Records: 1500, PageSize: 40, Delay: 2 * time.Millisecond})}
	srv := httptest.NewServer(r)
	t.Cleanup(srv.Close)
	r.url = srv.URL + "/oai"
	return r
}

func (r *killRepository) address() string { return "oai-pmh:" + r.url }

func (r *killRepository) change() {
	for range rand.IntN(60) {
		id := fmt.Sprintf("oai:example.org:%07d", rand.IntN(2000))
		if rand.IntN(3) == 0 {
			r.Delete(id)
		} else {
			r.Put(oaipmhtest.Record{Identifier: id, Title: fmt.Sprint("Title ", rand.IntN(1000)), Size: rand.IntN(4000)})
		}
	}
}

func (r *killRepository) want() map[string]string {
	all := map[string]string{}
	for id, text := range r.All() {
		all[id+".xml"] = string(text)
	}
	return all
}

func (r *killRepository) isWhole(text string) bool {
	return strings.HasPrefix(text, "<?xml ") && strings.HasSuffix(string(bytes.TrimSpace([]byte(text))), ":dc>")
}
