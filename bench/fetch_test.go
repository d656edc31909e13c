package bench

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"

	"lockstep/internal/fetch"
)

// fetchServer answers every request with 4 KB, in the way of a Source.
func fetchServer(b *testing.B) string {
	b.Helper()
	body := make([]byte, 4096)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Type", "application/octet-stream")
		h.Set("Content-Length", "4096")
		h.Set("ETag", `"0123456789abcdef"`)
		_, _ = w.Write(body)
	}))
	b.Cleanup(s.Close)
	return s.URL
}

// BenchmarkGet sets the Client beside bare net/http, one at a time and 16 at a
// time. The difference is what limits, timeouts and checks cost.
func BenchmarkGet(b *testing.B) {
	base := fetchServer(b)
	home, err := url.Parse(base)
	if err != nil {
		b.Fatal(err)
	}
	for _, jobs := range []int{1, 16, 64} {
		bare := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: jobs, MaxConnsPerHost: jobs, DisableCompression: true}}
		ours, err := fetch.New(fetch.Options{Home: home, Jobs: jobs})
		if err != nil {
			b.Fatal(err)
		}
		b.Run(fmt.Sprintf("jobs=%d/net-http", jobs), func(b *testing.B) {
			run(b, jobs, func(uri string) (io.ReadCloser, error) {
				r, err := bare.Get(uri)
				if err != nil {
					return nil, err
				}
				return r.Body, nil
			}, base)
		})
		b.Run(fmt.Sprintf("jobs=%d/fetch", jobs), func(b *testing.B) {
			run(b, jobs, func(uri string) (io.ReadCloser, error) {
				r, err := ours.Get(b.Context(), fetch.Request{URI: uri})
				if err != nil {
					return nil, err
				}
				return r.Body, nil
			}, base)
		})
		bare.CloseIdleConnections()
		ours.Close()
	}
}

func run(b *testing.B, jobs int, get func(string) (io.ReadCloser, error), base string) {
	b.ReportAllocs()
	var next atomic.Int64
	var wg sync.WaitGroup
	for range jobs {
		wg.Go(func() {
			buf := make([]byte, 32<<10)
			for {
				n := next.Add(1)
				if n > int64(b.N) {
					return
				}
				body, err := get(fmt.Sprintf("%s/dir/file-%06d.bin", base, n))
				if err != nil {
					b.Error(err)
					return
				}
				if _, err := io.CopyBuffer(io.Discard, body, buf); err != nil {
					b.Error(err)
				}
				_ = body.Close() // read to its end
			}
		})
	}
	wg.Wait()
}
