package main

import (
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"lockstep/resourcesync"
	"lockstep/storage/postgres/postgrestest"
)

// serveKills is what a release is tested with a larger number of.
var serveKills = flag.Int("serve-kills", 5, "how often TestServeKilled kills a Source")

// TestServeKilled kills a Source at random moments while its files change and
// somebody reads all its documents over and over: each reading is whole and
// true, and who follows the changes from the start ends with the files, no
// change lost, doubled or out of order.
func TestServeKilled(t *testing.T) {
	t.Parallel()
	testServeKilled(t, t.TempDir())
}

// TestServeFromDatabaseKilled is the same with the state in PostgreSQL.
func TestServeFromDatabaseKilled(t *testing.T) {
	t.Parallel()
	testServeKilled(t, postgrestest.URL(t))
}

func testServeKilled(t *testing.T, state string) {
	t.Helper()
	files := newRestlessFiles(t, 200)
	src := newLivingSource(t, files.dir, state)
	reader := newCrawler(t, src.base, files)

	stop := make(chan struct{})
	var busy sync.WaitGroup
	// Each reading reads all changes there were: in a long test, make fewer.
	every := 3 * time.Millisecond * time.Duration(1+*serveKills/16)
	busy.Go(func() { files.change(every, stop) })
	busy.Go(func() { reader.run(stop) })
	rest := sync.OnceFunc(func() { close(stop); busy.Wait() })
	defer rest()
	for kill := range *serveKills {
		before := reader.crawls.Load()
		time.Sleep(time.Duration(rand.IntN(800)) * time.Millisecond)
		if kill%2 == 0 { // however busy the machine is, some lives are seen
			waitFor(t, "a crawl", func() bool { return reader.crawls.Load() > before || t.Failed() })
		}
		src.restart()
	}
	if rest(); t.Failed() {
		return
	}
	waitFor(t, "the last change", func() bool {
		reader.crawl()
		return t.Failed() || maps.Equal(reader.state, files.now)
	})
	waitFor(t, "quiet documents", func() bool { // the Change List is switched first, the rest in a moment
		was := reader.last.documents
		time.Sleep(time.Second)
		reader.crawl()
		return t.Failed() || reader.last.listed() && maps.Equal(reader.last.documents, was)
	})
	t.Logf("%d crawls, %d changes made, %d published", reader.crawls.Load(), files.count, len(reader.last.events))
	checkRestart(t, src, reader)
}

// checkRestart ends a Source in good order and starts it again: nothing has
// changed, so nothing is published, and nothing is left of the killed ones.
func checkRestart(t *testing.T, src *livingSource, reader *crawler) {
	t.Helper()
	if code, err := src.p.end(syscall.SIGTERM); err != nil || code != exitOK {
		t.Fatalf("ended with %d, %v\n%s", code, err, src.p.stderr)
	}
	src.start()
	checkEmpty(t, filepath.Join(stateDir(t, src.state), "documents", ".lockstep", "tmp"))
	before := reader.last.documents
	reader.crawl()
	for name, text := range reader.last.documents {
		if text != before[name] {
			t.Errorf("%s was written anew though nothing changed:\n%s\nwas\n%s", name, text, before[name])
		}
	}
}

// restlessFiles is a directory whose files keep changing.
type restlessFiles struct {
	testing.TB
	dir, side string // side is where new files are written before they are renamed

	mu    sync.Mutex // guards what follows
	now   map[string]string
	ever  map[string]bool // "name digest" of all there ever was
	count int
}

func newRestlessFiles(t *testing.T, n int) *restlessFiles {
	t.Helper()
	top := t.TempDir()
	f := &restlessFiles{TB: t, dir: filepath.Join(top, "files"), side: filepath.Join(top, "side"),
		now: map[string]string{}, ever: map[string]bool{}}
	if err := os.Mkdir(f.side, 0o755); err != nil {
		t.Fatal(err)
	}
	for range n {
		f.put(f.random())
	}
	return f
}

func (f *restlessFiles) random() string {
	i := rand.IntN(300)
	return fmt.Sprintf("d%d/file %d.txt", i%7, i)
}

// change makes changes until it is told to stop, one every so often.
func (f *restlessFiles) change(every time.Duration, stop <-chan struct{}) {
	for tick := time.NewTicker(every); ; {
		select {
		case <-stop:
			tick.Stop()
			return
		case <-tick.C:
		}
		switch name, other := f.random(), f.random(); rand.IntN(6) {
		case 0:
			f.remove(name)
		case 1:
			f.rename(name, other)
		default:
			f.put(name)
		}
	}
}

