package destination_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"lockstep/destination"
	"lockstep/internal/fetch"
)

// throttled writes so many bytes a second.
type throttled struct {
	http.ResponseWriter
	rate  float64
	start time.Time
	n     int64
}

func (s *throttled) Write(b []byte) (int, error) {
	n := 0
	for len(b) > 0 {
		k, err := s.ResponseWriter.Write(b[:min(len(b), 32<<10)])
		n, s.n, b = n+k, s.n+int64(k), b[k:]
		if err != nil {
			return n, err
		}
		time.Sleep(time.Until(s.start.Add(time.Duration(float64(s.n) / s.rate * float64(time.Second)))))
	}
	return n, nil
}

// wideSite has one large resource, of which a connection gets so many bytes a
// second.
func wideSite(t *testing.T, rate float64, answer func(w http.ResponseWriter, r *http.Request) bool) (*site, *mirror) {
	t.Helper()
	s := newSite(t, style{})
	data := make([]byte, 12<<20+12345)
	for i, c := 0, rand.NewChaCha8([32]byte{}); i+8 <= len(data); i += 4096 {
		_, _ = c.Read(data[i : i+8]) // never fails
	}
	s.put("/large", string(data))
	s.setFault(func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path != "/large" {
			return false
		}
		if answer == nil || !answer(w, r) {
			s.serve(&throttled{ResponseWriter: w, rate: rate, start: time.Now()}, r, s.file(r.URL.Path))
		}
		return true
	})
	return s, newMirror(t, s)
}

// syncWide syncs and returns how long it took and how many bytes were sent.
func syncWide(t *testing.T, s *site, m *mirror) (time.Duration, int64) {
	t.Helper()
	c, err := fetch.New(fetch.Options{AllowPrivate: true})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	d, err := destination.New(m.store, m.journal, c, m.opts)
	if err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	if r, err := d.Sync(context.Background(), m.address()); err != nil {
		t.Fatalf("%v\n%+v", err, r)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return time.Since(start), s.sent
}

// Where each connection is throttled, large content is fetched over several. On a machine
// with very much else to do the connections may seem no slower than the machine, so that
// it is tried more than once.
func TestWide(t *testing.T) {
	t.Parallel()
	const rate, tries = 2 << 20, 5
	for try := 1; ; try++ {
		s, m := wideSite(t, rate, nil)
		took, sent := syncWide(t, s, m)
		m.same()
		size := len(s.file("/large").data)
		if sent > int64(size)*5/4 {
			t.Fatalf("%d bytes were sent of %d", sent, size)
		}
		alone := time.Duration(float64(size) / rate * float64(time.Second))
		n := s.got("/large")
		t.Logf("%v, over one connection %v; %d requests", took, alone, n)
		if took < alone && n >= 4 {
			return
		}
		if try == tries {
			t.Fatal("it was not faster than over one connection")
		}
	}
}

// Content is mirrored also from a Source that refuses ranges, or answers them with
// other content.
func TestWideFaults(t *testing.T) {
	t.Parallel()
	ranged := func(r *http.Request) bool { return r.Header.Get("Range") != "" }
	for name, answer := range map[string]func(s *site, n int64, w http.ResponseWriter, r *http.Request) bool{
		"denied": func(s *site, _ int64, w http.ResponseWriter, r *http.Request) bool {
			if ranged(r) {
				w.WriteHeader(http.StatusForbidden)
			}
			return ranged(r)
		},
		"whole": func(s *site, _ int64, w http.ResponseWriter, r *http.Request) bool {
			r.Header.Del("Range")
			return false
		},
		"wrong part": func(s *site, n int64, w http.ResponseWriter, r *http.Request) bool {
			if ranged(r) && n < 6 {
				w.Header().Set("Content-Range", "bytes 0-99/100")
				w.WriteHeader(http.StatusPartialContent)
				fmt.Fprint(w, strings.Repeat("x", 100))
				return true
			}
			return false
		},
		"reset": func(s *site, n int64, w http.ResponseWriter, r *http.Request) bool {
			if ranged(r) && n%3 == 0 {
				panic(http.ErrAbortHandler)
			}
			return false
		},
		"changed": func(s *site, n int64, w http.ResponseWriter, r *http.Request) bool {
			if n == 3 {
				s.put("/large", strings.Repeat("other content ", 1<<16))
			}
			return false
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var s *site
			var n atomic.Int64
			s, m := wideSite(t, 4<<20, func(w http.ResponseWriter, r *http.Request) bool { return answer(s, n.Add(1), w, r) })
			took, sent := syncWide(t, s, m)
			if name == "changed" {
				_, _ = syncWide(t, s, m) // the first run may have got what was there before
			}
			m.same()
			t.Logf("%v, %d requests, %d bytes sent", took, s.got("/large"), sent)
		})
	}
}
