package main

import (
	"encoding/pem"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"lockstep/cmd/lockstep/internal/hubserver"
	"lockstep/storage/postgres/postgrestest"
)

// A databaseGate is a way to a database that a test can close.
type databaseGate struct {
	listener net.Listener
	socket   string

	mu     sync.Mutex // guards the rest
	change *sync.Cond
	way    gateWay
	conns  map[net.Conn]bool
}

type gateWay int

const (
	gateOpen gateWay = iota
	gateHeld         // connections are accepted, and nothing is answered
	gateShut         // connections are closed
)

// newDatabaseGate returns a gate, and the address of the database behind it.
func newDatabaseGate(t *testing.T, database string, way gateWay) (*databaseGate, string) {
	t.Helper()
	u, err := url.Parse(database)
	if err != nil {
		t.Fatal(err)
	}
	q := u.Query()
	g := &databaseGate{socket: filepath.Join(q.Get("host"), ".s.PGSQL.5432"), way: way, conns: map[net.Conn]bool{}}
	g.change = sync.NewCond(&g.mu)
	if g.listener, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = g.listener.Close(); g.set(gateShut) })
	go func() {
		for {
			c, err := g.listener.Accept()
			if err != nil {
				return // closed
			}
			go g.pass(c)
		}
	}()
	q.Del("host")
	u.Host, u.RawQuery = g.listener.Addr().String(), q.Encode()
	return g, u.String()
}

// pass passes a connection on once the gate is open.
func (g *databaseGate) pass(in net.Conn) {
	defer func() { _ = in.Close() }()
	g.mu.Lock()
	for g.way == gateHeld {
		g.change.Wait()
	}
	if g.way == gateShut {
		g.mu.Unlock()
		return
	}
	out, err := net.Dial("unix", g.socket)
	if err != nil {
		g.mu.Unlock()
		return
	}
	g.conns[in], g.conns[out] = true, true
	g.mu.Unlock()
	defer func() { _ = out.Close() }()
	go func() { _, _ = io.Copy(out, in) }() // until either end closes
	_, _ = io.Copy(in, out)
	g.mu.Lock()
	delete(g.conns, in)
	delete(g.conns, out)
	g.mu.Unlock()
}

// set opens or closes the gate; shutting it ends all connections.
func (g *databaseGate) set(way gateWay) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.way = way
	g.change.Broadcast()
	if way == gateShut {
		for c := range g.conns {
			_ = c.Close() // its copy ends
		}
	}
}

// hubKeyFile returns a file with a key, as hubs on a database need it.
func hubKeyFile(t *testing.T) string {
	t.Helper()
	key := filepath.Join(t.TempDir(), "hub.key")
	if err := os.WriteFile(key, []byte(strings.Repeat("0f", hubserver.KeySize)), 0o600); err != nil {
		t.Fatal(err)
	}
	return key
}

// statusOf returns the status of an answer, 0 for none, and its text.
func statusOf(resp *http.Response, err error) (int, string) {
	if err != nil {
		return 0, err.Error()
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, err.Error()
	}
	return resp.StatusCode, string(text)
}

// TestHubDatabaseAway: a hub is not ready while its database is away, refuses
// what it could not keep, and is ready again when the database is back.
func TestHubDatabaseAway(t *testing.T) {
	t.Parallel()
	gate, database := newDatabaseGate(t, postgrestest.URL(t), gateOpen)
	h := startHub(t, "--listen", "127.0.0.1:0", "--state", database, "--key-file", hubKeyFile(t), "--admin", "off")
	publish := func() int {
		r, err := http.NewRequest(http.MethodPost, h.address, strings.NewReader("x"))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "text/plain")
		r.Header.Set("Link", `<https://data.example.org/news>; rel="self"`)
		status, _ := statusOf(http.DefaultClient.Do(r))
		return status
	}
	ready := func() (int, string) { return statusOf(http.Get(h.address + "-/readyz")) }
	if status, text := ready(); status != 200 {
		t.Fatalf("at first: %d %s", status, text)
	}
	gate.set(gateShut)
	within(t, "not ready", func() bool {
		status, text := ready()
		return status == 503 && strings.Contains(text, "the database does not work")
	})
	if status := publish(); status < 500 {
		t.Errorf("a publication while the database is away: %d, want 5xx", status)
	}
	gate.set(gateOpen)
	within(t, "ready again", func() bool { status, _ := ready(); return status == 200 })
	within(t, "publications are accepted again", func() bool { return publish() == 202 })
	within(t, "the log says so", func() bool {
		log := h.stderr.String()
		return strings.Contains(log, "not ready") && strings.Contains(log, "ready again")
	})
}

