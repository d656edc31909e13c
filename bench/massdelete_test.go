//go:build linux

package bench

import (
	"bytes"
	"crypto/sha256"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

var (
	massDeleteResources = flag.Int("massdelete.resources", 2000, "resources of the upstream, all of which are deleted, of BenchmarkMassDelete")
	massDeleteCopy      = flag.Bool("massdelete.copy", true, "the Aggregator has copies of the resources; false: only their descriptions")
	massDeleteServe     = flag.Bool("massdelete.serve", true, "also delete the files of a directory that serve publishes")
	massDeleteBinary    = flag.String("massdelete.lockstep", "", "program to measure; default: built from this module")
)

// BenchmarkMassDelete measures how an Aggregator passes on the deletion of all resources
// of its upstream: the time until its Change List has the last of them, the processor
// time and the memory of the process, and the longest time for which a client waited for
// a document meanwhile. The yardsticks are the same deletions by sync in a mirror of the
// upstream, and in a directory that serve publishes.
func BenchmarkMassDelete(b *testing.B) {
	program := *massDeleteBinary
	if program == "" {
		program = filepath.Join(b.TempDir(), "lockstep")
		if out, err := exec.Command("go", "build", "-o", program, "lockstep/cmd/lockstep").CombinedOutput(); err != nil {
			b.Fatalf("build: %v\n%s", err, out)
		}
	}
	n := *massDeleteResources
	for b.Loop() {
		dir := benchDir(b, "lockstep-massdelete-")
		up := &massDeleteUpstream{resources: n, began: time.Now().UTC()}
		server := httptest.NewServer(up)
		defer server.Close()
		up.base = server.URL

		mirror := filepath.Join(dir, "mirror")
		sync := func() time.Duration {
			start := time.Now()
			if out, err := exec.Command(program, "sync", up.base+"/", mirror, "--max-delete", "100", "-q").CombinedOutput(); err != nil {
				b.Fatalf("sync: %v\n%s", err, out)
			}
			return time.Since(start)
		}
		if *massDeleteCopy {
			sync()
		}
		config := filepath.Join(dir, "config.yaml")
		text := fmt.Sprintf("sets:\n- {name: main, from: 'resourcesync:%s/', poll: 1s, max_delete: 100, copy: %t}\n", up.base, *massDeleteCopy)
		mustDo(b, os.WriteFile(config, []byte(text), 0o600))
		a := startMassDelete(b, program, n, "--config", config, "--state", filepath.Join(dir, "state"))
		up.deleted.Store(true)
		a.report(b, "")
		if *massDeleteCopy {
			b.ReportMetric(sync().Seconds(), "sync-s")
		}

		if *massDeleteServe {
			files := filepath.Join(dir, "files")
			for i := range n {
				name := filepath.Join(files, filepath.FromSlash(massDeletePath(i)))
				if i%1000 == 0 {
					mustDo(b, os.MkdirAll(filepath.Dir(name), 0o777))
				}
				mustDo(b, os.WriteFile(name, []byte(massDeleteContent(i)), 0o666))
			}
			a := startMassDelete(b, program, n, files, "--allow-empty", "--state", filepath.Join(dir, "serve-state"))
			mustDo(b, os.RemoveAll(filepath.Join(files, "r")))
			a.report(b, "serve-")
		}
	}
	b.ReportMetric(0, "ns/op")
}

// A massDeletion is a Source whose resources are deleted.
type massDeletion struct {
	c         *exec.Cmd
	base      string
	resources int
	parts     map[string]int // entries of parts of lists, by address and ETag
	start     time.Time
	used      time.Duration // processor time until then
	slowest   atomic.Int64  // nanoseconds that a client waited at most
	stop      func()
}

// startMassDelete starts a Source, and waits until it has published n resources.
func startMassDelete(b *testing.B, program string, n int, args ...string) *massDeletion {
	b.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	mustDo(b, err)
	address := l.Addr().String()
	_ = l.Close() // only its number is needed
	m := &massDeletion{c: exec.Command(program, append([]string{"serve", "-q", "--listen", address}, args...)...), base: "http://" + address + "/", resources: n, parts: map[string]int{}}
	m.c.Stdout, m.c.Stderr = io.Discard, os.Stderr
	mustDo(b, m.c.Start())
	var done sync.WaitGroup
	ended := make(chan struct{})
	m.stop = sync.OnceFunc(func() {
		close(ended)
		done.Wait()
		_ = m.c.Process.Signal(syscall.SIGTERM) // it may have ended
		_ = m.c.Wait()
	})
	b.Cleanup(m.stop)
	waitFleet(b, m.c, func() bool { return m.entries("resourcelist") == n })
	done.Go(func() {
		for {
			select {
			case <-ended:
				return
			case <-time.After(20 * time.Millisecond):
				start := time.Now()
				massDeleteGet(m.base + "resourcesync/main/capabilitylist.xml")
				m.slowest.Store(max(m.slowest.Load(), int64(time.Since(start))))
			}
		}
	})
	mustDo(b, os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", m.c.Process.Pid), []byte("5"), 0)) // the peak of its memory begins again
	m.start, m.used = time.Now(), m.processorTime(b)
	return m
}

// report waits until all resources are published as deleted, reports the figures, and
// stops the Source.
func (m *massDeletion) report(b *testing.B, prefix string) {
	b.Helper()
	waitFleet(b, m.c, func() bool { return m.entries("changelist") >= m.resources })
	b.ReportMetric(time.Since(m.start).Seconds(), prefix+"s")
	b.ReportMetric((m.processorTime(b) - m.used).Seconds(), prefix+"CPU-s")
	b.ReportMetric(float64(peakMemory(m.c.Process.Pid, m.c.Args))/1e6, prefix+"MB")
	b.ReportMetric(float64(m.slowest.Load())/1e9, prefix+"slowest-s")
	m.stop()
}

// entries returns how many entries a list, or all parts of an index, have.
func (m *massDeletion) entries(list string) (n int) {
	top := massDeleteGet(m.base + "resourcesync/main/" + list + ".xml")
	if !bytes.Contains(top, []byte("<sitemapindex")) {
		return bytes.Count(top, []byte("<url>"))
	}
	for _, loc := range fleetLoc.FindAllSubmatch(top, -1) {
		resp, err := http.Head(string(loc[1]))
		if err != nil {
			return 0
		}
		_ = resp.Body.Close() // empty
		key := string(loc[1]) + resp.Header.Get("ETag")
		if m.parts[key] == 0 {
			m.parts[key] = bytes.Count(massDeleteGet(string(loc[1])), []byte("<url>"))
		}
		n += m.parts[key]
	}
	return n
}

// processorTime returns what the process has used.
func (m *massDeletion) processorTime(b *testing.B) time.Duration {
	b.Helper()
	return processorTimeOf(b, m.c.Process.Pid)
}

// massDeleteGet returns what is at an address; nil if that fails.
func massDeleteGet(uri string) []byte {
	resp, err := http.Get(uri)
	if err != nil {
		return nil
	}
	defer func() { _ = resp.Body.Close() }() // it was read
	data, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		return nil
	}
	return data
}

func mustDo(b *testing.B, err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

// A massDeleteUpstream is a Source whose resources are all there, or all deleted.
type massDeleteUpstream struct {
	base      string
	resources int
	began     time.Time
	deleted   atomic.Bool
}

func massDeletePath(i int) string { return fmt.Sprintf("r/%d/%d.txt", i/1000, i) }

func massDeleteContent(i int) string { return fmt.Sprintf("resource %d\n", i) }

// massDeletePart is how many entries a part of a list has.
const massDeletePart = 50_000

func (u *massDeleteUpstream) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	deleted := u.deleted.Load()
	began := u.began.Format(time.RFC3339Nano)
	var i, part int
	if _, err := fmt.Sscanf(r.URL.Path, "/r/%d/%d.txt", new(int), &i); err == nil {
		if deleted {
			http.NotFound(w, r)
			return
		}
		_, _ = io.WriteString(w, massDeleteContent(i)) // a client that is gone needs no answer
		return
	}
	list, change := "resourcelist", ""
	md := fmt.Sprintf(`<rs:md capability="resourcelist" at="%s" completed="%s"/>`, began, began)
	if strings.HasPrefix(r.URL.Path, "/changelist") {
		list, md = "changelist", fmt.Sprintf(`<rs:md capability="changelist" from="%s"/>`, began)
		change = fmt.Sprintf(`change="deleted" datetime="%s"`, u.began.Add(time.Millisecond).Format(time.RFC3339Nano))
	}
	var text strings.Builder
	switch {
	case r.URL.Path == "/capabilitylist.xml":
		fmt.Fprintf(&text, `%s<rs:md capability="capabilitylist"/><url><loc>%s/resourcelist.xml</loc><rs:md capability="resourcelist"/></url><url><loc>%s/changelist.xml</loc><rs:md capability="changelist"/></url></urlset>`, fleetHead, u.base, u.base)
	case r.URL.Path == "/.well-known/resourcesync":
		fmt.Fprintf(&text, `%s<rs:md capability="description"/><url><loc>%s/capabilitylist.xml</loc><rs:md capability="capabilitylist"/></url></urlset>`, fleetHead, u.base)
	case r.URL.Path == "/changelist.xml" && !deleted:
		fmt.Fprintf(&text, `%s<rs:ln rel="up" href="%s/capabilitylist.xml"/>%s</urlset>`, fleetHead, u.base, md)
	case r.URL.Path == "/"+list+".xml":
		text.WriteString(strings.Replace(fleetHead, "<urlset", "<sitemapindex", 1))
		fmt.Fprintf(&text, `<rs:ln rel="up" href="%s/capabilitylist.xml"/>%s`, u.base, md)
		for part := range (u.resources + massDeletePart - 1) / massDeletePart {
			fmt.Fprintf(&text, `<sitemap><loc>%s/%s-%d.xml</loc></sitemap>`, u.base, list, part)
		}
		text.WriteString("</sitemapindex>")
	default:
		if _, err := fmt.Sscanf(r.URL.Path, "/"+list+"-%d.xml", &part); err != nil {
			http.NotFound(w, r)
			return
		}
		fmt.Fprintf(&text, `%s<rs:ln rel="up" href="%s/capabilitylist.xml"/><rs:ln rel="index" href="%s/%s.xml"/>%s`, fleetHead, u.base, u.base, list, md)
		for i := part * massDeletePart; i < min((part+1)*massDeletePart, u.resources); i++ {
			is := change
			if change == "" {
				body := massDeleteContent(i)
				is = fmt.Sprintf(`hash="sha-256:%x" length="%d"`, sha256.Sum256([]byte(body)), len(body))
			}
			fmt.Fprintf(&text, `<url><loc>%s/%s</loc><rs:md %s/></url>`, u.base, massDeletePath(i), is)
		}
		text.WriteString("</urlset>")
	}
	_, _ = io.WriteString(w, text.String()) // likewise
}
