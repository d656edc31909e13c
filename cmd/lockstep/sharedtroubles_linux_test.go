package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"lockstep/storage/postgres/postgrestest"
)

// troubleWorlds is how many Sources and mirrors have the troubles of the long form, at the same time.
const troubleWorlds = 4

// A troubled is a database server and a service for buckets that have troubles.
type troubled struct {
	*testing.T
	server *postgrestest.Server
	slow   *postgrestest.Slow
	disk   string // of the server
	db     *sql.DB
	admin  *sql.Conn // which is there when no other can be opened

	mu     sync.Mutex // guards what follows
	bucket string     // what trouble it has
	lists  map[string]*httptest.ResponseRecorder
}

func newTroubled(t *testing.T) *troubled {
	t.Helper()
	x := &troubled{T: t, lists: map[string]*httptest.ResponseRecorder{}}
	if !postgrestest.Installed() {
		t.Skip("PostgreSQL is not installed: there is no initdb")
	}
	if os.Getuid() != 0 {
		t.Skip("needs root to mount file systems")
	}
	dir, err := os.MkdirTemp("", "ls-full-") // short: it holds a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mount("lockstep-test", dir, "tmpfs", 0, "size=1g"); err != nil {
		t.Skipf("needs to mount file systems: %v", err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(dir, syscall.MNT_DETACH) })
	x.disk = dir
	x.server = postgrestest.StartIn(t, dir)
	x.slow = postgrestest.NewSlow(t, x.server.URL)
	if x.db, err = sql.Open("pgx", x.server.URL+"&application_name=taker"); err != nil {
		t.Fatal(err)
	}
	x.db.SetMaxIdleConns(0)
	t.Cleanup(func() { _ = x.db.Close() }) // it has only changed settings
	x.connect()
	x.exec(`ALTER SYSTEM SET max_connections = 60`) // fewer have to be taken
	x.server.Restart(t)
	x.connect()
	return x
}

// connect opens the connection of the test, which restarts end.
func (x *troubled) connect() {
	x.Helper()
	if x.admin != nil {
		_ = x.admin.Close() // may have been ended
	}
	within(x.T, "the database accepts a connection", func() bool {
		var err error
		if x.admin, err = x.db.Conn(context.Background()); err != nil {
			return false
		}
		return x.admin.PingContext(context.Background()) == nil
	})
}

func (x *troubled) exec(statements ...string) {
	x.Helper()
	for _, s := range statements {
		if _, err := x.admin.ExecContext(context.Background(), s); err != nil {
			x.Fatalf("%s: %v", s, err)
		}
	}
}

// troubles are what happens, for some time. Uploads in parts are lost only where something is large enough for them.
var troubles = []struct {
	name  string
	begin func(x *troubled) (end func())
}{
	{"restart", func(x *troubled) func() {
		x.server.Restart(x.T)
		x.connect()
		return func() {}
	}},
	{"full", (*troubled).fill},
	{"read-only", func(x *troubled) func() {
		x.exec(`ALTER SYSTEM SET default_transaction_read_only = on`, `SELECT pg_reload_conf()`)
		return func() {
			x.exec(`SET default_transaction_read_only = off`, `ALTER SYSTEM RESET default_transaction_read_only`, `SELECT pg_reload_conf()`)
		}
	}},
	{"connections", (*troubled).occupy},
	{"slow", func(x *troubled) func() {
		x.slow.Delay(2 * time.Second)
		return func() { x.slow.Delay(0) }
	}},
	{"unavailable", bucketHas("unavailable")},
	{"lost answers", bucketHas("lost answers")},
	{"lost uploads", bucketHas("lost uploads")},
	{"late lists", bucketHas("late lists")},
}

