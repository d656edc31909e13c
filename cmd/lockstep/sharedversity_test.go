//go:build unix

package main

import (
	"io"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"lockstep/internal/freeport"
)

// realBuckets has the world use a real S3 service, or skips the test.
func (w *sharedWorld) realBuckets() {
	t := w.t
	t.Helper()
	program, err := exec.LookPath("versitygw")
	if err != nil {
		t.Skip("versitygw is not installed: go install -modfile=tools/go.mod github.com/versity/versitygw/cmd/versitygw")
	}
	address, err := freeport.Address(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "copies"), 0o755); err != nil {
		t.Fatal(err)
	}
	env := bucketEnv(w.URL)
	c := exec.Command(program, "--port", address, "--access", env["AWS_ACCESS_KEY_ID"], "--secret", env["AWS_SECRET_ACCESS_KEY"], "--quiet", "--keep-alive", "posix", dir)
	c.Stdout, c.Stderr = io.Discard, io.Discard
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = c.Process.Kill() // it has no other task
		_ = c.Wait()         // it was killed
	})
	waitFor(t, "versitygw", func() bool {
		r, err := http.Get("http://" + address)
		return err == nil && r.Body.Close() == nil
	})
	target := &url.URL{Scheme: "http", Host: address}
	proxy := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(target)
		r.Out.Host = r.In.Host // is signed
	}}
	w.Config.Handler = proxy
}

// The same with a real S3 service: two processes complete a mirror, of which one is killed in
// the first run.
func TestSharedVersity(t *testing.T) {
	t.Parallel()
	w := newSharedWorld(t, 400)
	w.realBuckets()
	one, two := w.start("sync", "-q", "--rate", "100"), w.start("sync", "-q", "--rate", "100")
	time.Sleep(2 * time.Second)
	if err := one.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	w.end(one)
	if code := w.end(two); code != exitOK {
		t.Fatalf("exit code %d\n%s", code, two.err.String())
	}
	if code, out := w.run(t, time.Minute, "audit", "-q", "--content", w.src.URL+"/resourcelist.xml", w.address(), "--state", w.state); code != exitOK {
		t.Errorf("audit: exit code %d\n%s", code, out)
	}
	one, two = w.start("sync", "-q"), w.start("sync", "-q")
	if w.end(one) != exitOK || w.end(two) != exitOK {
		t.Errorf("the second run\n%s\n%s", one.err.String(), two.err.String())
	}
	if more := w.src.total() - 400; more > 300 {
		t.Errorf("%d requests were repeated", more)
	}
}
