// Package postgrestest gives tests a PostgreSQL cluster, one for each test binary,
// from the programs that are installed.
//
//	func TestMain(m *testing.M) { os.Exit(postgrestest.Main(m)) }
package postgrestest

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib" // registers "pgx"
)

// A cluster is a server with its files, in a directory of its own.
type cluster struct {
	dir   string
	admin *sql.DB

	cmd   *exec.Cmd
	stdin io.WriteCloser // the server stops when it is closed, also if this process is killed
	log   *bytes.Buffer

	mu      sync.Mutex // guards schemas
	schemas int
}

// shared is the cluster of this process.
var shared struct {
	once    sync.Once
	cluster *cluster
	err     error
}

// Main runs the tests and stops the cluster they started.
func Main(m *testing.M) int {
	code := m.Run()
	if shared.cluster != nil {
		shared.cluster.stop()
	}
	return code
}

// URL returns the address of an empty database for this test: a schema in the
// cluster of this process. The first call starts the cluster. The test is
// skipped if PostgreSQL is not installed.
func URL(tb testing.TB) string {
	tb.Helper()
	programs := find()
	if programs == "" {
		tb.Skip("PostgreSQL is not installed: there is no initdb")
	}
	shared.once.Do(func() { shared.cluster, shared.err = start(programs, "") })
	if shared.err != nil {
		tb.Fatalf("start PostgreSQL: %v", shared.err)
	}
	address, err := shared.cluster.schema()
	if err != nil {
		tb.Fatalf("make a schema: %v", err)
	}
	return address
}

// A Server is a cluster of one test.
type Server struct {
	URL     string // of an empty database
	cluster *cluster
}

// Start starts a cluster for this test alone. The test is skipped if PostgreSQL is not installed.
func Start(tb testing.TB) *Server {
	tb.Helper()
	return StartIn(tb, "")
}

// StartIn does so with its files below a directory, whose name has to be short; "": that of temporary files.
func StartIn(tb testing.TB, dir string) *Server {
	tb.Helper()
	programs := find()
	if programs == "" {
		tb.Skip("PostgreSQL is not installed: there is no initdb")
	}
	c, err := start(programs, dir)
	if err != nil {
		tb.Fatalf("start PostgreSQL: %v", err)
	}
	tb.Cleanup(c.stop)
	address, err := c.schema()
	if err != nil {
		tb.Fatalf("make a schema: %v", err)
	}
	return &Server{address, c}
}

// Restart stops the server, which ends all connections, and starts it again.
func (s *Server) Restart(tb testing.TB) {
	tb.Helper()
	began := s.began(tb)
	s.command(tb, "restart", func() bool { return s.began(tb).After(began) })
}

// Standby makes a standby that receives nothing from now on.
func (s *Server) Standby(tb testing.TB) {
	tb.Helper()
	s.command(tb, "standby", func() bool {
		_, err := os.Stat(filepath.Join(s.cluster.dir, "standby"))
		return err == nil
	})
}

// Failover kills the server, and has the standby take over at its address: what was committed since
// [Server.Standby] is lost.
func (s *Server) Failover(tb testing.TB) {
	tb.Helper()
	began := s.began(tb)
	s.command(tb, "failover", func() bool { return s.began(tb).After(began) })
	if _, err := s.cluster.admin.ExecContext(tb.Context(), `SELECT pg_promote()`); err != nil {
		tb.Fatal(err)
	}
}

// command has the script do something, and waits until it is done.
func (s *Server) command(tb testing.TB, name string, done func() bool) {
	tb.Helper()
	if _, err := io.WriteString(s.cluster.stdin, name+"\n"); err != nil {
		tb.Fatal(err)
	}
	for end := time.Now().Add(startWait); !done(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			tb.Fatalf("PostgreSQL: no %s\n%s", name, s.cluster.log)
		}
	}
}

// began returns when the server was started, or the zero time if it does not answer.
func (s *Server) began(tb testing.TB) (at time.Time) {
	_ = s.cluster.admin.QueryRowContext(tb.Context(), `SELECT pg_postmaster_start_time()`).Scan(&at)
	return at
}

// Installed reports whether there is a PostgreSQL that can be started.
func Installed() bool { return find() != "" }