// fill leaves no room on the disk of the server.
func (x *troubled) fill() (end func()) {
	balloon := filepath.Join(x.disk, "balloon")
	f, err := os.Create(balloon)
	if err != nil {
		x.Fatal(err)
	}
	zeros := make([]byte, 1<<20)
	for size := len(zeros); size >= 4096; {
		if _, err := f.Write(zeros[:size]); err != nil {
			if !errors.Is(err, syscall.ENOSPC) {
				x.Fatal(err)
			}
			size /= 2
		}
	}
	_ = f.Close()                // it is full
	for range rand.IntN(2) * 4 { // the log needs room, too, once the files that it has made ahead are used: the server ends
		_, _ = x.admin.ExecContext(context.Background(), `SELECT pg_switch_wal(), pg_current_xact_id()`)
	}
	return func() {
		if err := os.Remove(balloon); err != nil {
			x.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		defer cancel()
		if x.db.PingContext(ctx) != nil { // it has ended, as the log could not be written
			x.server.Restart(x.T)
		}
		x.connect()
	}
}

// occupy takes all connections of the server, and ends those of others.
func (x *troubled) occupy() (end func()) {
	var taken []*sql.Conn
	within(x.T, "all connections are taken", func() bool {
		c, err := x.db.Conn(context.Background())
		for ; err == nil; c, err = x.db.Conn(context.Background()) {
			taken = append(taken, c)
		}
		const others = `FROM pg_stat_activity WHERE backend_type = 'client backend' AND application_name <> 'taker'`
		var n int
		if err := x.admin.QueryRowContext(context.Background(), `SELECT count(*) `+others).Scan(&n); err != nil {
			x.Fatal(err)
		}
		x.exec(`SELECT pg_terminate_backend(pid) ` + others)
		return n == 0
	})
	return func() {
		for _, c := range taken {
			_ = c.Close() // nothing was done with it
		}
	}
}

// bucketHas returns what gives the bucket a trouble.
func bucketHas(trouble string) func(x *troubled) (end func()) {
	set := func(x *troubled, trouble string) {
		x.mu.Lock()
		defer x.mu.Unlock()
		x.bucket = trouble
	}
	return func(x *troubled) func() {
		set(x, trouble)
		return func() { set(x, "") }
	}
}

// wrap returns a service for buckets that has the troubles.
func (x *troubled) wrap(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		x.mu.Lock()
		trouble := x.bucket
		x.mu.Unlock()
		query := r.URL.Query()
		switch {
		case trouble == "unavailable" && rand.IntN(4) > 0:
			w.WriteHeader(http.StatusServiceUnavailable)
			_, _ = io.WriteString(w, `<?xml version="1.0"?><Error><Code>SlowDown</Code></Error>`)
		case trouble == "lost answers" && r.Method != http.MethodGet && r.Method != http.MethodHead && rand.IntN(2) == 0:
			next.ServeHTTP(httptest.NewRecorder(), r)
			panic(http.ErrAbortHandler)
		case trouble == "lost uploads" && r.Method == http.MethodPost && query.Has("uploadId"):
			w.WriteHeader(http.StatusNotFound)
			_, _ = io.WriteString(w, `<?xml version="1.0"?><Error><Code>NoSuchUpload</Code></Error>`)
		case r.Method == http.MethodGet && query.Has("list-type"):
			x.mu.Lock()
			answer := x.lists[r.URL.String()]
			x.mu.Unlock()
			if trouble != "late lists" || answer == nil {
				answer = httptest.NewRecorder()
				next.ServeHTTP(answer, r)
				x.mu.Lock()
				x.lists[r.URL.String()] = answer
				x.mu.Unlock()
			}
			for name, values := range answer.Header() {
				w.Header()[name] = values
			}
			w.WriteHeader(answer.Code)
			_, _ = w.Write(answer.Body.Bytes())
		default:
			next.ServeHTTP(w, r)
		}
	})
}

// TestSharedTroubles: whatever trouble the database and the bucket of a Source of three processes have, one after the
// other, a reader finds all documents all the time, no process ends, and what was acknowledged is published once, in
// its order.
func TestSharedTroubles(t *testing.T) {
	t.Parallel()
	inWorlds(t, func(t *testing.T, rounds int) {
		x := newTroubled(t)
		s := newSharedSourceIn(t, x.slow.URL, x.wrap, sharedSets)
		for range 3 {
			s.start()
		}
		const uri = "http://elsewhere.example/"
		balancer := func() string { return s.balancer.URL + "/" }
		s.written(balancer, uri+"first", "first")
		s.listed(uri+"first", "first")
		reader := crawlAll(balancer())
		stop, authors, wrote := make(chan struct{}), []*author{{name: "a"}, {name: "b"}}, make(chan error, 2)
		for _, a := range authors {
			go func() { wrote <- a.work(s, stop) }()
		}
		for round := range rounds {
			for _, i := range rand.Perm(len(troubles)) {
				trouble := troubles[i]
				end := trouble.begin(x)
				time.Sleep(time.Duration(rand.IntN(3000)) * time.Millisecond)
				end()
				began, text := time.Now(), fmt.Sprint(trouble.name, round)
				s.written(balancer, uri+"after", text)
				acknowledged := time.Since(began)
				published := s.listed(uri+"after", text).Sub(began)
				t.Logf("%s: acknowledged after %v, published after %v", trouble.name, acknowledged.Round(time.Millisecond), published.Round(time.Millisecond))
				for _, p := range s.running() {
					if len(p.done) > 0 {
						t.Fatalf("%s: a process has ended\n%s%s", trouble.name, p.out, p.stderr)
					}
				}
			}
		}
		close(stop)
		for range authors {
			if err := <-wrote; err != nil {
				t.Error(err)
			}
		}
		s.written(balancer, uri+"last", "last")
		s.listed(uri+"last", "last")
		reader.end(t)
		c, err := crawlSource(balancer())
		if err != nil {
			t.Fatal(err)
		}
		for _, a := range authors {
			if err := a.check(c.events); err != nil {
				t.Error(err)
			}
		}
		if t.Failed() {
			for _, p := range s.running() {
				t.Logf("%s\n%s", p.out, p.stderr)
			}
		}
	})
}

