//go:build linux

package bench

import (
	"bytes"
	"crypto/md5"
	"crypto/sha256"
	"encoding/hex"
	"encoding/xml"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"lockstep/storage/postgres/postgrestest"
)

var (
	sharedFiles = flag.Int("shared.files", 2000, "resources of BenchmarkShared")
	sharedSize  = flag.Int("shared.size", 256<<10, "bytes of each")
	sharedQuota = flag.Int("shared.quota", 50, "percent of a processor that each process may use")
)

// BenchmarkShared sets the first sync of a collection into a bucket by two processes that share
// the mirror beside that by one of them, each confined to a part of a processor by a control
// group. Source and bucket are in the benchmark, and do as little as possible.
func BenchmarkShared(b *testing.B) {
	const groups = "/sys/fs/cgroup/cpu"
	if _, err := os.Stat(filepath.Join(groups, "cpu.cfs_quota_us")); err != nil || os.Getuid() != 0 {
		b.Skip("needs control groups, version 1, and the right to make some")
	}
	program := filepath.Join(b.TempDir(), "lockstep")
	if out, err := exec.Command("go", "build", "-o", program, "lockstep/cmd/lockstep").CombinedOutput(); err != nil {
		b.Fatalf("%v: %s", err, out)
	}
	source := plainSource(b, *sharedFiles, *sharedSize)
	round := 0
	run := func(processes int, more ...string) (wall, cpu float64) {
		round++
		store := newNullBucket()
		bucket := httptest.NewServer(store)
		defer bucket.Close()
		state := postgrestest.URL(b)
		start := time.Now()
		var cs []*exec.Cmd
		for i := range processes {
			group := filepath.Join(groups, fmt.Sprintf("lockstep-bench-%d-%d-%d", os.Getpid(), round, i))
			if err := os.Mkdir(group, 0o755); err != nil {
				b.Fatal(err)
			}
			defer func() { _ = os.Remove(group) }() // it is empty
			if err := os.WriteFile(filepath.Join(group, "cpu.cfs_quota_us"), []byte(strconv.Itoa(*sharedQuota*1000)), 0o644); err != nil {
				b.Fatal(err)
			}
			args := append([]string{program, "sync", source + "/resourcelist.xml", "s3://bucket/mirror", "--state", state, "--jobs", "64", "-q"}, more...)
			c := exec.Command("sh", append([]string{"-c", `echo $$ > "$0" && exec "$@"`, filepath.Join(group, "cgroup.procs")}, args...)...)
			c.Env = append(os.Environ(), "XDG_STATE_HOME="+b.TempDir(), "AWS_ENDPOINT_URL="+bucket.URL, "AWS_ACCESS_KEY_ID=k", "AWS_SECRET_ACCESS_KEY=s")
			c.Stderr = os.Stderr
			if err := c.Start(); err != nil {
				b.Fatal(err)
			}
			cs = append(cs, c)
		}
		for _, c := range cs {
			if err := c.Wait(); err != nil {
				b.Fatal(err)
			}
			cpu += (c.ProcessState.UserTime() + c.ProcessState.SystemTime()).Seconds()
		}
		wall = time.Since(start).Seconds()
		if n := store.count("/bucket/mirror/"); n != *sharedFiles {
			b.Fatalf("%d objects, want %d", n, *sharedFiles)
		}
		return wall, cpu
	}
	var plain, one, two, ratios []float64
	var plainCPU, twoCPU []float64
	for b.Loop() {
		for range *syncRounds {
			p, pc := run(1)
			o, _ := run(1, "--shared")
			t, tc := run(2, "--shared")
			plain, one, two, ratios = append(plain, p), append(one, o), append(two, t), append(ratios, p/t)
			plainCPU, twoCPU = append(plainCPU, pc), append(twoCPU, tc)
			b.Logf("plain %.1f s (%.1f s of a processor), one shared %.1f s, two %.1f s (%.1f s)", p, pc, o, t, tc)
		}
	}
	b.ReportMetric(median(plain), "plain-s")
	b.ReportMetric(median(one), "one-s")
	b.ReportMetric(median(two), "two-s")
	b.ReportMetric(median(ratios), "times-as-fast")
	b.ReportMetric(median(twoCPU)/median(plainCPU), "cpu-ratio")
}