// TestHubStarting: until a hub has loaded, it answers that it lives, and 503 to
// everything else, with the time to come back.
func TestHubStarting(t *testing.T) {
	t.Parallel()
	gate, database := newDatabaseGate(t, postgrestest.URL(t), gateHeld)
	address := freeAddress(t)
	cmd := exec.Command("lockstep", "hub", "--listen", address, "--state", database, "--key-file", hubKeyFile(t), "--admin", "off", "--publish-open", "--allow-private")
	output := &syncBuffer{}
	cmd.Stdout, cmd.Stderr = output, output
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	base := "http://" + address + "/"
	within(t, "the process answers", func() bool { status, _ := statusOf(http.Get(base + "-/healthz")); return status == 200 })
	form := url.Values{"hub.mode": {"subscribe"}, "hub.topic": {"https://data.example.org/news"}, "hub.callback": {"http://127.0.0.1:9/"}}
	for name, ask := range map[string]func() (*http.Response, error){
		"readiness":      func() (*http.Response, error) { return http.Get(base + "-/readyz") },
		"subscription":   func() (*http.Response, error) { return http.PostForm(base, form) },
		"description":    func() (*http.Response, error) { return http.Get(base) },
		"administration": func() (*http.Response, error) { return http.Get(base + "-/api/v1/hub") },
	} {
		resp, err := ask()
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if status, text := statusOf(resp, nil); status != 503 || resp.Header.Get("Retry-After") == "" {
			t.Errorf("%s while it starts: %d %q, Retry-After %q, want 503", name, status, text, resp.Header.Get("Retry-After"))
		}
	}
	gate.set(gateOpen)
	within(t, "ready", func() bool { status, _ := statusOf(http.Get(base + "-/readyz")); return status == 200 })
	if status, text := statusOf(http.PostForm(base, form)); status != 202 {
		t.Errorf("a subscription afterwards: %d %s\n%s", status, text, output)
	}
}

// TestHubCallbackCertificates: callbacks with a certificate of one's own
// authority are reached with --ca-file; without it the reason is shown.
func TestHubCallbackCertificates(t *testing.T) {
	t.Parallel()
	calls := &callbacks{}
	server := httptest.NewUnstartedServer(calls)
	server.Config.ErrorLog = log.New(io.Discard, "", 0) // the hub refuses the certificate
	server.StartTLS()
	t.Cleanup(server.Close)
	ca := filepath.Join(t.TempDir(), "ca.pem")
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	if err := os.WriteFile(ca, text, 0o600); err != nil {
		t.Fatal(err)
	}
	const topic = "https://data.example.org/news"
	plain := startHub(t, "--listen", "127.0.0.1:0", "--state", filepath.Join(t.TempDir(), "plain"))
	plain.subscribe(topic, server.URL+"/secret-path")
	var answer string
	within(t, "the reason is shown", func() bool {
		answer, _ = get(plain.address + "-/api/v1/hub/verifications")
		return strings.Contains(answer, "certificate")
	})
	if strings.Contains(answer, "secret-path") {
		t.Errorf("the callback is shown: %s", answer)
	}
	page, err := get(plain.address + "-/hub")
	if err != nil || !strings.Contains(page, "certificate") {
		t.Errorf("the page does not show the reason, %v: %s", err, page)
	}

	trusting := startHub(t, "--listen", "127.0.0.1:0", "--state", filepath.Join(t.TempDir(), "trusting"), "--ca-file", ca)
	trusting.subscribe(topic, server.URL+"/a")
	within(t, "subscribed", func() bool { return trusting.stats().Subscriptions == 1 })
	if err := trusting.publish(topic, "over TLS"); err != nil {
		t.Fatal(err)
	}
	within(t, "delivered", func() bool { return calls.got("/a", []string{"over TLS"}) })
}

// TestHubMissingTopic: with --check-topics a subscription to a topic that is 404
// is denied, and the subscriber and the status say why.
func TestHubMissingTopic(t *testing.T) {
	t.Parallel()
	topics := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(topics.Close)
	calls := &callbacks{}
	server := httptest.NewServer(calls)
	t.Cleanup(server.Close)
	h := startHub(t, "--listen", "127.0.0.1:0", "--state", filepath.Join(t.TempDir(), "state"), "--check-topics")
	h.subscribe(topics.URL+"/missing", server.URL+"/a")
	within(t, "denied", func() bool {
		calls.mu.Lock()
		defer calls.mu.Unlock()
		return strings.Contains(calls.log.String(), "denied of /a for "+topics.URL+"/missing") && strings.Contains(calls.log.String(), "404")
	})
	within(t, "the status says why", func() bool {
		answer, _ := get(h.address + "-/api/v1/hub/verifications")
		return strings.Contains(answer, "404")
	})
	if n := h.stats().Subscriptions; n != 0 {
		t.Errorf("%d subscriptions, want none", n)
	}
}
