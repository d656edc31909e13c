package fetch_test

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"

	"lockstep/internal/fetch"
)

// TestMemory: the maximum number of requests, each with the largest header and
// a body that does not arrive, needs little memory. Not in parallel: it
// measures the process.
func TestMemory(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var header strings.Builder
	for i := 0; header.Len() < fetch.MaxHeader-2<<10; i++ {
		fmt.Fprintf(&header, "X-%d: %s\r\n", i, strings.Repeat("a", 100))
	}
	text := "HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n" + header.String() + "\r\nx"
	var conns sync.WaitGroup
	conns.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			conns.Go(func() {
				defer c.Close()
				r := bufio.NewReaderSize(c, 1<<10)
				if _, err := http.ReadRequest(r); err != nil {
					return
				}
				_, _ = c.Write([]byte(text))
				_, _ = r.ReadByte() // until the client closes the connection
			})
		}
	})
	defer conns.Wait()
	defer l.Close()
	c := client(t, "http://"+l.Addr().String(), fetch.Options{Jobs: fetch.MaxJobs})
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	var mu sync.Mutex
	var held []*fetch.Response
	var wg sync.WaitGroup
	for range fetch.MaxJobs {
		wg.Go(func() {
			r, err := c.Get(t.Context(), fetch.Request{URI: "http://" + l.Addr().String()})
			if err != nil {
				t.Error(err)
				return
			}
			mu.Lock()
			defer mu.Unlock()
			held = append(held, r)
		})
	}
	wg.Wait()
	runtime.ReadMemStats(&after)
	if used := after.Sys - before.Sys; used > 160<<20 {
		t.Errorf("%d answers held take %d MB, want at most 160", len(held), used>>20)
	}
	for _, r := range held {
		_ = r.Body.Close() // never read
	}
}