// plainSource serves a Resource List and its resources, and returns its address.
func plainSource(b *testing.B, files, size int) string {
	body := bytes.Repeat([]byte("0123456789abcdef"), size/16)
	sum := sha256.Sum256(body)
	var list []byte
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, ".xml") {
			_, _ = w.Write(list)
			return
		}
		w.Header().Set("Content-Length", strconv.Itoa(len(body)))
		_, _ = w.Write(body)
	}))
	b.Cleanup(server.Close)
	var text bytes.Buffer
	fmt.Fprint(&text, `<?xml version="1.0" encoding="UTF-8"?><urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9" xmlns:rs="http://www.openarchives.org/rs/terms/"><rs:md capability="resourcelist" at="2024-01-01T00:00:00Z"/>`)
	for i := range files {
		fmt.Fprintf(&text, `<url><loc>%s/d%02d/f%06d</loc><rs:md hash="sha-256:%s" length="%d"/></url>`, server.URL, i%50, i, hex.EncodeToString(sum[:]), len(body))
	}
	fmt.Fprint(&text, `</urlset>`)
	list = text.Bytes()
	return server.URL
}

// A nullBucket is an S3 service that keeps the tags of objects and forgets their bytes.
type nullBucket struct {
	mu   sync.Mutex // guards tags
	tags map[string]string
}

func newNullBucket() *nullBucket { return &nullBucket{tags: map[string]string{}} }

func (s *nullBucket) count(prefix string) (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for key := range s.tags {
		if strings.HasPrefix(key, prefix) && !strings.Contains(key, "/.lockstep/") {
			n++
		}
	}
	return n
}

// ServeHTTP answers the requests that a first sync makes.
func (s *nullBucket) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	q, key := r.URL.Query(), r.URL.Path
	tag := ""
	if r.Method == http.MethodPut {
		n, err := io.Copy(io.Discard, r.Body)
		if err != nil {
			return
		}
		sum := md5.Sum([]byte(strconv.FormatInt(n, 10)))
		tag = `"` + hex.EncodeToString(sum[:]) + `"`
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	have := s.tags[key]
	switches := r.Method == http.MethodPut && !q.Has("partNumber") || r.Method == http.MethodPost && q.Has("uploadId")
	if is := r.Header.Get("If-Match"); switches && (r.Header.Get("If-None-Match") != "" && have != "" || is != "" && is != have) {
		w.WriteHeader(http.StatusPreconditionFailed)
		_, _ = io.WriteString(w, `<Error><Code>PreconditionFailed</Code></Error>`)
		return
	}
	switch {
	case r.Method == http.MethodPut:
		if switches {
			s.tags[key] = tag
		}
		w.Header().Set("ETag", tag)
	case r.Method == http.MethodPost && q.Has("uploads"):
		_, _ = io.WriteString(w, `<InitiateMultipartUploadResult><UploadId>1</UploadId></InitiateMultipartUploadResult>`)
	case r.Method == http.MethodPost && q.Has("uploadId"): // of the objects with which conditions are tried out
		s.tags[key] = `"1-1"`
		_, _ = io.WriteString(w, `<CompleteMultipartUploadResult><Bucket>bucket</Bucket><ETag>"1-1"</ETag></CompleteMultipartUploadResult>`)
	case r.Method == http.MethodDelete:
		if !q.Has("uploadId") {
			delete(s.tags, key)
		}
		w.WriteHeader(http.StatusNoContent)
	case r.Method == http.MethodGet && q.Has("list-type"):
		_, _ = io.WriteString(w, `<ListBucketResult>`)
		for key, tag := range s.tags {
			name := strings.TrimPrefix(key, "/bucket/")
			if strings.HasPrefix(name, q.Get("prefix")) {
				_, _ = io.WriteString(w, `<Contents><Key>`)
				_ = xml.EscapeText(w, []byte(name))
				fmt.Fprintf(w, `</Key><Size>1</Size><ETag>%s</ETag><LastModified>2024-01-01T00:00:00Z</LastModified></Contents>`, tag)
			}
		}
		_, _ = io.WriteString(w, `</ListBucketResult>`)
	default:
		w.WriteHeader(http.StatusNotFound)
		_, _ = io.WriteString(w, `<Error><Code>NoSuchKey</Code></Error>`)
	}
}
