//go:build unix

package main

import (
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestStateModes runs the commands that keep state with umasks that let
// everybody in, and nobody: state is 0600 in directories of 0700, while they run
// and afterwards, unfinished downloads included; what is mirrored and published
// has the permissions of the umask.
func TestStateModes(t *testing.T) {
	t.Parallel()
	for _, umask := range []string{"000", "077"} {
		t.Run(umask, func(t *testing.T) {
			t.Parallel()
			newModes(t, umask).run()
		})
	}
}

// A modes runs the program with a umask, and looks at what it leaves.
type modes struct {
	*testing.T
	umask   string
	dir     string
	running []*process // that others started
}

func newModes(t *testing.T, umask string) *modes {
	m := &modes{T: t, umask: umask, dir: t.TempDir()}
	for i := range 3 {
		m.write(fmt.Sprintf("files/%d.txt", i), strings.Repeat("text ", 20_000))
	}
	if err := os.Mkdir(filepath.Join(m.dir, "tmp"), 0o755); err != nil {
		t.Fatal(err)
	}
	m.write("site.yaml", "base_url: http://example.org/\nstate: publish-state\nsets:\n  - {name: files, from: 'dir:files', resource_dump: {}, change_dump: {}}\n")
	return m
}

func (m *modes) write(name, text string) {
	m.Helper()
	path := filepath.Join(m.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		m.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		m.Fatal(err)
	}
}

// command returns the program under the umask.
func (m *modes) command(args ...string) *exec.Cmd {
	program, err := exec.LookPath("lockstep")
	if err != nil {
		m.Fatal(err)
	}
	cmd := exec.Command("/bin/sh", append([]string{"-c", "umask " + m.umask + ` && exec "$0" "$@"`, program}, args...)...)
	cmd.Dir = m.dir
	cmd.Env = append(os.Environ(), "HOME="+m.dir, "XDG_STATE_HOME="+filepath.Join(m.dir, "xdg"), "TMPDIR="+filepath.Join(m.dir, "tmp"),
		"AWS_ACCESS_KEY_ID=k", "AWS_SECRET_ACCESS_KEY=s", "AWS_REGION=us-east-1")
	return cmd
}

func (m *modes) must(args ...string) {
	m.Helper()
	if out, err := m.command(args...).CombinedOutput(); err != nil {
		m.Fatalf("lockstep %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

func (m *modes) start(args ...string) *process {
	m.Helper()
	p, err := startReady(m.command(args...))
	if err != nil {
		m.Fatal(err)
	}
	m.Cleanup(p.kill)
	return p
}

func (m *modes) run() {
	src := m.start("serve", "files", "--listen", "127.0.0.1:0", "--state", "serve-state", "--versions", "--dump")
	m.must("publish", "--config", "site.yaml", "--out", "out")
	m.must("sync", src.address, "mirror", "--keep-versions")
	m.others()
	follow := m.start("follow", src.address, "followed", "--listen", "127.0.0.1:0", "--keep-versions")
	m.start("hub", "--listen", "127.0.0.1:0", "--allow-private")
	m.write("files/0.txt", "other text")
	waitFor(m.T, "the change", func() bool {
		text, err := os.ReadFile(filepath.Join(m.dir, "followed/0.txt"))
		return err == nil && string(text) == "other text"
	})
	m.check("while running")
	if code, err := follow.end(syscall.SIGTERM); err != nil {
		m.Errorf("follow ended with %d, %v", code, err)
	}
	m.must("sync", src.address, "mirror", "--keep-versions")
	m.unfinished()
	for _, p := range m.running {
		if _, err := p.end(syscall.SIGTERM); err != nil {
			m.Error(err)
		}
	}
	m.check("afterwards")
}

// others runs what keeps state besides: sets that programs fill, with their keys;
// mirrors of a repository, of a feed, and in a bucket; a harvest; the simulated
// Source and the demo, which stay.
func (m *modes) others() {
	m.write("api.yaml", "sets:\n  - {name: items, from: api}\n  - {name: files, from: 'dir:files'}\n")
	src := m.start("serve", "--config", "api.yaml", "--listen", "127.0.0.1:0", "--state", "api-state", "--oai-pmh", "--atom-pmh")
	token, err := os.ReadFile(filepath.Join(m.dir, "api-state/admin-token"))
	if err != nil {
		m.Fatal(err)
	}
	put := knock{"PUT", "/-/api/v1/sets/items/resources?uri=https://r.example.org/1", `{"length":1}`,
		map[string]string{"Content-Type": "application/json", "Idempotency-Key": "key", "Authorization": "Bearer " + strings.TrimSpace(string(token))}}
	if status, text, err := put.send(src.address); err != nil || status != http.StatusCreated {
		m.Fatalf("fill a set: %d %s, %v", status, text, err)
	}
	m.must("sync", src.address+"oai?set=files", "oai-mirror")
	m.must("sync", src.address+"resourcesync/files/atom.xml", "feed-mirror")
	m.must("publish", "atom-pmh:"+src.address+"resourcesync/files/atom.xml", "--out", "harvest-out", "--state", "harvest-state", "--base-url", "http://example.org/")
	bucket := newTestBucket(m.T)
	cmd := m.command("sync", src.address, bucket.address(), "--set", "files", "--state", "bucket-state")
	cmd.Env = append(cmd.Env, "AWS_ENDPOINT_URL="+bucket.URL)
	if out, err := cmd.CombinedOutput(); err != nil {
		m.Fatalf("sync into a bucket: %v\n%s", err, out)
	}
	m.running = []*process{src, m.start("simulate", "--listen", "127.0.0.1:0", "--resources", "20", "--dump"), m.start("demo", "--keep")}
	for _, name := range []string{"api-state/admin.sock", "api-state/admin-token", "serve-state/admin.sock", "serve-state/admin-token", "serve-state/hub.key"} {
		if info, err := os.Lstat(filepath.Join(m.dir, name)); err != nil || info.Mode().Perm() != 0o600 {
			m.Errorf("%s: %v, %v, want mode 0600", name, info, err)
		}
	}
	if keys, _ := filepath.Glob(filepath.Join(m.dir, "api-state/*/*/keys-*.log")); len(keys) == 0 {
		m.Error("no record of the keys of requests")
	}
	if found, _ := filepath.Glob(filepath.Join(m.dir, "tmp/lockstep-demo-*/state/catalog.db")); len(found) != 1 {
		m.Errorf("the state of the demo: %v", found)
	}
}

// unfinished kills a sync amid a download.
func (m *modes) unfinished() {
	const list = `<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9" xmlns:rs="http://www.openarchives.org/rs/terms/">` +
		`<rs:md capability="resourcelist" at="2026-01-01T00:00:00Z"/><url><loc>%s/large</loc><rs:md length="10000000"/></url></urlset>`
	stop := make(chan struct{})
	var server *httptest.Server
	server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/large" {
			_, _ = fmt.Fprintf(w, list, server.URL)
			return
		}
		w.Header().Set("Content-Length", "10000000")
		_, _ = w.Write(make([]byte, 1_000_000))
		_ = http.NewResponseController(w).Flush()
		<-stop
	}))
	m.Cleanup(server.Close)
	m.Cleanup(func() { close(stop) })
	cmd := m.command("sync", server.URL+"/resourcelist.xml", "unfinished")
	if err := cmd.Start(); err != nil {
		m.Fatal(err)
	}
	waitFor(m.T, "an unfinished download", func() bool {
		found, _ := filepath.Glob(filepath.Join(m.dir, "unfinished/.lockstep/tmp/*"))
		if len(found) != 1 {
			return false
		}
		info, err := os.Stat(found[0])
		return err == nil && info.Size() > 0
	})
	_ = cmd.Process.Kill() // it hangs until then
	_ = cmd.Wait()
	if found, _ := filepath.Glob(filepath.Join(m.dir, "unfinished/.lockstep/tmp/*")); len(found) == 0 {
		m.Error("nothing unfinished is left to look at")
	}
}

