package s3_test

import (
	"crypto/sha256"
	"encoding/base64"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"
	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"lockstep/blob"
	"lockstep/blob/blobtest"
	"lockstep/blob/s3"
)

const bucket = "bucket"

// limits are those of every bucket.
var limits = blobtest.Limits{UTF8: true, NoResume: true}

// fake starts an S3 service in memory, with one bucket, and returns its address.
func fake(t testing.TB, wrap ...func(http.Handler) http.Handler) string {
	t.Helper()
	backend := s3mem.New()
	if err := backend.CreateBucket(bucket); err != nil {
		t.Fatal(err)
	}
	h := conditional(gofakes3.New(backend).Server())
	for _, w := range wrap {
		h = w(h)
	}
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	return server.URL
}

func open(t testing.TB, o s3.Options) *s3.Bucket {
	t.Helper()
	o.Bucket = bucket
	if o.AccessKey == "" {
		o.AccessKey, o.SecretKey = "key", "secret"
	}
	b, err := s3.New(o)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestFake(t *testing.T) {
	t.Parallel()
	for _, prefix := range []string{"", "some/where"} {
		t.Run("prefix="+strings.ReplaceAll(prefix, "/", "_"), func(t *testing.T) {
			t.Parallel()
			blobtest.RunLimits(t, limits, func(t *testing.T) blob.Store {
				return open(t, s3.Options{Endpoint: fake(t), Prefix: prefix})
			})
		})
	}
}

func TestParallel(t *testing.T) {
	t.Parallel()
	blobtest.RunLimits(t, limits, func(t *testing.T) blob.Store {
		return open(t, s3.Options{Endpoint: fake(t), Parallel: 4})
	})
}

// putOptions and coreOf are for access by another program.
var putOptions = minio.PutObjectOptions{}

func coreOf(t testing.TB, o s3.Options) *minio.Core {
	t.Helper()
	core, err := minio.NewCore(strings.TrimPrefix(o.Endpoint, "http://"), &minio.Options{
		Creds: credentials.NewStaticV4(o.AccessKey, o.SecretKey, ""), Region: "us-east-1",
	})
	if err != nil {
		t.Fatal(err)
	}
	return core
}

func checksumOf(data []byte) string {
	sum := sha256.Sum256(data)
	return base64.StdEncoding.EncodeToString(sum[:])
}

// conditional adds conditions for the end of uploads in parts, which the fake service ignores.
func conditional(next http.Handler) http.Handler {
	var mu sync.Mutex // one at a time
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		is, not := r.Header.Get("If-Match"), r.Header.Get("If-None-Match")
		if r.Method != http.MethodPost || is == "" && not == "" {
			next.ServeHTTP(w, r)
			return
		}
		mu.Lock()
		defer mu.Unlock()
		head := httptest.NewRecorder()
		next.ServeHTTP(head, httptest.NewRequest(http.MethodHead, r.URL.Path, nil))
		tag := head.Header().Get("ETag")
		if head.Code != http.StatusOK {
			tag = ""
		}
		if not != "" && tag != "" || is != "" && tag != is {
			w.WriteHeader(http.StatusPreconditionFailed)
			_, _ = io.WriteString(w, `<?xml version="1.0"?><Error><Code>PreconditionFailed</Code></Error>`)
			return
		}
		next.ServeHTTP(w, r)
	})
}
