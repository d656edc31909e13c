package destination_test

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"lockstep/destination"
	"lockstep/internal/fetch"
)

var (
	breakFiles = flag.Int("break.files", 120, "resources synced over a network that breaks")
	breakShare = flag.Float64("break.share", 0.1, "share of the answers that break")
)

// A breaker is a proxy between a client and a server that breaks a share of the
// answers at a random place: it resets the connection, ends it as if the answer were
// complete, or stops sending.
type breaker struct {
	t      testing.TB
	l      net.Listener
	target string
	sent   atomic.Int64 // bytes handed to the client
	broken [3]atomic.Int64

	mu      sync.Mutex // guards what follows
	rnd     *rand.Rand
	share   float64
	answers int // since the last multiple of 1/share
	next    int // the one of these that breaks
	kind    int // how the last one broke

	conns sync.WaitGroup
}

const (
	breakReset = iota
	breakEnd
	breakSilence
)

func newBreaker(t testing.TB, target string, seed uint64) *breaker {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	b := &breaker{t: t, l: l, target: target, rnd: rand.New(rand.NewPCG(seed, 1))}
	b.conns.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			b.conns.Go(func() { b.join(c.(*net.TCPConn)) })
		}
	})
	t.Cleanup(func() { _ = l.Close(); b.conns.Wait() })
	return b
}

func (b *breaker) setShare(share float64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.share, b.answers = share, 0
	b.sent.Store(0)
}

// draw decides whether the next answer breaks, how, and after which part of it.
// One of each 1/share answers breaks, and the kinds of failure take turns, so
// that a short run sees all of them.
func (b *breaker) draw() (kind int, part float64, breaks bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.share == 0 {
		return 0, 0, false
	}
	period := max(1, int(math.Round(1/b.share)))
	if b.answers%period == 0 {
		b.answers, b.next = 0, b.rnd.IntN(period)
	}
	breaks = b.answers == b.next
	b.answers++
	if breaks {
		b.kind = (b.kind + 1) % len(b.broken)
	}
	return b.kind, b.rnd.Float64(), breaks
}

// join carries requests to the server and answers back, one at a time.
func (b *breaker) join(c *net.TCPConn) {
	defer c.Close()
	s, err := net.Dial("tcp", b.target)
	if err != nil {
		return
	}
	defer s.Close()
	requests := make(chan bool, 16) // one for each, before it is passed on
	var up sync.WaitGroup
	defer up.Wait()
	defer c.Close()
	up.Go(func() {
		defer s.Close() // the client is gone
		buf := make([]byte, 16<<10)
		for {
			n, err := c.Read(buf)
			if bytes.HasPrefix(buf[:n], []byte("GET ")) {
				requests <- true
			}
			if _, werr := s.Write(buf[:n]); err != nil || werr != nil {
				return
			}
		}
	})
	buf := make([]byte, 16<<10)
	left, doomed, kind := int64(0), false, 0
	for {
		n, err := s.Read(buf)
		for p := buf[:n]; len(p) > 0; {
			select {
			case <-requests: // an answer begins
				var part float64
				kind, part, doomed = b.draw()
				left = int64(part * float64(answerLength(p)))
			default:
			}
			k := len(p)
			if doomed {
				k = int(min(int64(k), left))
			}
			m, werr := c.Write(p[:k])
			b.sent.Add(int64(m))
			left -= int64(m)
			if werr != nil {
				return
			}
			if doomed && left == 0 {
				b.breakOff(c, kind)
				return
			}
			p = p[k:]
		}
		if err != nil {
			return
		}
	}
}

// answerLength is how long an answer is that begins with p.
func answerLength(p []byte) int64 {
	head, _, _ := bytes.Cut(p, []byte("\r\n\r\n"))
	for line := range strings.SplitSeq(string(head), "\r\n") {
		if text, ok := strings.CutPrefix(line, "Content-Length: "); ok {
			n, _ := strconv.ParseInt(text, 10, 64)
			return int64(len(head)) + 4 + n
		}
	}
	return int64(len(p))
}

func (b *breaker) breakOff(c *net.TCPConn, kind int) {
	b.broken[kind].Add(1)
	switch kind {
	case breakReset:
		_ = c.SetLinger(0)
	case breakSilence:
		_, _ = io.Copy(io.Discard, c) // until the client has had enough
	}
}

// TestBreak syncs over a network on which a tenth of all answers break: the
// mirror is exact, and hardly more came than over a network on which none do.
func TestBreak(t *testing.T) {
	t.Parallel()
	s := newSite(t, style{listParts: 150})
	rnd := rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), 1))
	for i := range *breakFiles {
		size := 1 + rnd.IntN(2000)
		if i%50 == 0 {
			size *= 40
		}
		s.put(fmt.Sprintf("/d%d/f%03d", i%7, i), strings.Repeat(fmt.Sprintf("%08d", i), size))
	}
	b := newBreaker(t, s.srv.Listener.Addr().String(), rnd.Uint64())
	s.srv.URL = "http://" + b.l.Addr().String()

	ideal := b.sync(t, newMirror(t, s), 1, 0, time.Minute)
	m := newMirror(t, s)
	sent := b.sync(t, m, 3, *breakShare, 800*time.Millisecond)
	t.Logf("%d bytes came, %d would do: %.3f; %d resets, %d ends, %d silences", sent, ideal, float64(sent)/float64(ideal),
		b.broken[breakReset].Load(), b.broken[breakEnd].Load(), b.broken[breakSilence].Load())
	if float64(sent) > 1.5*float64(ideal) {
		t.Errorf("%d bytes came where %d would do", sent, ideal)
	}
	for kind := range b.broken {
		if b.broken[kind].Load() == 0 {
			t.Errorf("nothing broke in the way %d", kind)
		}
	}
}

// sync brings m into step in at most so many runs, and returns the number of bytes
// received.
func (b *breaker) sync(t *testing.T, m *mirror, runs int, share float64, patience time.Duration) int64 {
	t.Helper()
	b.setShare(share)
	for run := 1; ; run++ {
		c, err := fetch.New(fetch.Options{Timeout: patience, AllowPrivate: true})
		if err != nil {
			t.Fatal(err)
		}
		d, err := destination.New(m.store, m.journal, c, m.opts)
		if err != nil {
			t.Fatal(err)
		}
		r, err := d.Sync(context.Background(), m.address())
		c.Close()
		if err == nil {
			break
		}
		if run == runs {
			t.Fatalf("run %d: %v\n%+v", run, err, r)
		}
	}
	m.same()
	return b.sent.Load()
}
