package demand

import (
	"context"
	"errors"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"lockstep/source/internal/server"
)

const (
	// demandSending is how many packages are sent at a time for each that is
	// made: they are made, and wait on disk or in memory for their readers.
	demandSending = 4

	// demandStall is how long a client may read nothing before it gives up its
	// place to another that waits for one.
	demandStall = time.Second
	demandLook  = 50 * time.Millisecond // how often it is looked for one

	// demandFree is what each request may send without being counted, and
	// demandBodies what all together may beyond it: memory filled by requests that
	// never end.
	demandFree   = 64 << 10
	demandBodies = 64 << 20
)

// errStalled ends the answer to a client that reads nothing while others wait.
var errStalled = errors.New("the client has read nothing while others waited for a place")

// senders are the packages that are being sent. A client that does not read keeps
// no place from one that does: when all are taken, the answer that has been stuck
// for longest is broken off.
type senders struct {
	mu  sync.Mutex // guards all
	all map[*sender]struct{}
}

// A sender is one package on its way.
type sender struct {
	w       http.ResponseWriter
	moved   atomic.Int64 // when bytes got through last, nanoseconds since 1970
	stopped atomic.Bool
}

// enter returns a place among most; nil if there is none and no other client gives up one
// in time. It is given back by leave.
func (s *senders) enter(ctx context.Context, w http.ResponseWriter, most int) *sender {
	ctx, cancel := context.WithTimeout(ctx, demandPatience)
	defer cancel()
	x := &sender{w: w}
	for {
		x.moved.Store(time.Now().UnixNano())
		if s.add(x, most) {
			return x
		}
		s.breakOff()
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(demandLook):
		}
	}
}

func (s *senders) add(x *sender, most int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.all) >= most {
		return false
	}
	if s.all == nil {
		s.all = make(map[*sender]struct{})
	}
	s.all[x] = struct{}{}
	return true
}

func (s *senders) leave(x *sender) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.all, x)
}

// breakOff stops the answer that has been stuck for longest.
func (s *senders) breakOff() {
	s.mu.Lock()
	defer s.mu.Unlock()
	var stuck *sender
	for x := range s.all {
		if !x.stopped.Load() && (stuck == nil || x.moved.Load() < stuck.moved.Load()) {
			stuck = x
		}
	}
	if stuck == nil || time.Since(time.Unix(0, stuck.moved.Load())) < demandStall {
		return
	}
	stuck.stopped.Store(true)
	_ = http.NewResponseController(stuck.w).SetWriteDeadline(time.Now()) // not every ResponseWriter can; the next write ends it then
}

// Write implements [io.Writer].
func (x *sender) Write(p []byte) (n int, err error) {
	for len(p) > 0 {
		if x.stopped.Load() {
			return n, errStalled
		}
		m, err := x.w.Write(p[:min(len(p), server.WriteChunk)])
		n, p = n+m, p[m:]
		if err != nil {
			return n, err
		}
		x.moved.Store(time.Now().UnixNano())
	}
	return n, nil
}

// ReadFrom implements [io.ReaderFrom], so that files are sent without copying.
func (x *sender) ReadFrom(src io.Reader) (n int64, err error) {
	for {
		if x.stopped.Load() {
			return n, errStalled
		}
		m, err := io.Copy(x.w, &io.LimitedReader{R: src, N: server.WriteChunk})
		n += m
		if err != nil || m < server.WriteChunk {
			return n, err
		}
		x.moved.Store(time.Now().UnixNano())
	}
}

// A demandBody is the body of a request, counted where it is large.
type demandBody struct {
	io.Reader
	all   *atomic.Int64 // bytes of all such bodies beyond what is free
	read  int64
	taken int64
}

func (b *demandBody) Read(p []byte) (int, error) {
	n, err := b.Reader.Read(p)
	b.read += int64(n)
	if over := b.read - demandFree - b.taken; over > 0 {
		b.taken += over
		if b.all.Add(over) > demandBodies {
			return n, &demandProblem{http.StatusServiceUnavailable, "too many requests are being read at the moment"}
		}
	}
	return n, err
}

func (b *demandBody) done() { b.all.Add(-b.taken) }