// inWorlds calls f once, or for each of several worlds at the same time, with how often each trouble happens there.
func inWorlds(t *testing.T, f func(t *testing.T, rounds int)) {
	if *sharedTroubles < troubleWorlds {
		f(t, *sharedTroubles)
		return
	}
	for i := range troubleWorlds {
		t.Run(fmt.Sprint("world ", i), func(t *testing.T) {
			t.Parallel()
			f(t, (*sharedTroubles+i)/troubleWorlds)
		})
	}
}

// TestSharedMirrorTroubles: whatever trouble the database and the bucket of a mirror have that three processes
// follow, no process ends; the bucket soon has what the Source has, and the last change is reported.
func TestSharedMirrorTroubles(t *testing.T) {
	t.Parallel()
	inWorlds(t, func(t *testing.T, rounds int) {
		x := newTroubled(t)
		m := newSharedMirror(t)
		m.state = x.slow.URL
		m.Config.Handler = x.wrap(conditionalUploads(m.Config.Handler))
		events := filepath.Join(t.TempDir(), "events")
		var ps []*sharer
		for range 3 {
			p := &sharer{cmd: sharingCommand(t, "follow", m.src.base, m.address(), "--state", m.state, "--shared", "--max-delete", "100",
				"--poll", "100ms", "--admin", "off", "--exec", "cat >> "+events, "--log-level", "info"), ended: make(chan error, 1)}
			p.cmd.Env = append(p.cmd.Environ(), "XDG_STATE_HOME="+t.TempDir())
			for name, value := range bucketEnv(m.URL) {
				p.cmd.Env = append(p.cmd.Env, name+"="+value)
			}
			p.cmd.Stdout, p.cmd.Stderr = &p.out, &p.err
			if err := p.cmd.Start(); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = p.cmd.Process.Kill() })
			go func() { p.ended <- p.cmd.Wait() }()
			ps = append(ps, p)
		}
		waitFor(t, "the first sync", func() bool { return len(m.objects(t)) >= 40 })
		var seen int64 // a process that cannot join the others when it starts may end
		for range 2 {
			waitFor(t, "all processes have joined, and renewed their leases", func() bool {
				var processes int
				var last int64
				err := x.db.QueryRow(`SELECT count(*), max(seen) FROM share_process WHERE seen > $1`, seen).Scan(&processes, &last)
				if err != nil || processes < len(ps) {
					return false
				}
				seen = last
				return true
			})
		}
		n := 0
		change := func() {
			for range 1 + rand.IntN(5) {
				n++
				name := fmt.Sprintf("d%d/file %d", n%3, rand.IntN(60))
				if rand.IntN(4) == 0 {
					_ = os.Remove(filepath.Join(m.dir, name)) // may be gone
					continue
				}
				m.write(name, fmt.Sprint("content ", n))
			}
		}
		reported := func(text string) bool {
			said, err := os.ReadFile(events)
			return err == nil && strings.Contains(string(said), strings.Fields(digest(text))[1])
		}
		for round := range rounds {
			for _, i := range rand.Perm(len(troubles)) {
				trouble := troubles[i]
				if trouble.name == "lost uploads" { // which only what is large needs
					m.write("large", strings.Repeat(fmt.Sprintf("%7d\n", n), 9<<17))
				}
				change()
				end := trouble.begin(x)
				for range rand.IntN(4) {
					change()
					time.Sleep(time.Duration(rand.IntN(1000)) * time.Millisecond)
				}
				end()
				change()
				began, text := time.Now(), fmt.Sprint(trouble.name, round)
				m.write("last", text)
				want, err := contents(m.dir)
				if err != nil {
					t.Fatal(err)
				}
				for reached := false; !reached; {
					got := map[string]string{}
					for name, text := range m.objects(t) {
						if !strings.HasPrefix(name, ".lockstep/") {
							got[strings.ReplaceAll(name, "%20", " ")] = text
						}
					}
					diff := cmp.Diff(want, got)
					reached = diff == "" && reported(text)
					for i, p := range ps {
						if len(p.ended) > 0 {
							t.Fatalf("%s: process %d has ended\n%s%s", trouble.name, i, p.out.String(), p.err.String())
						}
					}
					if !reached && time.Since(began) > 2*readyLimit {
						for _, p := range ps {
							t.Logf("%s%s", p.out.String(), p.err.String())
						}
						t.Fatalf("%s: the mirror differs (-want +got), or its last change is not reported\n%.2000s", trouble.name, diff)
					}
					time.Sleep(50 * time.Millisecond)
				}
				t.Logf("%s: in step after %v", trouble.name, time.Since(began).Round(time.Millisecond))
			}
		}
	})
}
