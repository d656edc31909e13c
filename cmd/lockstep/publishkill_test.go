package main

import (
	"errors"
	"flag"
	"fmt"
	"io/fs"
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
var publishKills = flag.Int("publish-kills", 12, "how often TestPublishKilled kills a publication")

const killedSite = `base_url: http://x.org/
documents: documents
state: state
gzip: true
sets:
  - name: files
    from: dir:files
    uri: http://x.org/files/
    mirrors: https://m.example.org/{path}
    patches: true
    resource_dump: {every: 1ms, package_count: 20}
    change_dump: {every: 1ms, package_count: 10}
    change_list: {entries: 15}
  - name: again
    from: dir:files
    uri: http://x.org/files/
  - name: items
    from: jsonl:items.jsonl
`

// TestPublishKilled kills publications of several sets with dumps at random
// moments, while what they publish changes: after each kill every document that
// can be found names only what is there, and in the end all of it is valid.
func TestPublishKilled(t *testing.T) {
	t.Parallel()
	program, err := exec.LookPath("lockstep")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o777), os.WriteFile(path, []byte(text), 0o666)); err != nil {
			t.Fatal(err)
		}
	}
	write("site.yaml", killedSite)
	change := func(round int) {
		for range 8 {
			write(fmt.Sprintf("files/%d/%d.json", rand.IntN(4), rand.IntN(15)), fmt.Sprintf("{%q: %d, %q: %q}\n", "round", round, "pad", strings.Repeat("x", 4000)))
		}
		_ = os.Remove(filepath.Join(dir, fmt.Sprintf("files/%d/%d.json", rand.IntN(4), rand.IntN(15)))) // if it is there
		write("items.jsonl", fmt.Sprintf("{\"uri\":\"http://x.org/files/0/0.json\",\"length\":%d}\n{\"uri\":\"http://x.org/i/%d\"}\n", round, round%3))
		// A list that has just been written is looked at twice, which takes its time.
		old := time.Now().Add(time.Duration(round-1000) * time.Second)
		if err := os.Chtimes(filepath.Join(dir, "items.jsonl"), old, old); err != nil {
			t.Fatal(err)
		}
	}
	publish := func() *exec.Cmd {
		cmd := exec.Command(program, "publish", "--config", "site.yaml")
		cmd.Dir = dir
		return cmd
	}
	took := time.Second
	for round := range *publishKills {
		change(round)
		cmd := publish()
		if round%8 == 0 { // one that comes to its end
			start := time.Now()
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			took = time.Since(start)
		} else {
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Duration(rand.Int64N(int64(took))))
			_ = cmd.Process.Kill()
			_ = cmd.Wait() // it was killed, or had just ended
		}
		checkNothingDangles(t, filepath.Join(dir, "documents"), "http://x.org/")
		if t.Failed() {
			t.Fatalf("after round %d", round)
		}
	}
	if out, err := publish().CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	checkNothingDangles(t, filepath.Join(dir, "documents"), "http://x.org/")
	checkEmpty(t, filepath.Join(dir, "state", "tmp"))
	validated(t, program, filepath.Join(dir, "documents"))
}

// validated checks all documents in a directory by our own rules, each for
// itself.
func validated(t *testing.T, program, dir string) {
	t.Helper()
	var files []string
	err := filepath.WalkDir(filepath.Join(dir, "resourcesync"), func(path string, d fs.DirEntry, err error) error {
		if err == nil && (strings.HasSuffix(path, ".xml") || strings.HasSuffix(path, ".zip")) {
			files = append(files, path)
		}
		return err
	})
	if err != nil || len(files) == 0 {
		t.Fatalf("%d documents, %v", len(files), err)
	}
	if out, err := exec.Command(program, append([]string{"validate"}, files...)...).CombinedOutput(); err != nil {
		t.Errorf("validate: %v\n%s", err, out)
	}
}

// checkNothingDangles walks the documents below base that lie in dir, from the
// Source Description on, and reports every one that is named and not there.
func checkNothingDangles(t testing.TB, dir, base string) {
	t.Helper()
	w := &documentWalk{TB: t, dir: dir, base: base, seen: map[string]bool{}}
	if w.there(".well-known/resourcesync") { // else it was killed before anything was published
		w.visit(".well-known/resourcesync")
	}
}

// A documentWalk goes from document to document in a directory.
type documentWalk struct {
	testing.TB
	dir, base string
	seen      map[string]bool
}

func (w *documentWalk) there(name string) bool {
	_, err := os.Stat(filepath.Join(w.dir, filepath.FromSlash(name)))
	return err == nil
}

// visit reads the document called name and goes on to those it names.
func (w *documentWalk) visit(name string) {
	w.Helper()
	if w.seen[name] {
		return
	}
	w.seen[name] = true
	f, err := os.Open(filepath.Join(w.dir, filepath.FromSlash(name)))
	if err != nil {
		w.Errorf("named, but not there: %v", err)
		return
	}
	defer func() { _ = f.Close() }() // read only
	if !strings.HasSuffix(name, ".xml") && name != ".well-known/resourcesync" {
		return
	}
	r := resourcesync.NewReader(f, resourcesync.ReaderOptions{})
	header, err := r.Header()
	if err != nil {
		w.Errorf("read %s: %v", name, err)
		return
	}
	for e, err := range r.Entries() {
		if err != nil {
			w.Errorf("read %s: %v", name, err)
			return
		}
		w.follow(name, &header, &e)
	}
}

// follow visits what an entry of a document names, unless it names a resource.
func (w *documentWalk) follow(name string, header *resourcesync.Header, e *resourcesync.Entry) {
	w.Helper()
	switch header.Capability {
	case resourcesync.ResourceList, resourcesync.ChangeList, resourcesync.ResourceDumpManifest, resourcesync.ChangeDumpManifest:
		if header.Index {
			w.visitURI(e.Loc)
		}
	default:
		w.visitURI(e.Loc)
	}
	for _, l := range e.Links {
		switch l.Rel {
		case resourcesync.RelContents:
			w.visitURI(l.Href)
		case resourcesync.RelPatch:
			if rest := strings.TrimPrefix(l.Href, w.base); !w.there(rest) {
				w.Errorf("%s names a patch that is not there: %s", name, rest)
			}
		}
	}
}

func (w *documentWalk) visitURI(uri string) {
	w.Helper()
	if rest, ok := strings.CutPrefix(uri, w.base); ok {
		w.visit(rest)
	} else {
		w.Errorf("%s does not lie below %s", uri, w.base)
	}
}
