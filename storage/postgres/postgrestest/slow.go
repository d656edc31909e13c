package postgrestest

import (
	"io"
	"net"
	"net/url"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// A Slow passes connections to a server, which appears to be slow. Its methods may be called from
// several goroutines.
type Slow struct {
	URL   string // of the database, through here
	delay atomic.Int64
}

// NewSlow returns one for the database at an address that [URL] has returned. It is not slow yet.
func NewSlow(tb testing.TB, address string) *Slow {
	tb.Helper()
	u, err := url.Parse(address)
	if err != nil {
		tb.Fatal(err)
	}
	q := u.Query()
	socket := filepath.Join(q.Get("host"), ".s.PGSQL.5432")
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	host, port, _ := net.SplitHostPort(l.Addr().String()) // the listener's own address has both
	q.Set("host", host)
	q.Set("port", port)
	q.Set("sslmode", "disable")
	u.RawQuery = q.Encode()
	s := &Slow{URL: u.String()}
	var pairs sync.WaitGroup
	var mu sync.Mutex // guards open
	var open []net.Conn
	tb.Cleanup(func() {
		_ = l.Close() // nothing was written
		mu.Lock()
		for _, c := range open {
			_ = c.Close() // its client has ended, or must not go on
		}
		mu.Unlock()
		pairs.Wait()
	})
	pairs.Go(func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			server, err := net.Dial("unix", socket)
			if err != nil {
				_ = client.Close() // as a server that is not there
				continue
			}
			mu.Lock()
			open = append(open, client, server)
			mu.Unlock()
			pairs.Go(func() { s.pass(server, client) })
			pairs.Go(func() {
				_, _ = io.Copy(client, server) // until one of them ends
				_ = client.Close()             // the other direction may have ended
			})
		}
	})
	return s
}

// Delay sets how long each message to the server takes from now on.
func (s *Slow) Delay(d time.Duration) { s.delay.Store(int64(d)) }

// pass passes what a client sends.
func (s *Slow) pass(server, client net.Conn) {
	defer server.Close()
	buf := make([]byte, 64<<10)
	for {
		n, err := client.Read(buf)
		if err != nil {
			return
		}
		time.Sleep(time.Duration(s.delay.Load()))
		if _, err := server.Write(buf[:n]); err != nil {
			return
		}
	}
}
