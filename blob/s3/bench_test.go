package s3_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"github.com/minio/minio-go/v7"

	"lockstep/blob/s3"
	"lockstep/catalog"
	intakebucket "lockstep/intake/bucket"
)

// sink is a service that accepts everything and stores nothing.
func sink(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	w.Header().Set("ETag", `"x"`)
	switch q := r.URL.Query(); {
	case r.Method == http.MethodPost && q.Has("uploads"):
		_, _ = io.WriteString(w, "<InitiateMultipartUploadResult><UploadId>1</UploadId></InitiateMultipartUploadResult>")
	case r.Method == http.MethodPost:
		_, _ = io.WriteString(w, "<CompleteMultipartUploadResult><Bucket>bucket</Bucket><Key>a</Key><ETag>x</ETag></CompleteMultipartUploadResult>")
	}
}

// BenchmarkUpload sends 256 MB, with this package and with the client's own
// uploader.
func BenchmarkUpload(b *testing.B) {
	server := httptest.NewServer(http.HandlerFunc(sink))
	defer server.Close()
	data := random(1, 1<<20)
	const size = 256 << 20
	b.Run("ours", func(b *testing.B) {
		store := open(b, s3.Options{Endpoint: server.URL})
		b.SetBytes(size)
		b.ReportAllocs()
		for range b.N {
			w, err := store.Create(b.Context(), "a")
			for n := 0; n < size && err == nil; n += len(data) {
				_, err = w.Write(data)
			}
			if err == nil {
				err = store.Commit(b.Context(), w)
			}
			if err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("minio", func(b *testing.B) {
		core := coreOf(b, s3.Options{Endpoint: server.URL, AccessKey: "key", SecretKey: "secret"})
		b.SetBytes(size)
		b.ReportAllocs()
		for range b.N {
			r, w := io.Pipe()
			go func() {
				for n := 0; n < size; n += len(data) {
					_, _ = w.Write(data)
				}
				_ = w.Close()
			}()
			if _, err := core.Client.PutObject(b.Context(), bucket, "a", r, -1, minio.PutObjectOptions{PartSize: 8 << 20}); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// A shelf is a service with n objects that all have the same content.
func shelf(n int) http.HandlerFunc {
	key := func(i int) string { return fmt.Sprintf("articles/%03d/%06d.html", i/1000, i) }
	return func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		if !q.Has("list-type") {
			w.Header().Set("Content-Type", "text/html")
			w.Header().Set("ETag", `"1cb251ec0d568de6a929b520c4aed8d1"`) // of "text"
			w.Header().Set("Last-Modified", "Fri, 02 Jan 2026 03:04:05 GMT")
			w.Header().Set("Content-Length", "4")
			if r.Method == http.MethodGet {
				_, _ = io.WriteString(w, "text")
			}
			return
		}
		from, _ := strconv.Atoi(q.Get("continuation-token"))
		var s strings.Builder
		fmt.Fprintf(&s, "<ListBucketResult><IsTruncated>%v</IsTruncated><NextContinuationToken>%d</NextContinuationToken>", from+1000 < n, from+1000)
		for i := from; i < min(from+1000, n); i++ {
			fmt.Fprintf(&s, `<Contents><Key>%s</Key><Size>4</Size><ETag>"1cb251ec0d568de6a929b520c4aed8d1"</ETag><LastModified>2026-01-02T03:04:05.000Z</LastModified></Contents>`, key(i))
		}
		_, _ = io.WriteString(w, s.String()+"</ListBucketResult>")
	}
}

// BenchmarkScan reads 100,000 objects into a catalog, and then scans them
// again.
func BenchmarkScan(b *testing.B) {
	const n = 100_000
	server := httptest.NewServer(shelf(n))
	defer server.Close()
	store := open(b, s3.Options{Endpoint: server.URL})
	cat := catalog.NewMem(nil)
	in, err := intakebucket.New(store, cat, "set", intakebucket.Options{BaseURI: "https://data.example.org/"})
	if err != nil {
		b.Fatal(err)
	}
	for i, name := range []string{"first", "again"} {
		b.Run(name, func(b *testing.B) {
			for range b.N {
				r, err := in.Scan(b.Context())
				if err != nil || i == 0 && b.N == 1 && r.Created != n || i == 1 && r.Unchanged != n {
					b.Fatal(r, err)
				}
			}
			b.ReportMetric(n*float64(b.N)/b.Elapsed().Seconds(), "objects/s")
		})
	}
}
