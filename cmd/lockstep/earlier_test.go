package main

import (
	"archive/tar"
	"bytes"
	"cmp"
	"compress/gzip"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"lockstep/destination"
)

// earlierProgram makes the fixtures of these tests again, with another program:
//
//	go test ./cmd/lockstep -run TestMakeEarlier -earlier.program /path/to/lockstep -earlier.name NAME
var (
	earlierProgram = flag.String("earlier.program", "", "a lockstep with which TestMakeEarlier makes state directories and published trees")
	earlierName    = flag.String("earlier.name", "", "what TestMakeEarlier calls them: testdata/earlier/NAME.tar.gz")
)

// earlierSource is the address of the Source in the fixtures. Tests answer for
// it as a proxy, so that no fixture depends on a free port.
const earlierSource = "http://collection.example/"

// The fixtures, all of one collection:
//
//	collection/      the files, as they were at the end
//	published/       what publish wrote of them, in two publications
//	source/          the state of publish
//	served/          the state of serve: versions kept, an OAI-PMH repository
//	mirror/          what sync made of it: first whole, then changes; one resource is pending
//	mirror-versions/ the same with --keep-versions, up to the first publication
//	mirror-feed/     a mirror of the Atom-PMH feed
//	mirror-follow/   a mirror that follow kept in step with serve
//	hub/             the state of a hub
//
// earlierPending is the resource that the Source refused when the mirrors were
// made.
const earlierPending = "pending.txt"

// Files of the collection: before and after the first publication.
var (
	earlierFirst = map[string]string{
		"one.txt": "one, first version\n", "two.txt": "two, only version\n", "gone.txt": "deleted later\n",
		"dir/three.txt": "three, first version\n", "dir/ü mlaut & 100%.txt": "odd name\n", "dir/A.txt": "upper case\n", "dir/a.txt": "lower case\n",
		"becomes": "a file, later a directory\n", "data.json": `{"version": 1, "list": [1, 2, 3]}` + "\n",
	}
	earlierSecond = map[string]string{
		"one.txt": "one, second version\n", "dir/three.txt": "three, second version\n", "four.txt": "four\n",
		"data.json": `{"version": 2, "list": [1, 2, 3]}` + "\n", earlierPending: "refused at first\n",
	}
)

