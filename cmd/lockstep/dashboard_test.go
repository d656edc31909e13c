package main

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A board is the dashboard of a process, on its admin socket.
type board struct {
	t      *testing.T
	client *http.Client
}

func boardOf(t *testing.T, p *process) *board {
	t.Helper()
	if p.admin == "" {
		t.Fatalf("no admin socket: %s", p.out)
	}
	tr := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", p.admin)
	}}
	t.Cleanup(tr.CloseIdleConnections)
	return &board{t, &http.Client{Transport: tr}}
}

// page returns a page.
func (b *board) page(name string) string {
	b.t.Helper()
	resp, err := b.client.Get("http://localhost/-/" + name)
	if err != nil {
		b.t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }() // read only
	text, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		b.t.Fatalf("%s: %s, %v: %s", name, resp.Status, err, text)
	}
	return string(text)
}

// A seen is an overview.
type seen struct {
	State, Summary string
	Activity       []struct {
		Name string
		Day  []struct {
			Count int64
			P95   *float64 `json:"p95_seconds"`
		}
	}
	Errors []struct{ What, Error string }
}

// overview returns the overview.
func (b *board) overview() (o seen) {
	b.t.Helper()
	if err := json.Unmarshal([]byte(b.page("index.json")), &o); err != nil {
		b.t.Fatal(err)
	}
	return o
}

// count returns how much was done of an activity in the last day.
func (o *seen) count(name string) (n int64) {
	for _, a := range o.Activity {
		for _, step := range a.Day {
			if a.Name == name {
				n += step.Count
			}
		}
	}
	return n
}

// await waits until the overview is as it should be.
func (b *board) await(what string, ok func(*seen) bool) {
	b.t.Helper()
	var o seen
	for deadline := time.Now().Add(readyLimit); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		if o = b.overview(); ok(&o) {
			return
		}
	}
	b.t.Fatalf("%s: %+v", what, o)
}

// TestDashboards: a Source with a hub, and a mirror that follows it, show what they do on
// their admin sockets, in the words of the command status, and nowhere else; a Source that was
// restarted knows what it did before.
func TestDashboards(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	files, state, mirror := filepath.Join(dir, "files"), filepath.Join(dir, "state"), filepath.Join(dir, "mirror")
	if err := os.Mkdir(files, 0o755); err != nil {
		t.Fatal(err)
	}
	write := func(name string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(files, name), []byte(name), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("a.txt")
	start := func(args ...string) *process {
		t.Helper()
		p, err := startReady(exec.Command("lockstep", args...))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(p.kill)
		return p
	}
	source := start("serve", files, "--listen", "127.0.0.1:0", "--state", state, "--hub-allow-private")
	follower := start("follow", source.address, mirror)
	b, m := boardOf(t, source), boardOf(t, follower)

	const requests = 20
	for range requests {
		resp, err := http.Get(source.address + "a.txt")
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close() // it is not read
	}
	write("b.txt")
	m.await("the mirror shows the change and its delay", func(o *seen) bool { return o.State == "ok" && o.count("changes") == 2 })
	b.await("the Source shows requests and the change", func(o *seen) bool { return o.count("requests") >= requests && o.count("changes") > 0 })
	waitFor(t, "a mirror in step without pending changes on its page", func() bool {
		page := m.page("")
		return strings.Contains(page, "in step with "+source.address+" as of ") && strings.Contains(page, "; 0 pending; following into ")
	})
	resp, err := http.PostForm(source.address+"hub", url.Values{"hub.mode": {"subscribe"}, "hub.topic": {source.address + "resourcesync/main/changes"}, "hub.callback": {"http://127.0.0.1:1/secret-path"}})
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close() // its status is what counts
	if page := b.page("subscribers"); resp.StatusCode != http.StatusAccepted || strings.Contains(page, "secret-path") {
		t.Errorf("%s; subscribers:\n%s", resp.Status, page)
	}

	token, err := os.ReadFile(filepath.Join(state, "admin-token"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"", "sets", "subscribers", "errors", "activity", "events", "index.json", "sets.json"} {
		req, err := http.NewRequest(http.MethodGet, source.address+"-/"+name, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(token)))
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close() // its status is what counts
		if resp.StatusCode != http.StatusNotFound {
			t.Errorf("the public listener answers -/%s: %s", name, resp.Status)
		}
	}

	before := b.overview()
	if code, err := source.end(syscall.SIGTERM); code != 130 && code != 0 || err != nil {
		t.Fatalf("exit code %d, %v\n%s", code, err, source.stderr)
	}
	m.await("the mirror shows that the Source is gone, and what to do", func(o *seen) bool {
		return o.State == "failing" && len(o.Errors) > 0 && strings.Contains(o.Errors[0].Error, "connect")
	})
	again := start("serve", files, "--listen", "127.0.0.1:0", "--state", state, "--base-url", source.address)
	after := boardOf(t, again).overview()
	if n, want := after.count("requests"), before.count("requests"); n < want {
		t.Errorf("after a restart there were %d requests, want %d", n, want)
	}
	if n, want := after.count("changes"), before.count("changes"); n != want {
		t.Errorf("after a restart %d changes were published, want %d", n, want)
	}
}
