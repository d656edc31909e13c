package s3_test

import (
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"net/http/httptest"
	"strings"
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
	h := gofakes3.New(backend).Server()
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
