//go:build linux

package bench

import (
	"crypto/md5"
	"crypto/sha256"
	"flag"
	"fmt"
	"hash"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"lockstep/resourcesync"
)

var (
	largeFiles  = flag.Int("large.files", 4, "large resources")
	largeSize   = flag.Int64("large.size", 2<<30, "bytes of each")
	largeHashes = flag.String("large.hashes", "sha-256", "hashes their list states, comma-separated: md5, sha-256; or none")
	largeRate   = flag.Int64("large.rate", 0, "bytes per second of each connection; 0: no limit")
)

// BenchmarkSyncLarge sets the first sync of a few large resources, verified by
// hash, beside curl getting the same: one after the other and all at once.
func BenchmarkSyncLarge(b *testing.B) {
	src := startLarge(b)
	total := float64(*largeFiles) * float64(*largeSize)
	for b.Loop() {
		var ours, singly, together []float64
		var rss int64
		for range *syncRounds {
			dest := benchDir(b, "lockstep-sync-")
			s, r, _ := src.sync(b, dest)
			ours, rss = append(ours, s), max(rss, r)
			_ = os.RemoveAll(dest) // on a memory disk
			singly = append(singly, curlLarge(b, src))
			together = append(together, curlLarge(b, src, "--parallel", "--parallel-immediate"))
		}
		b.ReportMetric(total/median(ours)/1e6, "sync-MB/s")
		b.ReportMetric(total/median(singly)/1e6, "curl-MB/s")
		b.ReportMetric(total/median(together)/1e6, "curl-parallel-MB/s")
		b.ReportMetric(min(median(singly), median(together))/median(ours), "speed/best")
		b.ReportMetric(float64(rss)/(1<<20), "sync-peak-MB")
	}
}

func curlLarge(b *testing.B, src *origin, more ...string) float64 {
	b.Helper()
	out := benchDir(b, "lockstep-curl-")
	args := append([]string{"--silent", "--no-progress-meter", "--fail"}, more...)
	for i := range src.files {
		args = append(args, "-o", filepath.Join(out, strconv.Itoa(i)), src.base+largePath(i))
	}
	s, _ := timed(b, exec.Command("curl", args...))
	_ = os.RemoveAll(out) // on a memory disk
	return s
}

func largePath(i int) string { return fmt.Sprintf("/large/%d.bin", i) }

// startLarge starts the process that serves the large resources.
func startLarge(b *testing.B) *origin {
	b.Helper()
	src := startOrigin(b, "^TestLargeProcess$", *largeFiles,
		fmt.Sprintf("LOCKSTEP_BENCH_LARGE=%d %d %d %s", *largeFiles, *largeSize, *largeRate, *largeHashes))
	src.list = "/list.xml"
	return src
}

// TestLargeProcess is the Source of large resources. It ends with its standard
// input.
func TestLargeProcess(t *testing.T) {
	var hashes string
	s := &large{}
	if n, _ := fmt.Sscan(os.Getenv("LOCKSTEP_BENCH_LARGE"), &s.files, &s.size, &s.rate, &hashes); n != 4 {
		return // only when a benchmark starts it
	}
	s.noise = make([]byte, 1<<20+64)
	_, _ = rand.NewChaCha8([32]byte{}).Read(s.noise)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s.base = "http://" + l.Addr().String()
	s.describe(t, hashes)
	srv := &http.Server{Handler: s}
	go func() { _ = srv.Serve(l) }() // until Close
	fmt.Println(s.base)
	_, _ = io.Copy(io.Discard, os.Stdin)
	_ = srv.Close()
}

// A large Source has resources that repeat a block of noise.
type large struct {
	files      int
	size, rate int64
	noise      []byte
	base       string
	list       []byte
}

// chunk is what resource i has at a place, up to the end of the block.
func (l *large) chunk(i int, at int64) []byte {
	const block = 1 << 20
	b := l.noise[i%64 : i%64+block][at%block:]
	return b[:min(int64(len(b)), l.size-at)]
}

func (l *large) describe(t *testing.T, hashes string) {
	entries := make([]resourcesync.Entry, l.files)
	var wg sync.WaitGroup
	for i := range entries {
		e := &entries[i]
		e.Loc, e.Length, e.HasLength = l.base+largePath(i), l.size, true
		e.Lastmod = resourcesync.NewDatetime(time.Now().Add(-time.Hour).Truncate(time.Second))
		e.Hashes = make(resourcesync.Hashes, 0, 2)
		for name := range strings.SplitSeq(hashes, ",") {
			a, err := resourcesync.ParseAlgorithm(name)
			if err != nil {
				continue // none
			}
			e.Hashes = append(e.Hashes, resourcesync.Hash{Algorithm: a})
			sum := &e.Hashes[len(e.Hashes)-1].Digest
			h := map[resourcesync.Algorithm]func() hash.Hash{resourcesync.MD5: md5.New, resourcesync.SHA256: sha256.New}[a]()
			wg.Go(func() {
				for at := int64(0); at < l.size; {
					n, _ := h.Write(l.chunk(i, at)) // never fails
					at += int64(n)
				}
				*sum = string(h.Sum(nil))
			})
		}
	}
	wg.Wait()
	l.list = write(t, resourcesync.Header{Capability: resourcesync.ResourceList, At: resourcesync.NewDatetime(time.Now()),
		Links: []resourcesync.Link{{Rel: "up", Href: l.base + "/capabilitylist.xml"}}}, entries)
}

func (l *large) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/list.xml" {
		w.Header().Set("Content-Type", "application/xml")
		_, _ = w.Write(l.list)
		return
	}
	i, err := strconv.Atoi(strings.TrimSuffix(strings.TrimPrefix(r.URL.Path, "/large/"), ".bin"))
	if err != nil || i >= l.files {
		http.NotFound(w, r)
		return
	}
	first, last := int64(0), l.size-1
	w.Header().Set("ETag", fmt.Sprintf(`"%d"`, i))
	w.Header().Set("Accept-Ranges", "bytes")
	status := http.StatusOK
	if from, to, ok := strings.Cut(strings.TrimPrefix(r.Header.Get("Range"), "bytes="), "-"); ok {
		if first, err = strconv.ParseInt(from, 10, 64); err != nil || first >= l.size {
			w.WriteHeader(http.StatusRequestedRangeNotSatisfiable)
			return
		}
		if end, err := strconv.ParseInt(to, 10, 64); err == nil {
			last = min(end, last)
		}
		w.Header().Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", first, last, l.size))
		status = http.StatusPartialContent
	}
	w.Header().Set("Content-Length", strconv.FormatInt(last-first+1, 10))
	w.WriteHeader(status)
	start := time.Now()
	for at := first; at <= last; {
		piece := l.chunk(i, at)
		piece = piece[:min(int64(len(piece)), last+1-at)]
		if l.rate > 0 {
			piece = piece[:min(len(piece), 64<<10)]
			time.Sleep(time.Until(start.Add(time.Duration(float64(at-first) / float64(l.rate) * float64(time.Second)))))
		}
		n, err := w.Write(piece)
		if at += int64(n); err != nil {
			return
		}
	}
}
