package main

import (
	"bytes"
	"crypto/sha256"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"lockstep/resourcesync"
)

// publishKills is what a release is tested with a larger number of.
var publishKills = flag.Int("publish-kills", 25, "how often TestPublishKilled kills a publication")

// TestPublishKilled kills `lockstep publish` at random moments. What it leaves
// is whole: whatever a document names is there, to those who take compressed
// ones too; closed parts stay as they are; and the Resource List with the
// changes since is the present in the end.
func TestPublishKilled(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	const base = "https://data.example.org/"
	config := filepath.Join(dir, "lockstep.yaml")
	text := "base_url: " + base + "\nstate: state\nsets:\n" +
		"  - {name: all, from: dir:files, change_list: {rotate: 150ms, entries: 7}, mirrors: 'https://m1.example.org/{path}'}\n" +
		"  - {name: some, from: dir:files/some, uri: '" + base + "some/', change_list: {entries: 4}}\n"
	if err := os.WriteFile(config, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(dir, "files", "some"), 0o777); err != nil {
		t.Fatal(err)
	}
	files := make(map[string]string) // URI to digest
	change := func(n int) {
		for i := range 3 {
			name, content := fmt.Sprintf("f%d", rand.IntN(12)), fmt.Sprint(n, i)
			if rand.IntN(2) == 0 {
				name = "some/" + name
			}
			path := filepath.Join(dir, "files", name)
			if rand.IntN(4) == 0 {
				_ = os.Remove(path) // it may not be there
				delete(files, base+name)
				continue
			}
			if err := os.WriteFile(path, []byte(content), 0o666); err != nil {
				t.Fatal(err)
			}
			files[base+name] = fmt.Sprintf("%x", sha256.Sum256([]byte(content)))
		}
	}
	published := &publishedFiles{TB: t, dir: filepath.Join(dir, "out"), base: base, closed: make(map[string]string)}
	run := func(limit time.Duration) {
		t.Helper()
		cmd := exec.Command("lockstep", "publish", "--config", config, "--out", published.dir, "--gzip", "--allow-empty", "-q")
		var out bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &out
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		killer := time.AfterFunc(limit, func() { _ = cmd.Process.Kill() })
		if err := cmd.Wait(); err != nil && killer.Stop() {
			t.Fatalf("publish: %v\n%s", err, &out)
		}
	}
	change(0)
	run(time.Minute)
	for n := range *publishKills {
		change(n + 1)
		run(time.Duration(rand.IntN(120)) * time.Millisecond)
		published.check()
	}
	run(time.Minute)
	published.check()
	for set, want := range map[string]map[string]string{"all": files, "some": below(files, base+"some/")} {
		if got := published.states[set]; !maps.Equal(got, want) {
			t.Errorf("set %s: published are %v, want %v", set, got, want)
		}
	}
	if len(published.closed) < 3 {
		t.Errorf("only %d parts were ever closed", len(published.closed))
	}
}

func below(files map[string]string, prefix string) map[string]string {
	some := maps.Clone(files)
	maps.DeleteFunc(some, func(uri, _ string) bool { return !strings.HasPrefix(uri, prefix) })
	return some
}

// publishedFiles reads what was published.
type publishedFiles struct {
	testing.TB
	dir, base string
	closed    map[string]string            // closed Change Lists, by address
	states    map[string]map[string]string // of each set; URI to digest
}

func (p *publishedFiles) check() {
	p.Helper()
	p.states = make(map[string]map[string]string)
	_, sets := p.document(p.base + ".well-known/resourcesync")
	for _, set := range sets {
		state := make(map[string]string)
		name, _, _ := strings.Cut(strings.TrimPrefix(set.Loc, p.base+"resourcesync/"), "/")
		p.states[name] = state
		_, documents := p.document(set.Loc)
		var at resourcesync.Datetime
		for _, d := range documents { // the Resource List stands first
			p.walk(d.Loc, state, &at)
		}
	}
}

// walk reads a list, or the parts of an index, and applies it to state.
func (p *publishedFiles) walk(uri string, state map[string]string, at *resourcesync.Datetime) {
	p.Helper()
	h, entries := p.document(uri)
	if h.Capability == resourcesync.ResourceList {
		*at = h.At
	}
	for _, e := range entries {
		switch {
		case h.Index:
			p.walk(e.Loc, state, at)
		case h.Capability == resourcesync.ChangeList && e.Datetime.Compare(*at) < 0:
		case e.Change == resourcesync.Deleted:
			delete(state, e.Loc)
		default:
			state[e.Loc] = fmt.Sprintf("%x", e.Hashes.Get(resourcesync.SHA256))
		}
	}
	if h.Capability == resourcesync.ChangeList && !h.Index && !h.Until.IsZero() {
		data, _ := os.ReadFile(p.path(uri)) // it was read
		if was, ok := p.closed[uri]; ok && was != string(data) {
			p.Errorf("%s was closed as\n%s\nand is\n%s", uri, was, data)
		}
		p.closed[uri] = string(data)
	}
}

func (p *publishedFiles) path(uri string) string {
	return filepath.Join(p.dir, filepath.FromSlash(strings.TrimPrefix(uri, p.base)))
}

// document reads a document, and its compressed variant if it has one.
func (p *publishedFiles) document(uri string) (h resourcesync.Header, entries []resourcesync.Entry) {
	p.Helper()
	for _, name := range []string{p.path(uri) + ".gz", p.path(uri)} {
		f, err := os.Open(name)
		if err != nil {
			if strings.HasSuffix(uri, ".xml") || !strings.HasSuffix(name, ".gz") {
				p.Fatal(err)
			}
			continue
		}
		r := resourcesync.NewReader(f, resourcesync.ReaderOptions{Base: uri, Strict: !strings.HasSuffix(name, ".gz")}) // a compressed document is a liberty
		h, err = r.Header()
		entries = nil
		for e, err1 := range r.Entries() {
			if err1 == nil {
				entries = append(entries, e)
			} else if err == nil {
				err = err1
			}
		}
		_ = f.Close()
		if err != nil {
			p.Fatalf("%s: %v", name, err)
		}
	}
	return h, entries
}
