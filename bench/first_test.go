//go:build linux

package bench

import (
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

var (
	firstFiles = flag.Int("first.files", 200_000, "resources of the collection whose first ones are waited for")
	firstSize  = flag.Int("first.size", 2048, "bytes of each")
	firstTrip  = flag.Duration("first.trip", 50*time.Millisecond, "round trip")
)

// BenchmarkFirstContent measures how long a first sync over a long way takes until
// the first resource has arrived, from the start of the process, by the address it is
// given. The requests before that are logged.
func BenchmarkFirstContent(b *testing.B) {
	src := startFarSource(b, *firstFiles, *firstSize, *firstTrip)
	for _, a := range []struct{ name, path string }{
		{"base", "/"}, {"description", "/.well-known/resourcesync"}, {"set", "/rs/capabilitylist.xml"}, {"list", "/rs/resourcelist.xml"},
	} {
		b.Run(a.name, func(b *testing.B) {
			src.origin.list = a.path
			var times []float64
			for b.Loop() {
				for range *syncRounds {
					dest := benchDir(b, "lockstep-first-")
					src.control(b, "reset")
					began := time.Now()
					p := src.startSync(b, dest)
					log := src.firstRequests(b)
					_ = p.Process.Kill() // only its beginning is measured
					_ = p.Wait()
					time.Sleep(2 * *firstTrip) // for what it has sent
					_ = os.RemoveAll(dest)     // on a memory disk
					for _, r := range log {
						b.Logf("%6.1f ms %s", 1e3*r.at.Sub(began).Seconds(), r.path)
					}
					times = append(times, log[len(log)-1].at.Add(*firstTrip/2).Sub(began).Seconds())
				}
			}
			b.ReportMetric(1e3*median(times), "first-ms")
			b.ReportMetric(1e3*slices.Min(times), "least-ms")
		})
	}
}

// A sentRequest is a request that a generated Source has received.
type sentRequest struct {
	at   time.Time
	path string
}

// firstRequests waits until a resource is requested, and returns the requests up to then.
func (s *farSource) firstRequests(b *testing.B) (log []sentRequest) {
	b.Helper()
	resp, err := http.Get("http://" + s.direct + "/control/first")
	if err != nil {
		b.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		b.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		at, path, _ := strings.Cut(strings.TrimSpace(line), " ")
		n, err := strconv.ParseInt(at, 10, 64)
		if err != nil {
			b.Fatal(err)
		}
		log = append(log, sentRequest{time.Unix(0, n), path})
	}
	if len(log) == 0 {
		b.Fatal("no request has arrived")
	}
	return log
}

// A requestLog records requests until the first resource is requested.
type requestLog struct {
	mu    sync.Mutex // guards the fields below
	lines strings.Builder
	found chan struct{} // closed when a resource was requested; nil: nothing is recorded
	begun bool          // a document was requested: before that, requests are those of an earlier process
	ended bool
}

func (l *requestLog) restart() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines.Reset()
	l.found, l.begun, l.ended = make(chan struct{}), false, false
}

func (l *requestLog) add(path string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	resource := strings.HasPrefix(path, "/data/")
	if l.begun = l.begun || !resource; l.found == nil || l.ended || !l.begun {
		return
	}
	fmt.Fprintf(&l.lines, "%d %s\n", time.Now().UnixNano(), path)
	if resource {
		l.ended = true
		close(l.found)
	}
}

// writeTo waits until a resource is requested, and writes what was recorded.
func (l *requestLog) writeTo(w io.Writer) {
	l.mu.Lock()
	found := l.found
	l.mu.Unlock()
	<-found
	l.mu.Lock()
	defer l.mu.Unlock()
	_, _ = io.WriteString(w, l.lines.String())
}