// TestMakeEarlier writes the fixtures. It does nothing without -earlier.program.
func TestMakeEarlier(t *testing.T) {
	if *earlierProgram == "" || *earlierName == "" {
		t.Skip("fixtures are made with -earlier.program and -earlier.name")
	}
	dir := t.TempDir()
	src := newEarlierProxy(t, dir)
	in := func(name string) string { return filepath.Join(dir, name) }
	run := func(code int, args ...string) {
		t.Helper()
		cmd := exec.Command(*earlierProgram, args...)
		cmd.Env = append(os.Environ(), "HOME="+in("home"))
		out, err := cmd.CombinedOutput()
		if got, err := exitCodeOf(err); got != code || err != nil {
			t.Fatalf("%s: exit %d, %v\n%s", cmd, got, err, out)
		}
	}
	publish := func() {
		run(0, "publish", in("collection"), "--out", in("published"), "--base-url", earlierSource,
			"--state", in("source"), "--dump", "--atom-pmh")
	}
	writeCollection(t, in("collection"), earlierFirst)
	publish()
	feed := "atom-pmh:" + earlierSource + "resourcesync/main/atom.xml"
	run(0, "sync", earlierSource, in("mirror"), "--proxy", src.url)
	run(0, "sync", earlierSource, in("mirror-versions"), "--proxy", src.url, "--keep-versions")
	run(0, "sync", feed, in("mirror-feed"), "--proxy", src.url)

	address := freeAddress(t)
	s, err := startReady(exec.Command(*earlierProgram, "serve", in("collection"), "--listen", address, "--base-url", earlierSource,
		"--state", in("served"), "--versions", "--oai-pmh", "--atom-pmh", "--dump"))
	if err != nil {
		t.Fatal(err)
	}
	src.passTo("http://" + address)
	follow, err := startReady(exec.Command(*earlierProgram, "follow", earlierSource, in("mirror-follow"), "--proxy", src.url, "--listen", "127.0.0.1:0"))
	if err != nil {
		t.Fatal(err)
	}
	eventually := func(what string, ok func() bool) { t.Helper(); waitFor(t, what, ok) }
	eventually("the first version", func() bool { return fileText(in("mirror-follow/one.txt")) == earlierFirst["one.txt"] })

	writeCollection(t, in("collection"), earlierSecond)
	if err := os.Remove(in("collection/gone.txt")); err != nil {
		t.Fatal(err)
	}
	eventually("the second version", func() bool { return fileText(in("mirror-follow/four.txt")) == earlierSecond["four.txt"] })
	for _, p := range []*process{follow, s} {
		if _, err := p.end(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
	}
	src.passTo("")
	publish()
	src.refuse(earlierPending)
	run(1, "sync", earlierSource, in("mirror"), "--proxy", src.url)
	hub, err := startReady(exec.Command(*earlierProgram, "hub", "--listen", "127.0.0.1:0", "--state", in("hub"), "--allow-private"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := hub.end(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(in("home")); err != nil {
		t.Fatal(err)
	}
	packTree(t, dir, filepath.Join("testdata", "earlier", *earlierName+".tar.gz"))
}

// TestEarlier opens state directories, mirrors and published trees of earlier
// versions with this one.
func TestEarlier(t *testing.T) {
	t.Parallel()
	program, err := exec.LookPath("lockstep") // the test binary under this name, by testscript
	if err != nil {
		t.Fatal(err)
	}
	packed, err := filepath.Glob("testdata/earlier/*.tar.gz")
	if err != nil || len(packed) == 0 {
		t.Fatalf("fixtures: %v, %v", packed, err)
	}
	for _, file := range packed {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".tar.gz"), func(t *testing.T) {
			t.Parallel()
			for _, tt := range []struct {
				name string
				test func(*testing.T, *earlier)
			}{
				{"OldMirrorOldSource", oldMirrorOldSource},
				{"OldMirrorNewSource", oldMirrorNewSource},
				{"NewMirrorOldSource", newMirrorOldSource},
				{"OldMirrorKeepsVersions", oldMirrorKeepsVersions},
				{"OldFeedMirror", oldFeedMirror},
				{"OldFollower", oldFollower},
				{"OldServer", oldServer},
				{"OldHub", oldHub},
			} {
				t.Run(tt.name, func(t *testing.T) {
					t.Parallel()
					dir := t.TempDir()
					unpackTree(t, file, dir)
					tt.test(t, &earlier{TB: t, dir: dir, program: program, src: newEarlierProxy(t, dir)})
				})
			}
		})
	}
}

// oldMirrorOldSource: a mirror continues where it was. It fetches what is
// pending and nothing else.
func oldMirrorOldSource(t *testing.T, e *earlier) {
	r := e.sync(earlierSource, "mirror")
	if r.Created != 1 || r.Updated != 0 || r.Deleted != 0 {
		t.Errorf("created %d, updated %d, deleted %d, want the pending resource only", r.Created, r.Updated, r.Deleted)
	}
	if got := e.src.fetched(); got != 1 {
		t.Errorf("%d resources were fetched, want 1", got)
	}
	e.checkMirror("mirror")
	e.run(0, "audit", earlierSource, e.in("mirror"), "--content", "--proxy", e.src.url)
}

// oldMirrorNewSource: the Source goes on publishing with this version, from its
// old state, and both old and new mirrors follow its changes.
func oldMirrorNewSource(t *testing.T, e *earlier) {
	list := e.in("published/resourcesync/main/changelist.xml")
	if text := fileText(list); !strings.Contains(text, "gone.txt") {
		t.Fatalf("the fixture's Change List does not name the deletion:\n%s", text)
	}
	writeCollection(t, e.in("collection"), map[string]string{"one.txt": "one, third version\n", "five.txt": "five\n"})
	if err := os.Remove(e.in("collection/two.txt")); err != nil {
		t.Fatal(err)
	}
	e.publish()
	if text := fileText(list); !strings.Contains(text, "gone.txt") || !strings.Contains(text, "five.txt") {
		t.Errorf("the Change List does not continue:\n%s", text)
	}
	validated(t, e.program, e.in("published"))
	if r := e.sync(earlierSource, "mirror"); r.Created != 2 || r.Updated != 1 || r.Deleted != 1 || r.Mode != destination.ModeIncremental {
		t.Errorf("%s: created %d, updated %d, deleted %d, want an incremental synchronization with 2, 1 and 1", r.Mode, r.Created, r.Updated, r.Deleted)
	}
	e.checkMirror("mirror")
	e.sync(earlierSource, "new")
	e.checkMirror("new")
}

// newMirrorOldSource: this version mirrors what an earlier one published.
func newMirrorOldSource(t *testing.T, e *earlier) {
	if r := e.sync(earlierSource, "new"); r.Mode != destination.ModeBaseline {
		t.Errorf("mode %s, want a baseline", r.Mode)
	}
	e.checkMirror("new")
	if r := e.sync(earlierSource, "new"); r.Mode != destination.ModeNone {
		t.Errorf("mode %s with nothing changed, want none", r.Mode)
	}
}

// oldMirrorKeepsVersions: what an earlier version kept of replaced files is
// still there.
func oldMirrorKeepsVersions(t *testing.T, e *earlier) {
	now := time.Now()
	e.sync(earlierSource, "mirror-versions")
	e.checkMirror("mirror-versions")
	e.run(0, "sync", e.in("mirror-versions"), e.in("then"), "--at", now.UTC().Format(time.RFC3339Nano))
	if got := fileText(e.in("then/one.txt")); got != earlierFirst["one.txt"] {
		t.Errorf("one.txt as it was: %q, want %q", got, earlierFirst["one.txt"])
	}
}

// oldFeedMirror: a mirror of a feed continues from its harvest state.
func oldFeedMirror(t *testing.T, e *earlier) {
	r := e.sync("atom-pmh:"+earlierSource+"resourcesync/main/atom.xml", "mirror-feed")
	if r.Created != 2 || r.Updated != 3 || r.Deleted != 1 {
		t.Errorf("created %d, updated %d, deleted %d, want 2, 3 and 1", r.Created, r.Updated, r.Deleted)
	}
	e.checkMirror("mirror-feed")
}

// oldFollower: follow continues with a mirror that it kept before, beside a
// serve that continues too.
func oldFollower(t *testing.T, e *earlier) {
	defer e.end(e.serve())
	p := e.start("follow", earlierSource, e.in("mirror-follow"), "--proxy", e.src.url, "--listen", "127.0.0.1:0", "--poll", "1s")
	writeCollection(t, e.in("collection"), map[string]string{"five.txt": "five\n"})
	waitFor(t, "the new file", func() bool { return fileText(e.in("mirror-follow/five.txt")) == "five\n" })
	e.end(p)
	e.checkMirror("mirror-follow")
}

// oldServer: serve continues its Change List, and still has the versions that
// an earlier one kept.
func oldServer(t *testing.T, e *earlier) {
	defer e.end(e.serve())
	writeCollection(t, e.in("collection"), map[string]string{"five.txt": "five\n"})
	waitFor(t, "the new file in the Change List", func() bool {
		text, err := get(e.server + "/resourcesync/main/changelist.xml")
		return err == nil && strings.Contains(text, "five.txt") && strings.Contains(text, "gone.txt")
	})
	text, err := get(e.server + "/timemap/" + earlierSource + "one.txt")
	if err != nil || strings.Count(text, "memento\"") < 2 {
		t.Errorf("the TimeMap of one.txt does not list both versions: %v\n%s", err, text)
	}
}

// oldHub: a hub starts with the state of an earlier one.
func oldHub(t *testing.T, e *earlier) {
	e.end(e.start("hub", "--listen", "127.0.0.1:0", "--state", e.in("hub"), "--allow-private"))
}

// An earlier is one unpacked set of fixtures and the program that opens it.
type earlier struct {
	testing.TB
	dir, program string
	src          *earlierProxy
	server       string // address of serve, if it runs
}

func (e *earlier) in(name string) string { return filepath.Join(e.dir, filepath.FromSlash(name)) }

func (e *earlier) run(code int, args ...string) []byte {
	e.Helper()
	cmd := exec.Command(e.program, args...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if got, err := exitCodeOf(err); got != code || err != nil {
		e.Fatalf("%s: exit %d, want %d; %v\n%s%s", strings.Join(args, " "), got, code, err, out, &stderr)
	}
	return out
}

func (e *earlier) start(args ...string) *process {
	e.Helper()
	p, err := startReady(exec.Command(e.program, args...))
	if err != nil {
		e.Fatal(err)
	}
	e.Cleanup(p.kill)
	return p
}

func (e *earlier) end(p *process) {
	e.Helper()
	if _, err := p.end(syscall.SIGTERM); err != nil {
		e.Errorf("%v\n%s", err, p.stderr)
	}
}

// serve starts a Source with the fixture's state, for which the proxy answers.
func (e *earlier) serve() *process {
	e.Helper()
	address := freeAddress(e)
	p := e.start("serve", e.in("collection"), "--listen", address, "--base-url", earlierSource,
		"--state", e.in("served"), "--versions", "--oai-pmh", "--atom-pmh", "--dump")
	e.server = "http://" + address
	e.src.passTo(e.server)
	return p
}

func (e *earlier) publish() {
	e.Helper()
	e.run(0, "publish", e.in("collection"), "--out", e.in("published"), "--base-url", earlierSource,
		"--state", e.in("source"), "--dump", "--atom-pmh")
}

// sync synchronizes the mirror and returns the report.
func (e *earlier) sync(source, mirror string) destination.Report {
	e.Helper()
	var r destination.Report
	if err := json.Unmarshal(e.run(0, "sync", source, e.in(mirror), "--proxy", e.src.url, "--json"), &r); err != nil {
		e.Fatal(err)
	}
	return r
}

// checkMirror compares a mirror with the files of the collection. File names of
// a mirror are those of the collection where no character needs an escape.
func (e *earlier) checkMirror(mirror string) {
	e.Helper()
	want, err := contents(e.in("collection"))
	if err != nil {
		e.Fatal(err)
	}
	got, err := contents(e.in(mirror))
	if err != nil {
		e.Fatal(err)
	}
	for _, files := range []map[string]string{got, want} { // its name in a mirror is tested elsewhere
		maps.DeleteFunc(files, func(name, text string) bool { return text == "odd name\n" })
	}
	if !maps.Equal(got, want) {
		e.Errorf("%s differs from the collection:\n%s", mirror, difference(got, want))
	}
}

// An earlierProxy is an HTTP proxy that answers for the fixtures' Source, from
// the published tree and the collection, or from a serve that runs.
type earlierProxy struct {
	url string
	dir string

	mu        sync.Mutex // guards what follows
	refused   string
	server    *httputil.ReverseProxy // nil: files
	resources int
}

func newEarlierProxy(t testing.TB, dir string) *earlierProxy {
	t.Helper()
	p := &earlierProxy{dir: dir}
	srv := httptest.NewServer(p)
	t.Cleanup(srv.Close)
	p.url = srv.URL
	return p
}

// refuse has requests for the resource name answered with 503.
func (p *earlierProxy) refuse(name string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.refused = name
}

// passTo has all requests answered by the server at address; by files if empty.
func (p *earlierProxy) passTo(address string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.server = nil
	if target, err := url.Parse(address); err == nil && address != "" {
		p.server = httputil.NewSingleHostReverseProxy(target)
	}
}

// fetched returns how many resources were served from files.
func (p *earlierProxy) fetched() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.resources
}

func (p *earlierProxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	refused, server := p.refused, p.server
	p.mu.Unlock()
	name := strings.TrimPrefix(r.URL.Path, "/")
	switch {
	case r.URL.Host != "collection.example":
		http.Error(w, "no such host", http.StatusBadGateway)
	case server != nil:
		server.ServeHTTP(w, r)
	case name == refused && name != "":
		http.Error(w, "not now", http.StatusServiceUnavailable)
	case fileExists(filepath.Join(p.dir, "published", filepath.FromSlash(name))):
		http.ServeFileFS(w, r, os.DirFS(filepath.Join(p.dir, "published")), name)
	case fileExists(filepath.Join(p.dir, "collection", filepath.FromSlash(name))):
		p.mu.Lock()
		p.resources++
		p.mu.Unlock()
		http.ServeFileFS(w, r, os.DirFS(filepath.Join(p.dir, "collection")), name)
	default:
		http.NotFound(w, r)
	}
}

func fileExists(path string) bool {
	fi, err := os.Stat(path)
	return err == nil && fi.Mode().IsRegular()
}

// fileText returns the text of a file, empty if there is none.
func fileText(path string) string {
	text, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err.Error()
	}
	return string(text)
}

// writeCollection writes files below dir, each visible as a whole.
func writeCollection(t testing.TB, dir string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		path := filepath.Join(dir, filepath.FromSlash(name))
		side := dir + ".new"
		if err := cmp.Or(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(side, []byte(text), 0o644), os.Rename(side, path)); err != nil {
			t.Fatal(err)
		}
	}
}

