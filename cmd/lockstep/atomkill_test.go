package main

import (
	"encoding/xml"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// atomKills is what a release is tested with a larger number of.
var atomKills = flag.Int("atom-kills", 4, "how often the tests of Atom feeds kill who publishes them, each")

// A feedFollower reads a feed again and again, all of it, with nothing of ours. It
// keeps what it found: archives are the same for good, and what is new is newer
// than all there was.
type feedFollower struct {
	testing.TB
	get      func(name string) ([]byte, error)
	base     string
	id       string
	archives map[string]string    // bytes by URI
	seen     map[string]bool      // identifiers with times
	newest   time.Time            // of all that was told
	state    map[string]feedEntry // the newest of each record
	walks    int
}

type feedEntry struct {
	ID      string    `xml:"id"`
	Updated time.Time `xml:"updated"`
	Links   []struct {
		Rel  string `xml:"rel,attr"`
		Href string `xml:"href,attr"`
	} `xml:"link"`
	Content *struct{} `xml:"content"`
}

func (e *feedEntry) alternate() string {
	for _, l := range e.Links {
		if l.Rel == "alternate" || l.Rel == "" {
			return l.Href
		}
	}
	return ""
}

// walk reads the feed as a whole. What it returns is that there is none.
func (f *feedFollower) walk() error {
	f.Helper()
	last, state, seen := time.Time{}, make(map[string]feedEntry), make(map[string]bool)
	newest := f.newest
	var oldest time.Time // of the entries of the newer document
	for uri := f.base + "resourcesync/main/atom.xml"; uri != ""; {
		data, err := f.get(strings.TrimPrefix(uri, f.base))
		if err != nil && (errors.Is(err, errDown) || strings.HasSuffix(uri, "/atom.xml")) {
			return err
		}
		var d struct {
			XMLName xml.Name    `xml:"http://www.w3.org/2005/Atom feed"`
			ID      string      `xml:"id"`
			Updated time.Time   `xml:"updated"`
			Entries []feedEntry `xml:"entry"`
			Links   []struct {
				Rel  string `xml:"rel,attr"`
				Href string `xml:"href,attr"`
			} `xml:"link"`
		}
		if err := errors.Join(err, xml.Unmarshal(data, &d)); err != nil { // AP-TS-02
			f.Fatalf("%s: %v\n%s", uri, err, data)
		}
		if old, known := f.archives[uri]; known && old != string(data) { // AP-TS-07
			f.Fatalf("archive %s has changed from\n%s\nto\n%s", uri, old, data)
		}
		if last != (time.Time{}) { // all but the subscription document
			f.archives[uri] = string(data)
		}
		if f.id == "" {
			f.id = d.ID
		}
		if d.ID != f.id || !oldest.IsZero() && !d.Updated.Before(oldest) { // AP-DOC-04, AP-TS-03
			f.Fatalf("%s of feed %s is of %s, newer ones of %s have entries of %s", uri, d.ID, d.Updated, f.id, oldest)
		}
		last, uri = d.Updated, ""
		for _, e := range d.Entries {
			if e.Updated.After(d.Updated) || (e.alternate() == "") != (e.Content != nil) { // AP-TS-01
				f.Fatalf("in a document of %s: %+v", d.Updated, e)
			}
			if oldest.IsZero() || e.Updated.Before(oldest) {
				oldest = e.Updated
			}
			key := e.ID + e.Updated.String()
			if seen[key] = true; !f.seen[key] && !e.Updated.After(f.newest) { // AP-TS-11
				f.Fatalf("%+v is new, but there were entries of %s", e, f.newest)
			}
			if e.Updated.After(newest) {
				newest = e.Updated
			}
			if old, ok := state[e.ID]; !ok || e.Updated.After(old.Updated) {
				state[e.ID] = e
			}
		}
		for _, l := range d.Links {
			if l.Rel == "prev-archive" {
				uri = l.Href
			}
		}
	}
	f.newest, f.seen, f.state = newest, seen, state
	f.walks++
	return nil
}

// holds reports what the feed says that is not as it should be.
func (f *feedFollower) holds(want map[string]bool) string {
	got := make(map[string]string)
	for _, e := range f.state {
		if uri := e.alternate(); uri != "" {
			got[uri] = ""
		}
	}
	all := make(map[string]string)
	for uri := range want {
		all[uri] = ""
	}
	return difference(got, all)
}

func newFeedFollower(t testing.TB, base string, get func(name string) ([]byte, error)) *feedFollower {
	return &feedFollower{TB: t, get: get, base: base, archives: make(map[string]string), seen: make(map[string]bool)}
}

// TestAtomServeKilled kills a Source at random moments while its files change and
// somebody reads its feed over and over.
func TestAtomServeKilled(t *testing.T) {
	t.Parallel()
	files := newRestlessFiles(t, 100)
	config := filepath.Join(t.TempDir(), "site.yaml")
	text := fmt.Sprintf("sets:\n  - from: dir:%s\n    atom_pmh: {entries: 20}\n", files.dir)
	if err := os.WriteFile(config, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
	src := newLivingSource(t, "--config="+config, t.TempDir())
	f := newFeedFollower(t, src.base, func(name string) ([]byte, error) {
		resp, err := http.Get(src.base + name)
		if err != nil {
			return nil, errDown
		}
		defer resp.Body.Close()
		if resp.StatusCode == http.StatusServiceUnavailable && resp.Header.Get("Retry-After") != "" {
			return nil, errDown // it is starting
		}
		if resp.StatusCode != http.StatusOK {
			return nil, errors.New(resp.Status)
		}
		data, err := io.ReadAll(resp.Body)
		if err != nil {
			return nil, errDown
		}
		return data, nil
	})
	stop := make(chan struct{})
	var busy sync.WaitGroup
	rest := sync.OnceFunc(func() { close(stop); busy.Wait() })
	defer rest()
	busy.Go(func() { files.change(10*time.Millisecond, stop) })
	for range *atomKills {
		for end := time.Now().Add(time.Duration(rand.IntN(900)) * time.Millisecond); time.Now().Before(end); {
			_ = f.walk() // it may be down
			time.Sleep(5 * time.Millisecond)
		}
		src.restart()
	}
	rest()
	want := make(map[string]bool)
	for name := range files.now {
		want[src.base+(&url.URL{Path: name}).EscapedPath()] = true
	}
	waitFor(t, "the last change", func() bool { return f.walk() == nil && f.holds(want) == "" })
	t.Logf("%d walks, %d archives, %d changes", f.walks, len(f.archives), files.count)
}

// TestAtomPublishKilled kills publications at random moments; somebody reads the
// feed in the directory meanwhile, and after each.
func TestAtomPublishKilled(t *testing.T) {
	t.Parallel()
	dir, www := t.TempDir(), t.TempDir()
	const base = "https://data.example.org/"
	write := func(name, text string) {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o777), os.WriteFile(path, []byte(text), 0o666)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(dir, "files"), 0o777); err != nil {
		t.Fatal(err)
	}
	write("site.yaml", "base_url: "+base+"\nstate: state\ngzip: true\nsets:\n  - from: dir:files\n    atom_pmh: {entries: 3}\n")
	files := make(map[string]bool)
	f := newFeedFollower(t, base, func(name string) ([]byte, error) { return os.ReadFile(filepath.Join(www, filepath.FromSlash(name))) })
	run := func(after time.Duration) error {
		cmd := exec.Command("lockstep", "publish", "--config", "site.yaml", "--out", www, "-q")
		cmd.Dir = dir
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		done := make(chan error, 1)
		go func() { done <- cmd.Wait() }()
		kill := time.After(after)
		for {
			select {
			case err := <-done:
				return err
			case <-kill:
				_ = cmd.Process.Kill() // it may have ended
			case <-time.After(2 * time.Millisecond):
				if err := f.walk(); err != nil && !errors.Is(err, fs.ErrNotExist) {
					t.Fatal(err)
				}
			}
		}
	}
	took := time.Second
	for round := range 2 * *atomKills {
		for range 4 {
			name := fmt.Sprintf("%d.txt", rand.IntN(30))
			if files[base+name] = rand.IntN(3) > 0; files[base+name] {
				write("files/"+name, fmt.Sprint("version ", round, rand.IntN(1000)))
			} else {
				_ = os.Remove(filepath.Join(dir, "files", name)) // if it is there
			}
		}
		if round%4 == 0 { // one that comes to its end
			start := time.Now()
			if err := run(time.Hour); err != nil {
				t.Fatal(err)
			}
			took = time.Since(start)
		} else {
			_ = run(time.Duration(rand.Int64N(int64(took)))) // it was killed, or had just ended
		}
	}
	if err := run(time.Hour); err != nil {
		t.Fatal(err)
	}
	maps.DeleteFunc(files, func(_ string, there bool) bool { return !there })
	if err := f.walk(); err != nil || f.holds(files) != "" {
		t.Errorf("%v, in the feed: %s", err, f.holds(files))
	}
	t.Logf("%d walks, %d archives", f.walks, len(f.archives))
	for uri := range f.archives { // AP-TS-07: and beside each, its compressed form
		if _, err := f.get(strings.TrimPrefix(uri, base) + ".gz"); err != nil {
			t.Error(err)
		}
	}
}
