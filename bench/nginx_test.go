//go:build linux

package bench

import (
	"bytes"
	"crypto/rand"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"syscall"
	"testing"
	"time"

	"lockstep/internal/freeport"
)

// wrkSeconds is how long each measurement lasts.
const wrkSeconds = 3

// BenchmarkServeNginx sets `lockstep serve` beside nginx on the same files, as
// processes under the load of wrk, in turn: resources of 4 KB, a document as it
// is, and compressed. The ratios are of medians of three. Then a thousand
// connections ask ours, and its memory is read.
func BenchmarkServeNginx(b *testing.B) {
	needs(b, "nginx", "wrk")
	dir := benchDir(b, "lockstep-serve-*")
	script := filepath.Join(dir, "files.lua")
	files := filepath.Join(dir, "files")
	if err := os.Mkdir(files, 0o777); err != nil {
		b.Fatal(err)
	}
	for i := range *serveFiles {
		body := make([]byte, 4096)
		_, _ = rand.Read(body) // never fails
		if err := os.WriteFile(filepath.Join(files, fmt.Sprintf("file-%05d.bin", i)), body, 0o666); err != nil {
			b.Fatal(err)
		}
	}
	lua := fmt.Sprintf("local i=0\nrequest=function() i=i+1; return wrk.format('GET', string.format('/file-%%05d.bin', i%%%d)) end\n", *serveFiles)
	if err := os.WriteFile(script, []byte(lua), 0o666); err != nil {
		b.Fatal(err)
	}
	program := filepath.Join(dir, "lockstep")
	if out, err := exec.Command("go", "build", "-o", program, "lockstep/cmd/lockstep").CombinedOutput(); err != nil {
		b.Fatalf("%v: %s", err, out)
	}
	state := filepath.Join(dir, "state")
	ours := startAPI(b, exec.Command(program, "serve", files, "-q", "--listen", "127.0.0.1:0", "--state", state))
	defer ours.stop(b)
	theirs := startNginx(b, dir, files, filepath.Join(state, "documents"))
	list := "resourcesync/main/resourcelist.xml"
	for b.Loop() {
		for _, m := range []struct {
			name, path string
			args       []string
		}{
			{"resource", "", []string{"-s", script}},
			{"document", list, nil},
			{"document-gzip", list, []string{"-H", "Accept-Encoding: gzip"}},
		} {
			var us, them []float64
			for range 3 {
				us = append(us, wrk(b, 32, ours.base+m.path, m.args...))
				them = append(them, wrk(b, 32, theirs+m.path, m.args...))
			}
			b.ReportMetric(median(us), m.name+"/s")
			b.ReportMetric(median(us)/median(them), m.name+"/nginx")
		}
		wrk(b, 1000, ours.base, "-s", script)
		first := peakMemory(ours.cmd.Process.Pid, ours.cmd.Args)
		wrk(b, 1000, ours.base, "-s", script)
		last := peakMemory(ours.cmd.Process.Pid, ours.cmd.Args)
		b.ReportMetric(float64(last)/1e6, "1000-connections-MB")
		b.ReportMetric(float64(last-first)/1e6, "growth-MB")
	}
}

var wrkRate = regexp.MustCompile(`Requests/sec:\s+([0-9.]+)`)

// wrk returns how many requests a second were answered, all of them well.
func wrk(b *testing.B, connections int, address string, args ...string) float64 {
	b.Helper()
	args = append([]string{"-t2", "-c" + strconv.Itoa(connections), fmt.Sprintf("-d%ds", wrkSeconds)}, args...)
	out, err := exec.Command("wrk", append(args, address)...).CombinedOutput()
	m := wrkRate.FindSubmatch(out)
	if err != nil || m == nil || bytes.Contains(out, []byte("Non-2xx")) || bytes.Contains(out, []byte("Socket errors")) {
		b.Fatalf("wrk %s: %v\n%s", address, err, out)
	}
	rate, _ := strconv.ParseFloat(string(m[1]), 64) // digits and dots
	return rate
}

// startNginx serves files, and documents with compressed variants, and returns
// where.
func startNginx(b *testing.B, dir, files, documents string) string {
	b.Helper()
	list := filepath.Join(documents, "resourcesync", "main", "resourcelist.xml")
	text, err := os.ReadFile(list)
	if err != nil {
		b.Fatal(err)
	}
	docs := filepath.Join(dir, "nginx-documents")
	if err := os.CopyFS(docs, os.DirFS(documents)); err != nil {
		b.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(docs, "resourcesync", "main", "resourcelist.xml.gz"), compressed(text), 0o666); err != nil {
		b.Fatal(err)
	}
	address, err := freeport.Address(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	runNginx(b, dir, address, fmt.Sprintf("  server { listen %s; root %s; location /resourcesync/ { root %s; gzip_static on; } }\n", address, files, docs))
	return "http://" + address + "/"
}

// runNginx runs nginx with the servers that the configuration describes until the test
// ends. It returns when connections are accepted at address.
func runNginx(b *testing.B, dir, address, servers string) {
	b.Helper()
	conf := filepath.Join(dir, "nginx.conf")
	config := fmt.Sprintf(`worker_processes auto; worker_rlimit_nofile 8192; daemon off; user root;
pid %[1]s/nginx.pid; error_log %[1]s/nginx.log;
events { worker_connections 4096; }
http { access_log off; sendfile on; tcp_nopush on; keepalive_requests 100000000; types { application/xml xml; }
%[2]s}
`, dir, servers)
	if err := os.WriteFile(conf, []byte(config), 0o666); err != nil {
		b.Fatal(err)
	}
	c := exec.Command("nginx", "-p", dir, "-c", conf)
	c.Stderr = os.Stderr
	if err := c.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		_ = c.Process.Signal(syscall.SIGTERM)
		_ = c.Wait() // ended by us
	})
	for range 100 {
		if conn, err := net.Dial("tcp", address); err == nil {
			_ = conn.Close()
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
	b.Fatal("nginx does not answer")
}