// packTree writes the files below dir to a compressed archive, with their
// modification times.
func packTree(t testing.TB, dir, name string) {
	t.Helper()
	var b bytes.Buffer
	z, _ := gzip.NewWriterLevel(&b, gzip.BestCompression) // the level exists
	tw := tar.NewWriter(z)
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() && !d.IsDir() {
			return err
		}
		fi, err := d.Info()
		if err != nil {
			return err
		}
		h, err := tar.FileInfoHeader(fi, "")
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		h.Name, h.Format, h.Uname, h.Gname, h.Uid, h.Gid = filepath.ToSlash(rel), tar.FormatPAX, "", "", 0, 0
		h.AccessTime, h.ChangeTime = time.Time{}, time.Time{}
		if d.IsDir() {
			h.Name += "/"
		}
		if err := tw.WriteHeader(h); err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		_, err = tw.Write(text)
		return err
	})
	if err := cmp.Or(err, tw.Close(), z.Close(), os.MkdirAll(filepath.Dir(name), 0o755), os.WriteFile(name, b.Bytes(), 0o644)); err != nil {
		t.Fatal(err)
	}
}

// unpackTree unpacks what packTree wrote.
func unpackTree(t testing.TB, name, dir string) {
	t.Helper()
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	for tr := tar.NewReader(z); ; {
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(dir, filepath.FromSlash(h.Name))
		if h.Typeflag == tar.TypeDir {
			err = os.MkdirAll(path, h.FileInfo().Mode())
		} else {
			err = unpackFile(tr, path, h)
		}
		if err != nil {
			t.Fatal(fmt.Errorf("unpack %s: %w", h.Name, err))
		}
	}
}

func unpackFile(r io.Reader, path string, h *tar.Header) error {
	text, err := io.ReadAll(r)
	if err != nil {
		return err
	}
	return cmp.Or(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, text, h.FileInfo().Mode()), os.Chtimes(path, h.ModTime, h.ModTime))
}