// put writes a file as a whole: what a reader may see of a file that is being
// written is not what is tested here.
func (f *restlessFiles) put(name string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.count++
	text := fmt.Sprintf("%d %s\n", f.count, strings.Repeat("x", rand.IntN(50)))
	temp, path := filepath.Join(f.side, "new"), filepath.Join(f.dir, name)
	if err := errors.Join(os.WriteFile(temp, []byte(text), 0o644), os.MkdirAll(filepath.Dir(path), 0o755), os.Rename(temp, path)); err != nil {
		f.Error(err)
	}
	f.hold(name, digest(text))
}

// hold notes what name now is. f.mu is held.
func (f *restlessFiles) hold(name, digest string) {
	f.now[name] = digest
	f.ever[name+" "+digest] = true
}

func (f *restlessFiles) remove(name string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.now[name] == "" {
		return
	}
	f.count++
	delete(f.now, name)
	if err := os.Remove(filepath.Join(f.dir, name)); err != nil {
		f.Error(err)
	}
}

func (f *restlessFiles) rename(from, to string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	held := f.now[from]
	if held == "" || from == to {
		return
	}
	f.count++
	path := filepath.Join(f.dir, to)
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.Rename(filepath.Join(f.dir, from), path)); err != nil {
		f.Error(err)
	}
	delete(f.now, from)
	f.hold(to, held)
}

// was reports whether a file ever had that digest.
func (f *restlessFiles) was(name, digest string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.ever[name+" "+digest]
}

// A crawler reads a Source again and again, and follows its changes.
type crawler struct {
	testing.TB
	base   string
	files  *restlessFiles
	crawls atomic.Int64
	last   *crawl
	state  map[string]string // file to digest, by the changes since the first crawl
	uris   map[string]string // the same by URI
}

// newCrawler returns a crawler that has read the Source once, before any
// change.
func newCrawler(t *testing.T, base string, files *restlessFiles) *crawler {
	t.Helper()
	c, err := crawlSource(base)
	if err != nil {
		t.Fatal(err)
	}
	r := &crawler{TB: t, base: base, files: files, last: c, uris: c.state}
	if r.settle(); !maps.Equal(r.state, files.now) {
		t.Fatalf("the first Resource List: %s", difference(r.state, files.now))
	}
	return r
}

func (r *crawler) run(stop <-chan struct{}) {
	for !r.Failed() {
		select {
		case <-stop:
			return
		case <-time.After(5 * time.Millisecond):
			r.crawl()
		}
	}
}

// crawl reads the Source if it is there and compares what it says with what it
// said before, and with what the files were.
func (r *crawler) crawl() {
	c, err := crawlSource(r.base)
	if errors.Is(err, errDown) {
		return
	}
	if err != nil {
		r.Error(err)
		return
	}
	r.crawls.Add(1)
	seen := len(r.last.events)
	if len(c.events) < seen || !slices.Equal(c.events[:seen], r.last.events) {
		r.Errorf("events changed: of %d seen before, now %d", seen, len(c.events))
		return
	}
	if !c.from.Equal(r.last.from) || c.at.Before(r.last.at) {
		r.Errorf("Change List from %s, then %s; Resource List at %s, then %s", r.last.from, c.from, r.last.at, c.at)
	}
	if err := c.follow(r.uris, seen); err != nil {
		r.Error(err)
	}
	if !maps.Equal(r.uris, c.state) {
		r.Errorf("who follows and who begins now disagree: %s", difference(r.uris, c.state))
	}
	for _, e := range c.events[seen:] {
		if e.change != resourcesync.Deleted && !r.files.was(rel(r.base, e.uri), e.digest) {
			r.Errorf("%s was never %s", e.uri, e.digest)
		}
	}
	r.last = c
	r.settle()
}

func (r *crawler) settle() {
	r.state = make(map[string]string, len(r.uris))
	for uri, digest := range r.uris {
		r.state[rel(r.base, uri)] = digest
	}
}

// waitFor waits until ok.
func waitFor(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(readyLimit); !ok(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%s never came", what)
		}
	}
}

// difference names what is in one of two maps only, or different.
func difference(got, want map[string]string) string {
	var lines []string
	for name, text := range want {
		if other, ok := got[name]; !ok {
			lines = append(lines, fmt.Sprintf("%q is missing", name))
		} else if other != text {
			lines = append(lines, fmt.Sprintf("%q is %.100q, want %.100q", name, other, text))
		}
	}
	for name := range got {
		if _, ok := want[name]; !ok {
			lines = append(lines, fmt.Sprintf("%q is too much", name))
		}
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}
