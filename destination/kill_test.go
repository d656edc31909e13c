//go:build unix

package destination_test

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"lockstep/blob"
	"lockstep/destination"
	"lockstep/destination/lock"
	"lockstep/discover"
	"lockstep/internal/fetch"
	"lockstep/storage/sqlite"
)

var (
	kills     = flag.Int("kills", 8, "how often a sync is killed")
	killFiles = flag.Int("kill.files", 1000, "resources it syncs")
)

// killUnderWay is how many bytes are under way at most when a sync is killed: of
// each of the files that are fetched at once. Eight kills of the default number of
// files cost less than a fifth of them, however late the process is killed.
const killUnderWay = 16 * 32_000

// TestKillProcess is the sync that TestKill kills.
func TestKillProcess(t *testing.T) {
	source, dest := os.Getenv("LOCKSTEP_TEST_SOURCE"), os.Getenv("LOCKSTEP_TEST_DEST")
	if source == "" {
		return // only when TestKill starts it
	}
	if err := syncTo(source, dest); err != nil {
		t.Fatal(err)
	}
}

// syncTo syncs as the command does, with everything on disk.
func syncTo(source, dest string) error {
	held, err := lock.Acquire(dest)
	if err != nil {
		return err
	}
	defer held.Close()
	db, err := sqlite.Open(filepath.Join(dest, destination.StateFile))
	if err != nil {
		return err
	}
	defer db.Close()
	store, err := blob.NewDir(dest, blob.DirOptions{})
	if err != nil {
		return err
	}
	defer store.Close()
	c, err := fetch.New(fetch.Options{Home: discover.Home(source)})
	if err != nil {
		return err
	}
	defer c.Close()
	o := destination.Options{Dest: dest, MaxDelete: 100}
	if os.Getenv("LOCKSTEP_TEST_KEEP") != "" {
		versions, err := blob.NewDir(versionsOf(dest), blob.DirOptions{Tmp: "tmp"})
		if err != nil {
			return err
		}
		defer versions.Close()
		o.Keep, o.Versions = destination.Keep{All: true}, versions
	}
	d, err := destination.New(store, db.Journal(), c, o)
	if err != nil {
		return err
	}
	_, err = d.Sync(context.Background(), source)
	return err
}

// TestKill kills a sync at random moments and runs it again: in the end the
// mirror is exact, there are no leftover files, nothing finished was fetched again,
// and hardly anything else.
func TestKill(t *testing.T) {
	t.Parallel()
	s := newSite(t, style{})
	rnd := rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), 1))
	var ideal int64
	for i := range *killFiles {
		data := strings.Repeat(fmt.Sprintf("%08d", i), 1+rnd.IntN(4_000))
		ideal += int64(len(data))
		s.put(fmt.Sprintf("/d%d/f%03d", i%7, i), data)
	}
	var asked atomic.Int64
	s.setFault(func(w http.ResponseWriter, r *http.Request) bool {
		if !strings.HasPrefix(r.URL.Path, "/d") {
			return false
		}
		asked.Add(1)
		s.serve(&paced{ResponseWriter: w, r: r}, r, s.file(r.URL.Path))
		return true
	})
	m := newMirror(t, s)
	n, most := *kills, 1.2 // promised: bytes for each that has to be sent
	if underRace {
		n, most = n/2, 1.4
	}
	half := n / 2
	for i := range n {
		if i == half { // the second half of it is incremental
			if err := syncTo(s.srv.URL, m.dir); err != nil {
				t.Fatal(err)
			}
			m.same()
			for k := 0; k < *killFiles; k += 2 {
				path := fmt.Sprintf("/d%d/f%03d", k%7, k)
				if k%10 == 0 {
					s.del(path)
					continue
				}
				data := strings.Repeat(fmt.Sprintf("%08d", k+1_000_000), 1+rnd.IntN(4_000))
				ideal += int64(len(data))
				s.put(path, data)
			}
		}
		before := m.finished()
		count := s.counts()
		goal := asked.Load() + 1 + rnd.Int64N(int64(*killFiles/half))
		killSync(t, s.srv.URL, m.dir, func() bool { return asked.Load() >= goal }, rnd)
		for path := range before {
			if n := s.got(path) - count[path]; n > 0 {
				t.Errorf("%s was there and right, and was asked for %d times again", path, n)
			}
		}
	}
	if err := syncTo(s.srv.URL, m.dir); err != nil {
		t.Fatal(err)
	}
	m.same()
	s.mu.Lock()
	sent := s.sent
	s.mu.Unlock()
	t.Logf("%d bytes sent, %d would do: %.3f", sent, ideal, float64(sent)/float64(ideal))
	allowed := most * float64(ideal)
	if n > 20 { // more than is promised: each costs at most what is under way
		allowed = max(allowed, float64(ideal)+float64(n)*killUnderWay)
	}
	if float64(sent) > allowed {
		t.Errorf("%d bytes were sent where %d would do", sent, ideal)
	}
}

// killSync starts a sync and kills it a moment after now says so.
func killSync(t *testing.T, source, dest string, now func() bool, rnd *rand.Rand, env ...string) {
	t.Helper()
	c := exec.Command(os.Args[0], "-test.run=^TestKillProcess$")
	c.Env = append(os.Environ(), "LOCKSTEP_TEST_SOURCE="+source, "LOCKSTEP_TEST_DEST="+dest)
	c.Env = append(c.Env, env...)
	c.Stderr = os.Stderr
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() { _ = c.Wait(); close(ended) }() // killed, mostly
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for !now() {
		select {
		case <-ended:
			return
		case <-tick.C:
		}
	}
	time.Sleep(time.Duration(rnd.Int64N(int64(30 * time.Millisecond))))
	_ = c.Process.Kill() // it may have ended
	<-ended
}

// finished returns the paths of resources whose files are as they should be.
func (m *mirror) finished() map[string]bool {
	files := m.files()
	done := map[string]bool{}
	m.site.mu.Lock()
	defer m.site.mu.Unlock()
	for path, f := range m.site.files {
		if files[strings.TrimPrefix(path, "/")] == string(f.data) {
			done[path] = true
		}
	}
	return done
}

func (s *site) counts() map[string]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.gets)
}

// pace is the time between the parts of a response: a reader on a busy machine keeps up with
// it, so that what was sent and not read in the buffers of the sockets does not count.
const pace = 10 * time.Millisecond

// paced writes slowly, so that little is on its way when the reader dies.
type paced struct {
	http.ResponseWriter
	r *http.Request
}

func (p *paced) Write(b []byte) (int, error) {
	n := 0
	for chunk := range slices.Chunk(b, 8<<10) {
		k, err := p.ResponseWriter.Write(chunk)
		n += k
		if err != nil {
			return n, err
		}
		_ = http.NewResponseController(p.ResponseWriter).Flush() // the client may be gone
		select {
		case <-p.r.Context().Done():
			return n, p.r.Context().Err()
		case <-time.After(pace):
		}
	}
	return n, nil
}
