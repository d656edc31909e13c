//go:build linux

package bench

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"lockstep/internal/freeport"
)

var (
	bucketJobs   = flag.Int("bucket.jobs", 32, "concurrent requests of the bare loop; the command stores as many objects at a time")
	bucketMemory = flag.Bool("bucket.memory", false, "the bare loop stores bytes of its own instead of fetching them")
)

const bucketKey, bucketSecret = "bench-key", "bench-secret"

// BenchmarkSyncBucket sets the first sync of a collection into a bucket, by the command,
// verified and recorded, beside a bare loop that gets the same resources with net/http and
// puts them with minio-go. Both are processes, in turn, and use the same service.
func BenchmarkSyncBucket(b *testing.B) {
	service, err := exec.LookPath("versitygw")
	if err != nil {
		b.Skipf("needs versitygw: %v", err)
	}
	program := filepath.Join(b.TempDir(), "lockstep")
	if out, err := exec.Command("go", "build", "-o", program, "lockstep/cmd/lockstep").CombinedOutput(); err != nil {
		b.Fatalf("%v: %s", err, out)
	}
	src := startSource(b, *syncFiles, 0)
	dir := benchDir(b, "lockstep-bucket-")
	s := startBuckets(b, service, dir)
	measure := func(c *exec.Cmd, bucket string) (wall, cpu, served float64, peak int64) {
		if err := os.Mkdir(filepath.Join(dir, "buckets", bucket), 0o755); err != nil {
			b.Fatal(err)
		}
		c.Env = append(append(os.Environ(), c.Env...), "AWS_ENDPOINT_URL="+s.address, "AWS_ACCESS_KEY_ID="+bucketKey, "AWS_SECRET_ACCESS_KEY="+bucketSecret)
		before := processorTimeOf(b, s.pid)
		wall, peak = timed(b, c)
		served = (processorTimeOf(b, s.pid) - before).Seconds()
		if n := countFiles(b, filepath.Join(dir, "buckets", bucket)); n != *syncFiles {
			b.Fatalf("%d objects, want %d", n, *syncFiles)
		}
		_ = os.RemoveAll(filepath.Join(dir, "buckets", bucket)) // on a memory disk
		return wall, (c.ProcessState.UserTime() + c.ProcessState.SystemTime()).Seconds(), served, peak
	}
	var ours, oursCPU, loops, loopsCPU, ratios, serves []float64
	var rss int64
	for b.Loop() {
		for range *syncRounds {
			state := benchDir(b, "lockstep-state-")
			wall, cpu, served, peak := measure(exec.Command(program, "sync", src.base+"/", "s3://ours", "--state", state, "-q"), "ours")
			_ = os.RemoveAll(state) // likewise
			ours, oursCPU, rss = append(ours, wall), append(oursCPU, cpu), max(rss, peak)

			loop := exec.Command(os.Args[0], "-test.run=^TestBucketLoopProcess$")
			loop.Env = []string{fmt.Sprintf("LOCKSTEP_BENCH_BUCKETLOOP=%s %d %d %d %v", src.base, *syncFiles, *syncSize, *bucketJobs, *bucketMemory)}
			wall, cpu, bare, _ := measure(loop, "loop")
			loops, loopsCPU = append(loops, wall), append(loopsCPU, cpu)
			ratios, serves = append(ratios, ours[len(ours)-1]/wall), append(serves, served/bare)
		}
	}
	b.ReportMetric(median(ours), "sync-s")
	b.ReportMetric(median(loops), "loop-s")
	b.ReportMetric(median(ratios), "sync/loop")
	b.ReportMetric(median(oursCPU), "sync-cpu-s")
	b.ReportMetric(median(loopsCPU), "loop-cpu-s")
	b.ReportMetric(median(serves), "service-cpu/loop")
	b.ReportMetric(float64(rss)/(1<<20), "sync-MB")
}

// A bucketService is a running S3 service.
type bucketService struct {
	address string
	pid     int
}

// startBuckets starts an S3 service whose buckets are the directories in dir/buckets.
func startBuckets(b *testing.B, program, dir string) bucketService {
	b.Helper()
	address, err := freeport.Address(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, "buckets"), 0o755); err != nil {
		b.Fatal(err)
	}
	c := exec.Command(program, "--port", address, "--access", bucketKey, "--secret", bucketSecret, "--quiet", "--keep-alive", "posix", filepath.Join(dir, "buckets"))
	c.Stderr = os.Stderr
	if err := c.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		_ = c.Process.Kill() // it has no other task
		_ = c.Wait()
	})
	s := bucketService{"http://" + address, c.Process.Pid}
	for range 600 {
		if resp, err := http.Get(s.address); err == nil {
			_ = resp.Body.Close()
			return s
		}
		time.Sleep(50 * time.Millisecond)
	}
	b.Fatal("the S3 service does not answer")
	return s
}

// TestBucketLoopProcess is the bare loop of BenchmarkSyncBucket.
func TestBucketLoopProcess(t *testing.T) {
	var base string
	var files, size, jobs int
	var memory bool
	if n, _ := fmt.Sscan(os.Getenv("LOCKSTEP_BENCH_BUCKETLOOP"), &base, &files, &size, &jobs, &memory); n != 5 {
		return // only when a benchmark starts it
	}
	at, err := url.Parse(os.Getenv("AWS_ENDPOINT_URL"))
	if err != nil {
		t.Fatal(err)
	}
	transport := func() *http.Transport { return &http.Transport{MaxIdleConns: 2 * jobs, MaxIdleConnsPerHost: jobs} }
	service, err := minio.New(at.Host, &minio.Options{Creds: credentials.NewStaticV4(bucketKey, bucketSecret, ""), Region: "us-east-1", Transport: transport()})
	if err != nil {
		t.Fatal(err)
	}
	source := &http.Client{Transport: transport()}
	own := make([]byte, size)
	var next atomic.Int64
	var wg sync.WaitGroup
	for range jobs {
		wg.Go(func() {
			for i := int(next.Add(1)) - 1; i < files; i = int(next.Add(1)) - 1 {
				path, body := resourcePath(i), own
				if !memory {
					resp, err := source.Get(base + path)
					if err != nil {
						t.Error(err)
						return
					}
					body, err = io.ReadAll(resp.Body)
					_ = resp.Body.Close() // read to its end
					if err != nil {
						t.Error(err)
						return
					}
				}
				if _, err := service.PutObject(context.Background(), "loop", path[1:], bytes.NewReader(body), int64(len(body)), minio.PutObjectOptions{}); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
}
