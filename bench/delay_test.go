//go:build linux

package bench

import (
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"testing"
	"time"
)

// startDelay starts a process that simulates a long distance to target, a
// host:port: data arrives after half the round trip, and a connection answers
// nothing before a round trip has passed, as with TCP's handshake. All connections
// together get at most rate bytes a second of target's answers; 0: any number. Nothing
// is lost. startDelay returns its address.
func startDelay(b *testing.B, target string, roundTrip time.Duration, rate int64) string {
	b.Helper()
	return startOrigin(b, "^TestDelayProcess$", 0, fmt.Sprintf("LOCKSTEP_BENCH_DELAY=%s %s %d", target, roundTrip, rate)).base
}

// TestDelayProcess is the process of startDelay. It ends with its standard input.
func TestDelayProcess(t *testing.T) {
	var target, text string
	answers := new(route)
	if n, _ := fmt.Sscan(os.Getenv("LOCKSTEP_BENCH_DELAY"), &target, &text, &answers.rate); n != 3 {
		return // only when a benchmark starts it
	}
	trip, err := time.ParseDuration(text)
	if err != nil {
		t.Fatal(err)
	}
	answers.half = trip / 2
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	fmt.Println(l.Addr())
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go far(c, target, trip, answers)
		}
	}()
	_, _ = io.Copy(io.Discard, os.Stdin)
	_ = l.Close()
}

// far joins a connection with target. The handshake is made up for by holding
// back what the client says first.
func far(c net.Conn, target string, trip time.Duration, answers *route) {
	open := time.Now().Add(trip + trip/2)
	s, err := net.Dial("tcp", target)
	if err != nil {
		_ = c.Close()
		return
	}
	go late(s, c, &route{half: trip / 2}, open)
	late(c, s, answers, open)
}

// A route is what all connections share in one direction.
type route struct {
	half time.Duration // from one end to the other
	rate int64         // bytes a second; 0: any number

	mu   sync.Mutex // guards free
	free time.Time  // when what is under way has been sent
}

// arrival returns when n bytes arrive that are sent now.
func (r *route) arrival(n int) time.Time {
	now := time.Now()
	if r.rate == 0 {
		return now.Add(r.half)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.free.Before(now) {
		r.free = now
	}
	r.free = r.free.Add(time.Duration(float64(n) / float64(r.rate) * float64(time.Second)))
	return r.free.Add(r.half)
}

// A piece of data on its way.
type piece struct {
	data []byte
	at   time.Time // of arrival
}

// late copies from src to dst by way of r, and delivers nothing before open.
func late(dst, src net.Conn, r *route, open time.Time) {
	line := make(chan piece, 1024)
	go func() {
		defer close(line)
		buf := make([]byte, 64<<10)
		for {
			n, err := src.Read(buf)
			if n > 0 {
				at := r.arrival(n)
				if at.Before(open) {
					at = open
				}
				line <- piece{append([]byte(nil), buf[:n]...), at}
			}
			if err != nil {
				return
			}
		}
	}()
	for p := range line {
		time.Sleep(time.Until(p.at))
		if _, err := dst.Write(p.data); err != nil {
			break
		}
	}
	_ = dst.Close()
	_ = src.Close()
	for range line { // ends, for src is closed
	}
}
