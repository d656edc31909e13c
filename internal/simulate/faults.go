package simulate

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Faults states which share of requests, from 0 to 1, gets which fault. The
// seed determines the faults, in the order of requests.
type Faults struct {
	Status  float64       // 503 Service Unavailable, with Retry-After: 0
	Reset   float64       // the connection is reset before an answer
	Cut     float64       // the answer and the connection end early
	Stall   float64       // the answer begins after Pause
	Flip    float64       // one bit of the body is flipped
	Pause   time.Duration // of a stall; default 3 s
	Healthy time.Duration // no faults for this long after the first request
}

const defaultPause = 3 * time.Second

// ErrFaults reports an invalid description of faults.
var ErrFaults = errors.New("want faults as status=2%,reset=1%,cut=0.5%,stall=1%,flip=1%")

// ParseFaults parses "status=2%,reset=1%". An empty string means no faults.
func ParseFaults(s string) (Faults, error) {
	var f Faults
	shares := map[string]*float64{"status": &f.Status, "reset": &f.Reset, "cut": &f.Cut, "stall": &f.Stall, "flip": &f.Flip}
	for item := range strings.SplitSeq(s, ",") {
		if s == "" {
			break
		}
		name, value, _ := strings.Cut(strings.TrimSpace(item), "=")
		share := shares[name]
		percent, found := strings.CutSuffix(value, "%")
		n, err := strconv.ParseFloat(percent, 64)
		if share == nil || err != nil || !found {
			return Faults{}, fmt.Errorf("%q: %w", item, ErrFaults)
		}
		*share = n / 100
	}
	return f, f.check()
}

func (f *Faults) check() error {
	var sum float64
	for _, share := range []float64{f.Status, f.Reset, f.Cut, f.Stall, f.Flip} {
		if !(share >= 0) {
			return fmt.Errorf("%w: no share below 0", ErrFaults)
		}
		sum += share
	}
	if sum > 1 {
		return fmt.Errorf("%w: together at most 100%%", ErrFaults)
	}
	return nil
}

// wrap puts the faults before next.
func (f Faults) wrap(next http.Handler, seed uint64) http.Handler {
	if f.Status+f.Reset+f.Cut+f.Stall+f.Flip == 0 {
		return next
	}
	if f.Pause <= 0 {
		f.Pause = defaultPause
	}
	return &faulty{Faults: f, next: next, random: rand.New(rand.NewPCG(seed, ^seed))}
}

type faulty struct {
	Faults
	next http.Handler

	mu     sync.Mutex // guards what follows
	random *rand.Rand
	first  time.Time
}

// roll draws the fault of one request.
func (f *faulty) roll() (fault, place float64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.first.IsZero() {
		f.first = time.Now()
	}
	fault, place = f.random.Float64(), f.random.Float64()
	if time.Since(f.first) < f.Healthy {
		fault = 1
	}
	return fault, place
}

func (f *faulty) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	fault, place := f.roll()
	among := func(share float64) bool { // the shares are disjoint intervals
		hit := fault >= 0 && fault < share
		fault -= share
		return hit
	}
	switch {
	case among(f.Status):
		w.Header().Set("Retry-After", "0")
		http.Error(w, "simulated fault", http.StatusServiceUnavailable)
		return
	case among(f.Reset):
		reset(w)
		return
	case among(f.Cut):
		w = &damaging{ResponseWriter: w, place: place, cut: true}
	case among(f.Stall):
		timer := time.NewTimer(f.Pause)
		defer timer.Stop()
		select {
		case <-r.Context().Done():
		case <-timer.C:
		}
	case among(f.Flip):
		w = &damaging{ResponseWriter: w, place: place}
	}
	f.next.ServeHTTP(w, r)
}

// reset closes the connection without an answer, by a TCP reset.
func reset(w http.ResponseWriter) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(http.ErrAbortHandler) // HTTP/2: the stream is reset
	}
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0) // otherwise it would be closed in order
	}
	_ = conn.Close() // intended
}

// A damaging writer damages a body of known length at a relative position from
// 0 to 1.
type damaging struct {
	http.ResponseWriter
	place   float64
	cut     bool // otherwise one bit is flipped
	started bool
	at      int64 // where in the body; -1 nowhere
	written int64
}

func (d *damaging) WriteHeader(status int) {
	if status >= http.StatusOK && !d.started {
		d.started, d.at = true, -1
		if n, err := strconv.ParseInt(d.Header().Get("Content-Length"), 10, 64); err == nil && n > 0 {
			d.at = min(int64(d.place*float64(n)), n-1)
		}
	}
	d.ResponseWriter.WriteHeader(status)
}

// Write hides ReadFrom: every byte passes through it.
func (d *damaging) Write(p []byte) (int, error) {
	if !d.started {
		d.WriteHeader(http.StatusOK)
	}
	i := d.at - d.written
	d.written += int64(len(p))
	if i < 0 || i >= int64(len(p)) {
		return d.ResponseWriter.Write(p)
	}
	if d.cut {
		_, _ = d.ResponseWriter.Write(p[:i])                     // it may not arrive
		_ = http.NewResponseController(d.ResponseWriter).Flush() // so that a part arrives
		panic(http.ErrAbortHandler)
	}
	q := append([]byte(nil), p...)
	q[i] ^= 1
	return d.ResponseWriter.Write(q)
}
