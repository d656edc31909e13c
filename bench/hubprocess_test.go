package bench

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"lockstep/hub"
	"lockstep/storage/postgres/postgrestest"
	"lockstep/storage/sqlite"
)

// roleVar names what the test binary is to be instead of itself.
const roleVar = "LOCKSTEP_BENCH_ROLE"

func TestMain(m *testing.M) {
	var err error
	role := os.Getenv(roleVar)
	switch grow := growthRoles[role]; {
	case role == "hub":
		err = hubProcess(os.Args[1], os.Args[2])
	case role == "sink":
		err = sinkProcess()
	case grow != nil:
		err = grow(os.Args[1:])
	default:
		os.Exit(postgrestest.Main(m))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// A child is this binary as something else.
type child struct {
	*exec.Cmd
	address string        // that it serves
	took    time.Duration // from its start until it served
}

// spawn starts the binary in a role and waits until it says where it serves.
func spawn(b testing.TB, role string, args ...string) *child {
	b.Helper()
	c := &child{Cmd: exec.Command(os.Args[0], args...)}
	c.Env = append(os.Environ(), roleVar+"="+role)
	c.Stderr = os.Stderr
	in, err := c.StdinPipe() // closed with the process that waits for it
	if err != nil {
		b.Fatal(err)
	}
	out, err := c.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	start := time.Now()
	if err := c.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = in.Close(); _ = c.Wait() }) // it may have been killed
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		b.Fatalf("%s: %v", role, err)
	}
	c.took = time.Since(start)
	c.address = strings.TrimSpace(line)
	return c
}

// serveUntilLeft serves until the parent is gone.
func serveUntilLeft(h http.Handler) error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	s := &http.Server{Handler: h, ReadHeaderTimeout: time.Minute}
	go func() { _ = s.Serve(l) }() // until Close
	fmt.Printf("http://%s\n", l.Addr())
	_, _ = io.Copy(io.Discard, os.Stdin)
	return s.Close()
}

// hubProcess is a hub on the SQLite file at path, with so many MiB of memory.
func hubProcess(path, memory string) error {
	debug.SetGCPercent(400) // as the command does
	limit, err := strconv.ParseInt(memory, 10, 64)
	if err != nil {
		return err
	}
	debug.SetMemoryLimit(limit << 20)
	db, err := sqlite.Open(path)
	if err != nil {
		return err
	}
	h, err := hub.New(db.Hub(), hub.Options{
		PublishOpen: true,
		PublicURL:   "http://hub.example/", AllowPrivate: true, Secret: benchSecret(), MaxPerHost: 1_000_000,
	})
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- h.Run(ctx) }()
	select {
	case <-h.Ready():
	case err := <-done:
		return err
	}
	err = serveUntilLeft(h)
	cancel()
	if err2 := <-done; err == nil {
		err = err2
	}
	if err2 := db.Close(); err == nil {
		err = err2
	}
	return err
}

func benchSecret() []byte { return []byte(strings.Repeat("s", 32)) }

// A sinkReport is what a sink got.
type sinkReport struct {
	Deliveries, Duplicates, Disorders int64
	First, Last                       int64 // nanoseconds since 1970, of deliveries
	P50, P99                          float64
}

// A benchSink takes deliveries, whose bodies begin with number and time.
type benchSink struct {
	paths   [10_001]atomic.Int64 // last number
	first   atomic.Int64
	last    atomic.Int64
	dups    atomic.Int64
	wrong   atomic.Int64
	count   atomic.Int64
	latency []int64
	bare    *benchSink // takes what the yardstick posts, with the same effort
}

// sinkProcess is a sink: POST /cb/N takes a delivery, POST /bare/N one of the
// yardstick, POST /hang/N never answers. GET /count and GET /report say what came since the
// last report.
func sinkProcess() error {
	s := &benchSink{latency: make([]int64, 4<<20), bare: &benchSink{}}
	return serveUntilLeft(s)
}

// ServeHTTP implements http.Handler.
func (s *benchSink) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.Method == http.MethodGet && r.URL.Path == "/count":
		_ = json.NewEncoder(w).Encode(s.count.Load())
	case r.Method == http.MethodGet && r.URL.Path == "/report":
		_ = json.NewEncoder(w).Encode(s.reset())
	case r.Method == http.MethodGet:
		_, _ = io.WriteString(w, r.URL.Query().Get("hub.challenge"))
	case strings.HasPrefix(r.URL.Path, "/cb/"):
		s.take(w, r)
	case strings.HasPrefix(r.URL.Path, "/bare/"):
		s.bare.take(w, r)
	case strings.HasPrefix(r.URL.Path, "/hang/"):
		_, _ = io.Copy(io.Discard, r.Body)
		<-r.Context().Done()
	default:
		_, _ = io.Copy(io.Discard, r.Body)
		w.WriteHeader(http.StatusNoContent)
	}
}

func (s *benchSink) take(w http.ResponseWriter, r *http.Request) {
	path, err := strconv.Atoi(r.URL.Path[strings.LastIndexByte(r.URL.Path, '/')+1:])
	if err != nil || path >= len(s.paths) {
		http.NotFound(w, r)
		return
	}
	var head [40]byte
	if _, err := io.ReadFull(r.Body, head[:]); err != nil {
		return
	}
	_, _ = io.Copy(io.Discard, r.Body)
	number, err := strconv.ParseInt(strings.TrimLeft(string(head[:20]), " "), 10, 64)
	sent, err2 := strconv.ParseInt(strings.TrimLeft(string(head[20:]), " "), 10, 64)
	if err != nil || err2 != nil {
		http.Error(w, "not a message of this benchmark", http.StatusBadRequest)
		return
	}
	now := time.Now().UnixNano()
	switch last := s.paths[path].Swap(number); {
	case last == number:
		s.dups.Add(1)
	case last != 0 && last != number-1:
		s.wrong.Add(1)
	}
	s.first.CompareAndSwap(0, now)
	s.last.Store(now)
	if i := s.count.Add(1) - 1; i < int64(len(s.latency)) {
		s.latency[i] = now - sent
	}
	w.WriteHeader(http.StatusNoContent)
}

func (s *benchSink) reset() sinkReport {
	n := s.count.Swap(0)
	r := sinkReport{
		Deliveries: n, Duplicates: s.dups.Swap(0), Disorders: s.wrong.Swap(0), First: s.first.Swap(0), Last: s.last.Swap(0),
	}
	if l := s.latency[:min(n, int64(len(s.latency)))]; len(l) > 0 {
		slices.Sort(l)
		r.P50, r.P99 = float64(l[len(l)/2])/1e6, float64(l[len(l)*99/100])/1e6
	}
	return r
}