// check looks at everything below the directory.
func (m *modes) check(when string) {
	m.Helper()
	public := fs.FileMode(0o666)
	if m.umask == "077" {
		public = 0o600
	}
	seen := map[string]int{}
	err := filepath.WalkDir(m.dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return nil // it was there a moment ago
		}
		rel, _ := filepath.Rel(m.dir, path)
		top, _, _ := strings.Cut(rel, "/")
		info, err := os.Lstat(path)
		if err != nil || rel == "." || top == "files" || top == "site.yaml" || top == "api.yaml" || rel == "tmp" || top == "bin" {
			return nil
		}
		mode, perm := info.Mode(), info.Mode().Perm()
		if isDemo(rel) && !m.isState(rel) {
			return nil // below a directory that only its owner can enter
		}
		if strings.Contains(rel, "documents/.lockstep/tmp/") && mode.IsRegular() && perm == public {
			return nil // a complete document just before it is published; its directory is private
		}
		if m.isState(rel) {
			seen[top]++
			if perm&0o077 != 0 {
				m.Errorf("%s: %s is %v, others can read it", when, rel, mode)
			}
			if mode.IsDir() && perm != 0o700 || mode.IsRegular() && perm != 0o600 {
				m.Errorf("%s: %s is %v", when, rel, mode)
			}
			return nil
		}
		if mode.IsRegular() && perm != public {
			m.Errorf("%s: %s is %v, want %v: it is no state", when, rel, mode, public)
		}
		if mode.IsDir() && perm != public|public>>2&0o111 {
			m.Errorf("%s: directory %s is %v", when, rel, mode)
		}
		return nil
	})
	if err != nil {
		m.Fatal(err)
	}
	for _, top := range []string{"serve-state", "publish-state", "mirror", "followed", "xdg", "out", "api-state", "oai-mirror", "feed-mirror", "harvest-state", "harvest-out", "bucket-state"} {
		if seen[top] == 0 {
			m.Errorf("%s: no state in %s", when, top)
		}
	}
}

