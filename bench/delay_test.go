//go:build linux

package bench

import (
	"fmt"
	"io"
	"net"
	"os"
	"testing"
	"time"
)

// startDelay starts a process that simulates a long distance to target, a
// host:port: data arrives after half the round trip, and a connection answers
// nothing before a round trip has passed, as with TCP's handshake. It neither
// loses nor holds back anything. startDelay returns its address.
func startDelay(b *testing.B, target string, roundTrip time.Duration) string {
	b.Helper()
	return startOrigin(b, "^TestDelayProcess$", 0, fmt.Sprintf("LOCKSTEP_BENCH_DELAY=%s %s", target, roundTrip)).base
}

// TestDelayProcess is the process of startDelay. It ends with its standard input.
func TestDelayProcess(t *testing.T) {
	var target, text string
	if n, _ := fmt.Sscan(os.Getenv("LOCKSTEP_BENCH_DELAY"), &target, &text); n != 2 {
		return // only when a benchmark starts it
	}
	trip, err := time.ParseDuration(text)
	if err != nil {
		t.Fatal(err)
	}
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
			go far(c, target, trip)
		}
	}()
	_, _ = io.Copy(io.Discard, os.Stdin)
	_ = l.Close()
}

// far joins a connection with target. The handshake is made up for by holding
// back what the client says first.
func far(c net.Conn, target string, trip time.Duration) {
	open := time.Now().Add(trip + trip/2)
	s, err := net.Dial("tcp", target)
	if err != nil {
		_ = c.Close()
		return
	}
	go late(s, c, trip/2, open)
	late(c, s, trip/2, open)
}

// A piece of data on its way.
type piece struct {
	data []byte
	at   time.Time // of arrival
}

// late copies from src to dst, each piece after so long, none before open.
func late(dst, src net.Conn, half time.Duration, open time.Time) {
	line := make(chan piece, 1024)
	go func() {
		defer close(line)
		buf := make([]byte, 64<<10)
		for {
			n, err := src.Read(buf)
			if n > 0 {
				at := time.Now().Add(half)
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
