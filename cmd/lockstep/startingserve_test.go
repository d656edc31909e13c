package main

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
)

// TestServeWhileItsOriginFails: a serve that is starting answers at once that it is,
// and lives. Later its feed cannot be read: that is warned of, and again for another
// cause, and shows in metrics and behind the ok of readiness, while what was published is
// served; and so does that the feed can be read again.
func TestServeWhileItsOriginFails(t *testing.T) {
	t.Parallel()
	const entry = `<entry><id>urn:x:1</id><title>1</title><updated>2024-05-01T00:00:00Z</updated><link href="/r/1" type="text/plain"/></entry>`
	const feed = `<feed xmlns="http://www.w3.org/2005/Atom"><id>urn:x:feed</id><title>F</title><updated>2024-05-01T00:00:00Z</updated>` + entry + `</feed>`
	release := make(chan struct{})
	var down atomic.Int64 // status; 0: it is not
	origin := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/feed" {
			_, _ = io.WriteString(w, "1")
			return
		}
		select {
		case <-release:
		case <-r.Context().Done():
			return
		}
		if status := int(down.Load()); status != 0 {
			http.Error(w, "down", status)
			return
		}
		w.Header().Set("Content-Type", "application/atom+xml")
		_, _ = io.WriteString(w, feed)
	}))
	defer origin.Close()
	state, address := t.TempDir(), freeAddress(t)
	base := "http://" + address + "/"
	cmd := exec.Command("lockstep", "serve", "atom-pmh:"+origin.URL+"/feed", "--listen", address, "--state", filepath.Join(state, "s"), "--scan-interval", "100ms")
	started := make(chan *process, 1)
	go func() {
		p, err := startReady(cmd)
		if err != nil {
			t.Error(err)
		}
		started <- p
	}()
	get := func(path string) (int, string) { return statusOf(http.Get(base + path)) }
	within(t, "alive while it starts", func() bool { status, _ := get("-/healthz"); return status == http.StatusOK })
	for _, path := range []string{"-/readyz", ".well-known/resourcesync", "resourcesync/main/resourcelist.xml"} {
		resp, err := http.Get(base + path)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode != http.StatusServiceUnavailable || resp.Header.Get("Retry-After") == "" {
			t.Errorf("%s while it starts: %s, Retry-After %q", path, resp.Status, resp.Header.Get("Retry-After"))
		}
	}
	close(release)
	p := <-started
	if p == nil {
		return
	}
	defer p.kill()
	if status, text := get("-/readyz"); status != http.StatusOK || strings.Contains(text, "origin") {
		t.Errorf("readiness: %d %s", status, text)
	}
	admin := http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", p.admin)
	}}}
	failing := func(want string) bool {
		_, text := statusOf(admin.Get("http://admin/-/metrics"))
		return strings.Contains(text, `lockstep_source_origin_failing{set="main"} `+want+"\n")
	}
	within(t, "the metric of an origin that can be read", func() bool { return failing("0") })
	down.Store(http.StatusNotFound)
	within(t, "the metric of an origin that cannot be read", func() bool { return failing("1") })
	within(t, "the detail of readiness", func() bool {
		status, text := get("-/readyz")
		return status == http.StatusOK && strings.Contains(text, "set main: its origin cannot be read since ")
	})
	warned := func(status string) bool {
		return strings.Contains(p.stderr.String(), "warning: harvest "+origin.URL+"/feed: ") && strings.Contains(p.stderr.String(), status)
	}
	within(t, "a warning", func() bool { return warned("404") })
	down.Store(http.StatusForbidden)
	within(t, "a warning of another cause", func() bool { return warned("403") })
	if status, _ := get("resourcesync/main/resourcelist.xml"); status != http.StatusOK {
		t.Errorf("what was published is answered with %d", status)
	}
	down.Store(0)
	within(t, "the note that it can be read again", func() bool { return strings.Contains(p.stderr.String(), "set main: its origin can be read again") })
	within(t, "metric and readiness after that", func() bool {
		_, text := get("-/readyz")
		return failing("0") && !strings.Contains(text, "origin")
	})
	if code, err := p.end(syscall.SIGTERM); err != nil || code != exitOK {
		t.Errorf("it ended with %d: %v\n%s", code, err, p.stderr)
	}
}
