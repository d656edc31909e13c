package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// A downRepository is an OAI-PMH repository whose server a test stops and starts
// again at the same address.
type downRepository struct {
	t       *testing.T
	address string
	records atomic.Int64 // identifiers oai:x:1 to oai:x:N
	srv     *http.Server // nil while it is down
}

func newDownRepository(t *testing.T) *downRepository {
	t.Helper()
	r := &downRepository{t: t, address: freeAddress(t)}
	r.records.Store(1)
	r.start()
	t.Cleanup(r.stop)
	return r
}

func (r *downRepository) base() string { return "http://" + r.address + "/oai" }

func (r *downRepository) start() {
	r.t.Helper()
	l, err := net.Listen("tcp", r.address)
	if err != nil {
		r.t.Fatal(err)
	}
	r.srv = &http.Server{Handler: r, ReadHeaderTimeout: readyLimit}
	go func() { _ = r.srv.Serve(l) }() // until stop
}

// stop closes the listener and all connections: new ones are refused.
func (r *downRepository) stop() {
	if r.srv != nil {
		_ = r.srv.Close()
		r.srv = nil
	}
}

// ServeHTTP implements [http.Handler].
func (r *downRepository) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	now := time.Now().UTC().Format(time.RFC3339)
	w.Header().Set("Content-Type", "text/xml")
	_, _ = fmt.Fprintf(w, `<OAI-PMH xmlns="http://www.openarchives.org/OAI/2.0/"><responseDate>%s</responseDate><request>%s</request>`, now, r.base())
	if req.FormValue("verb") == "Identify" {
		_, _ = fmt.Fprintf(w, `<Identify><repositoryName>n</repositoryName><baseURL>%s</baseURL><protocolVersion>2.0</protocolVersion>`+
			`<adminEmail>a@example.org</adminEmail><earliestDatestamp>2020-01-01T00:00:00Z</earliestDatestamp><deletedRecord>persistent</deletedRecord>`+
			`<granularity>YYYY-MM-DDThh:mm:ssZ</granularity></Identify></OAI-PMH>`, r.base())
		return
	}
	_, _ = io.WriteString(w, "<ListRecords>")
	for i := range r.records.Load() {
		_, _ = fmt.Fprintf(w, `<record><header><identifier>oai:x:%d</identifier><datestamp>%s</datestamp></header>`+
			`<metadata><dc xmlns="http://www.openarchives.org/OAI/2.0/oai_dc/">%d</dc></metadata></record>`, i+1, now, i+1)
	}
	_, _ = io.WriteString(w, "</ListRecords></OAI-PMH>")
}

// A harvestingServe is a serve of a repository, and how to ask it how it is.
type harvestingServe struct {
	*testing.T
	*process
	client http.Client // of the admin socket
}

// serveRepository starts a serve of the repository, which asks often and never twice
// in one scan.
func serveRepository(t *testing.T, r *downRepository, address, state string) *harvestingServe {
	t.Helper()
	p, err := startReady(exec.Command("lockstep", "serve", "oai-pmh:"+r.base(), "--listen", address, "--state", state, "--scan-interval", "50ms", "--retries", "0"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.kill)
	return &harvestingServe{t, p, http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", p.admin)
	}}}}
}

// metric reports whether a line of the metrics on the admin listener begins so.
func (h *harvestingServe) metric(line string) bool {
	_, text := statusOf(h.client.Get("http://admin/-/metrics"))
	return strings.Contains(text, "\n"+line)
}

// ready returns the text of a successful answer about readiness.
func (h *harvestingServe) ready() string {
	h.Helper()
	status, text := statusOf(http.Get(h.address + "-/readyz"))
	if status != http.StatusOK || !strings.HasPrefix(text, "ok") {
		h.Errorf("readiness: %d %s", status, text)
	}
	return text
}

// lists reports whether the Resource List names record n.
func (h *harvestingServe) lists(n int) bool {
	status, text := statusOf(http.Get(h.address + "resourcesync/main/resourcelist.xml"))
	return status == http.StatusOK && strings.Contains(text, fmt.Sprintf("/oai:x:%d.xml<", n))
}

const (
	downDetail   = "set main: its origin cannot be read since "
	downGauge    = `lockstep_source_origin_failing{set="main"} `
	downAgain    = "note: set main: its origin can be read again, after "
	downSeconds  = `lockstep_source_origin_failing_seconds{set="main"} `
	downReadTime = `lockstep_source_origin_read_timestamp_seconds{set="main"} `
)

