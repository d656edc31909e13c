package s3_test

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/minio/minio-go/v7"

	"lockstep/blob"
	"lockstep/blob/blobtest"
	"lockstep/blob/s3"
	"lockstep/internal/freeport"
)

// versity is one versitygw for all tests, with a directory for each bucket.
var versity struct {
	once    sync.Once
	dir     string
	address string
	err     error
	stop    func()
	buckets atomic.Int64
}

func TestMain(m *testing.M) {
	minio.DefaultRetryUnit = time.Millisecond // so that hundreds of faults take no time
	code := m.Run()
	if versity.stop != nil {
		versity.stop()
	}
	os.Exit(code)
}

const versityKey, versitySecret = "test-key", "test-secret"

// realBucket returns options for a new bucket of a real S3 service, a program
// of its own, or skips the test.
func realBucket(t testing.TB) s3.Options {
	t.Helper()
	program, err := exec.LookPath("versitygw")
	if err != nil {
		t.Skip("versitygw is not installed: go install -modfile=tools/go.mod github.com/versity/versitygw/cmd/versitygw")
	}
	versity.once.Do(func() { versity.err = startVersity(program) })
	if versity.err != nil {
		t.Fatal(versity.err)
	}
	name := fmt.Sprintf("bucket-%d", versity.buckets.Add(1))
	if err := os.Mkdir(filepath.Join(versity.dir, "buckets", name), 0o755); err != nil {
		t.Fatal(err)
	}
	return s3.Options{Endpoint: versity.address, Bucket: name, AccessKey: versityKey, SecretKey: versitySecret}
}

// startVersity starts the program on a free port of this machine.
func startVersity(program string) error {
	dir, err := os.MkdirTemp("", "lockstep-versity")
	if err != nil {
		return err
	}
	for _, sub := range []string{"buckets", "meta"} {
		if err := os.Mkdir(filepath.Join(dir, sub), 0o755); err != nil {
			return err
		}
	}
	address, err := freeport.Address(context.Background())
	if err != nil {
		return err
	}
	var out bytes.Buffer
	cmd := exec.Command(program, "--port", address, "--access", versityKey, "--secret", versitySecret, "--quiet", "--keep-alive",
		"posix", filepath.Join(dir, "buckets"))
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	versity.dir, versity.address = dir, "http://"+address
	versity.stop = func() {
		_ = cmd.Process.Kill() // it has no other task
		<-ended
		_ = os.RemoveAll(dir) // left over from a test
	}
	for range 200 {
		select {
		case err := <-ended:
			ended <- err
			return fmt.Errorf("versitygw ended: %w\n%s", err, &out)
		case <-time.After(50 * time.Millisecond):
		}
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		req, _ := http.NewRequestWithContext(ctx, http.MethodGet, versity.address, nil)
		resp, err := http.DefaultClient.Do(req)
		cancel()
		if err == nil {
			return resp.Body.Close()
		}
	}
	return fmt.Errorf("versitygw does not answer\n%s", &out)
}

func TestVersity(t *testing.T) {
	t.Parallel()
	// It removes a folder with its last object, and sometimes acknowledges another
	// object that is stored there at this moment but is lost.
	limits := limits
	limits.LosesInFolders = true
	for _, parallel := range []int{1, 8} {
		t.Run(fmt.Sprint("parallel=", parallel), func(t *testing.T) {
			t.Parallel()
			blobtest.RunLimits(t, limits, func(t *testing.T) blob.Store {
				o := realBucket(t)
				o.Parallel = parallel
				b, err := s3.New(o)
				if err != nil {
					t.Fatal(err)
				}
				return b
			})
		})
	}
}