// find returns the directory of PostgreSQL's programs, which Debian does not put
// on the PATH.
func find() string {
	if path, err := exec.LookPath("initdb"); err == nil {
		if path, err = filepath.EvalSymlinks(path); err == nil {
			return filepath.Dir(path)
		}
	}
	if all, _ := filepath.Glob("/usr/lib/postgresql/*/bin/initdb"); len(all) > 0 { // the pattern is valid
		return filepath.Dir(all[len(all)-1])
	}
	return ""
}

// script creates a cluster and runs it until standard input ends. Lines are commands: restart,
// standby (makes a copy), failover (kills the server, and starts a standby with the copy). Its
// data need not survive a crash of the machine.
const script = `set -e
"$1/initdb" --pgdata=data --username=postgres --auth=trust --encoding=UTF8 --locale=C --no-sync >/dev/null
exec 3<&0
run() {
"$1/postgres" -D data -k "$PWD" -c listen_addresses= -c fsync=off -c full_page_writes=off -c autovacuum=off -c max_connections=200 -c dynamic_shared_memory_type=mmap </dev/null 3<&- &
server=$!
}
end() {
kill -INT $server || true
wait $server || true
}
run "$1"
while read -r line <&3; do
case $line in
standby)
"$1/pg_basebackup" -h "$PWD" -U postgres -D copy -c fast -X stream --no-sync
mv copy standby
continue ;;
failover)
kill -QUIT $server
wait $server || true
rm -rf lost
mv data lost
mv standby data
touch data/standby.signal ;;
*) end ;;
esac
run "$1"
done
end
dir=$PWD
cd /
rm -rf "$dir"
`

// startWait is how long a cluster may take to be ready.
const startWait = time.Minute

func start(programs, below string) (*cluster, error) {
	dir, err := os.MkdirTemp(below, "lockstep-pg-") // short: it holds a socket
	if err != nil {
		return nil, err
	}
	c := &cluster{dir: dir, log: new(bytes.Buffer)}
	as, err := c.user()
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	args := append(as, "sh", "-c", script, "sh", programs)
	c.cmd = exec.Command(args[0], args[1:]...)
	c.cmd.Dir, c.cmd.Stdout, c.cmd.Stderr = dir, c.log, c.log
	if c.stdin, err = c.cmd.StdinPipe(); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	if err := c.cmd.Start(); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	if c.admin, err = sql.Open("pgx", c.url("")); err == nil {
		err = c.ready()
	}
	if err != nil {
		c.stop()
		return nil, fmt.Errorf("%w\n%s", err, c.log)
	}
	return c, nil
}

// user returns the command that runs others as a user that PostgreSQL accepts,
// which is not root, and gives that user the directory.
func (c *cluster) user() ([]string, error) {
	if os.Getuid() != 0 {
		return nil, nil
	}
	u, err := user.Lookup("postgres")
	if err != nil {
		return nil, err
	}
	uid, err := strconv.Atoi(u.Uid)
	if err != nil {
		return nil, err
	}
	gid, err := strconv.Atoi(u.Gid)
	if err != nil {
		return nil, err
	}
	if err := os.Chown(c.dir, uid, gid); err != nil {
		return nil, err
	}
	return []string{"setpriv", "--reuid=" + u.Uid, "--regid=" + u.Gid, "--clear-groups", "--"}, nil
}

// ready waits until the server answers.
func (c *cluster) ready() error {
	ctx, cancel := context.WithTimeout(context.Background(), startWait)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		err := c.admin.PingContext(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return err
		case <-tick.C:
		}
	}
}

// schema creates a schema and returns its address.
func (c *cluster) schema() (string, error) {
	c.mu.Lock()
	c.schemas++
	name := fmt.Sprintf("test_%d", c.schemas)
	c.mu.Unlock()
	if _, err := c.admin.ExecContext(context.Background(), `CREATE SCHEMA `+name); err != nil {
		return "", err
	}
	return c.url(name), nil
}

func (c *cluster) url(schema string) string {
	q := url.Values{"host": {c.dir}, "user": {"postgres"}}
	if schema != "" {
		q.Set("search_path", schema)
	}
	return (&url.URL{Scheme: "postgres", Path: "/postgres", RawQuery: q.Encode()}).String()
}

func (c *cluster) stop() {
	if c.admin != nil {
		_ = c.admin.Close() // nothing was left open
	}
	_ = c.stdin.Close()
	_ = c.cmd.Wait() // the script succeeds, or the cluster never started, which was reported
	_ = os.RemoveAll(c.dir)
}