// isState reports whether a path is that of state: all of state directories but
// the documents in them, and .lockstep elsewhere.
func (m *modes) isState(rel string) bool {
	if strings.Contains("/"+rel+"/", "/.lockstep/") {
		return true
	}
	top, below, _ := strings.Cut(rel, "/")
	switch top {
	case "tmp":
		return !isDemo(rel)
	case "bucket-state":
		return true
	case "serve-state", "publish-state", "xdg", "api-state", "harvest-state":
		return below != "documents" && !strings.HasPrefix(below, "documents/")
	}
	return false
}

// isDemo reports whether a path is one of the demo's files that are not state.
func isDemo(rel string) bool {
	parts := strings.Split(rel, "/")
	if len(parts) < 3 || parts[0] != "tmp" || !strings.HasPrefix(parts[1], "lockstep-demo-") {
		return false
	}
	return parts[2] != "state" || len(parts) > 3 && parts[3] == "documents"
}

// TestWideStateNarrowed: state that an older version made with wider modes is
// narrowed when it is opened; a directory that the user made is reported.
func TestWideStateNarrowed(t *testing.T) {
	t.Parallel()
	m := newModes(t, "022")
	address, release, err := holdAddress()
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	src := m.start("serve", "files", "--listen", address, "--state", "serve-state", "--versions")
	m.must("sync", src.address, "mirror", "--keep-versions")
	src.kill()
	widen := func(dir string) {
		t.Helper()
		err := filepath.WalkDir(filepath.Join(m.dir, dir), func(path string, d fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			mode := fs.FileMode(0o644)
			if d.IsDir() {
				mode = 0o755
			}
			return os.Chmod(path, mode)
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	widen("serve-state")
	widen("mirror")
	src = m.start("serve", "files", "--listen", address, "--state", "serve-state", "--versions")
	m.write("files/0.txt", "other text")
	within(t, "the wide directory is reported", func() bool { return strings.Contains(src.stderr.String(), "others can list the state directory") })
	waitFor(t, "the change", func() bool {
		m.must("sync", src.address, "mirror", "--keep-versions")
		text, err := os.ReadFile(filepath.Join(m.dir, "mirror/0.txt"))
		return err == nil && string(text) == "other text"
	})
	for _, path := range []string{
		"serve-state/catalog.db", "serve-state/catalog.db-wal", "serve-state/catalog.db-shm", "serve-state/lock.json", "serve-state/versions", "serve-state/hub.key",
		"serve-state/documents/.lockstep", "mirror/.lockstep", "mirror/.lockstep/state.db", "mirror/.lockstep/tmp", "mirror/.lockstep/versions",
	} {
		if info, err := os.Stat(filepath.Join(m.dir, path)); err != nil || info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s: %v, %v", path, info.Mode(), err)
		}
	}
}