// checkRecovered waits until a repository that is up again, with a second record,
// has been harvested, and that is said everywhere.
func (h *harvestingServe) checkRecovered() {
	h.Helper()
	within(h.T, "the note that the repository can be read again", func() bool { return strings.Contains(h.stderr.String(), downAgain) })
	within(h.T, "the metric after that", func() bool { return h.metric(downGauge + "0\n") })
	within(h.T, "the record that is new", func() bool { return h.lists(2) })
	if !h.metric(downSeconds+"0\n") || !h.metric(downReadTime) {
		h.Error("the metrics do not show that the repository was read")
	}
	if text := h.ready(); strings.Contains(text, "origin") {
		h.Errorf("readiness after the recovery: %s", text)
	}
	if n := strings.Count(h.stderr.String(), downAgain); n != 1 {
		h.Errorf("the recovery is noted %d times\n%s", n, h.stderr)
	}
	if code, err := h.end(syscall.SIGTERM); err != nil || code != exitOK {
		h.Errorf("it ended with %d: %v\n%s", code, err, h.stderr)
	}
}

// TestServeWhileItsRepositoryIsDown: while nothing answers at the address of the
// repository, a serve warns, its metrics and its readiness say so, and it serves what
// it published. When the repository answers again, serve notes that and publishes what
// is new.
func TestServeWhileItsRepositoryIsDown(t *testing.T) {
	t.Parallel()
	r := newDownRepository(t)
	h := serveRepository(t, r, freeAddress(t), filepath.Join(t.TempDir(), "state"))
	within(t, "the metric of a repository that can be read", func() bool { return h.metric(downGauge+"0\n") && h.metric(downReadTime) })
	if text := h.ready(); strings.Contains(text, "origin") {
		t.Errorf("readiness: %s", text)
	}
	r.stop()
	within(t, "a warning", func() bool { return strings.Contains(h.stderr.String(), "warning: harvest "+r.base()+": ") })
	within(t, "the metric of a repository that cannot be read", func() bool { return h.metric(downGauge+"1\n") && !h.metric(downSeconds+"0\n") })
	within(t, "the detail of readiness", func() bool { return strings.Contains(h.ready(), downDetail) })
	if !h.lists(1) || strings.Contains(h.stderr.String(), downAgain) {
		t.Errorf("while the repository is down, its record is not published, or serve has noted that it is up\n%s", h.stderr)
	}
	r.records.Store(2)
	r.start()
	h.checkRecovered()
}

// TestServeStartsWhileItsRepositoryIsDown: a serve that has harvested before starts
// while nothing answers at the address of the repository. It serves what it published,
// warns once, not for each of its scans, and says from the first answer on that the
// repository cannot be read. One that has never harvested ends.
func TestServeStartsWhileItsRepositoryIsDown(t *testing.T) {
	t.Parallel()
	r, address, state := newDownRepository(t), freeAddress(t), filepath.Join(t.TempDir(), "state")
	h := serveRepository(t, r, address, state)
	if code, err := h.end(syscall.SIGTERM); err != nil || code != exitOK {
		t.Errorf("it ended with %d: %v\n%s", code, err, h.stderr)
	}
	r.stop()
	if code, _, stderr := lockstepRun(t, "serve", "oai-pmh:"+r.base(), "--listen", "127.0.0.1:0", "--state", state+"-none", "--retries", "0"); code != 1 || !strings.Contains(stderr, "error: harvest "+r.base()+": ") {
		t.Errorf("without a harvest before, it ended with %d: %s", code, stderr)
	}
	h = serveRepository(t, r, address, state)
	if text := h.ready(); !strings.Contains(text, downDetail) {
		t.Errorf("readiness after the start: %s", text)
	}
	if !h.metric(downGauge + "1\n") {
		t.Error("the metrics after the start do not show that the repository cannot be read")
	}
	if !h.lists(1) {
		t.Error("what was published before is not served")
	}
	r.records.Store(2)
	r.start()
	h.checkRecovered()
	if n := strings.Count(h.stderr.String(), "warning: harvest "+r.base()+": "); n != 1 {
		t.Errorf("warned %d times, want once\n%s", n, h.stderr)
	}
}
