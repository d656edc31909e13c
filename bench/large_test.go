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

	"golang.org/x/sync/errgroup"

	"lockstep/resourcesync"
)

var (
	largeFiles  = flag.Int("large.files", 4, "large resources")
	largeSize   = flag.Int64("large.size", 2<<30, "bytes of each")
	largeHashes = flag.String("large.hashes", "sha-256", "hashes their list states, comma-separated: md5, sha-256; or none")
	largeRate   = flag.Int64("large.rate", 0, "bytes per second of each connection; 0: no limit")
)

// BenchmarkSyncLarge sets the first sync of a few large resources, verified by
// hash, beside curl getting the same, one after the other and all at once; beside curl
// and then sha256sum, two files at a time; and beside a bare program that reads, hashes with
// SHA-256 and writes all of them at once.
func BenchmarkSyncLarge(b *testing.B) {
	needs(b, "curl", "sha256sum")
	src := startLarge(b)
	total := float64(*largeFiles) * float64(*largeSize)
	for b.Loop() {
		var ours, singly, together, verified, floor []float64
		var rss int64
		for range *syncRounds {
			dest := benchDir(b, "lockstep-sync-")
			s, r, _ := src.sync(b, dest)
			ours, rss = append(ours, s), max(rss, r)
			_ = os.RemoveAll(dest) // on a memory disk
			s, _ = curlLarge(b, src)
			singly = append(singly, s)
			s, v := curlLarge(b, src, "--parallel", "--parallel-immediate")
			together, verified = append(together, s), append(verified, v)
			floor = append(floor, bareLarge(b, src))
		}
		b.ReportMetric(total/median(ours)/1e6, "sync-MB/s")
		b.ReportMetric(total/median(singly)/1e6, "curl-MB/s")
		b.ReportMetric(total/median(together)/1e6, "curl-parallel-MB/s")
		b.ReportMetric(min(median(singly), median(together))/median(ours), "speed/best")
		b.ReportMetric(median(ours)/median(verified), "sync/curl+sha256sum")
		b.ReportMetric(median(ours)/median(floor), "sync/floor")
		b.ReportMetric(float64(rss)/(1<<20), "sync-peak-MB")
	}
}

// curlLarge returns the seconds that curl takes, and those with sha256sum.
func curlLarge(b *testing.B, src *origin, more ...string) (alone, verified float64) {
	b.Helper()
	out := benchDir(b, "lockstep-curl-")
	args := append([]string{"--silent", "--no-progress-meter", "--fail"}, more...)
	for i := range src.files {
		args = append(args, "-o", filepath.Join(out, strconv.Itoa(i)), src.base+largePath(i))
	}
	alone, _ = timed(b, exec.Command("curl", args...))
	sums, _ := timed(b, exec.Command("sh", "-c", `ls "$0"/* | xargs -n 1 -P 2 sha256sum`, out))
	_ = os.RemoveAll(out) // on a memory disk
	return alone, alone + sums
}

// bareLarge returns the seconds of a bare program.
func bareLarge(b *testing.B, src *origin) float64 {
	b.Helper()
	out := benchDir(b, "lockstep-bare-")
	c := exec.Command(os.Args[0], "-test.run=^TestBareLargeProcess$")
	c.Env = append(os.Environ(), fmt.Sprintf("LOCKSTEP_BENCH_BARE=%d %s", src.files, src.base), "LOCKSTEP_BENCH_DEST="+out)
	s, _ := timed(b, c)
	_ = os.RemoveAll(out) // on a memory disk
	return s
}

// TestBareLargeProcess is the bare program: it gets, hashes and writes, and does nothing
// else.
func TestBareLargeProcess(t *testing.T) {
	var files int
	var base string
	if n, _ := fmt.Sscan(os.Getenv("LOCKSTEP_BENCH_BARE"), &files, &base); n != 2 {
		return // only when a benchmark starts it
	}
	dest := os.Getenv("LOCKSTEP_BENCH_DEST")
	var g errgroup.Group
	for i := range files {
		g.Go(func() error {
			resp, err := http.Get(base + largePath(i))
			if err != nil {
				return err
			}
			defer resp.Body.Close()
			f, err := os.Create(filepath.Join(dest, strconv.Itoa(i)))
			if err != nil {
				return err
			}
			h := sha256.New()
			if _, err := io.CopyBuffer(struct{ io.Writer }{io.MultiWriter(f, h)}, resp.Body, make([]byte, 256<<10)); err != nil {
				return err
			}
			t.Logf("%x", h.Sum(nil))
			return f.Close()
		})
	}
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
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
	documents  map[string][]byte // by their paths
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
	up := func(path string) []resourcesync.Link {
		return []resourcesync.Link{{Rel: resourcesync.RelUp, Href: l.base + path}}
	}
	one := func(path string, c resourcesync.Capability) []resourcesync.Entry {
		return []resourcesync.Entry{{Loc: l.base + path, Metadata: resourcesync.Metadata{Capability: c}}}
	}
	const description, set, list = "/.well-known/resourcesync", "/capabilitylist.xml", "/list.xml"
	l.documents = map[string][]byte{
		description: write(t, resourcesync.Header{Capability: resourcesync.Description}, one(set, resourcesync.CapabilityList)),
		set:         write(t, resourcesync.Header{Capability: resourcesync.CapabilityList, Links: up(description)}, one(list, resourcesync.ResourceList)),
		list:        write(t, resourcesync.Header{Capability: resourcesync.ResourceList, At: resourcesync.NewDatetime(time.Now()), Links: up(set)}, entries),
	}
}

func (l *large) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if text := l.documents[r.URL.Path]; text != nil {
		w.Header().Set("Content-Type", "application/xml")
		_, _ = w.Write(text)
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
