package s3_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"lockstep/blob"
	"lockstep/blob/s3"
)

const part = 5 << 20

// random returns n bytes that differ for each seed.
func random(seed byte, n int) []byte {
	b := make([]byte, n)
	_, _ = rand.NewChaCha8([32]byte{seed}).Read(b)
	return b
}

// services runs a test against the service in memory and the real one.
func services(t *testing.T, test func(t *testing.T, o s3.Options)) {
	t.Run("fake", func(t *testing.T) {
		t.Parallel()
		test(t, s3.Options{Endpoint: fake(t), Bucket: bucket, AccessKey: "key", SecretKey: "secret"})
	})
	t.Run("versity", func(t *testing.T) {
		t.Parallel()
		test(t, realBucket(t))
	})
}

func must[T any](t testing.TB) func(v T, err error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func commit(t testing.TB, b *s3.Bucket, name string, data []byte, mod time.Time) {
	t.Helper()
	w := must[blob.Writer](t)(b.Create(t.Context(), name))
	defer w.Close()
	w.SetModTime(mod)
	for chunk := range slices.Chunk(data, 1<<20) {
		must[int](t)(w.Write(chunk))
	}
	if err := b.Commit(t.Context(), w); err != nil {
		t.Fatal(err)
	}
}

func names(t testing.TB, b *s3.Bucket) (names []string) {
	t.Helper()
	for info, err := range b.List(t.Context(), "") {
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, info.Name)
	}
	return names
}

// A blob that is larger than memory is sent in parts, is invisible before its
// Commit, and can be read in any ranges.
func TestLarge(t *testing.T) {
	t.Parallel()
	services(t, func(t *testing.T, o s3.Options) {
		o.Memory = part
		o.Prefix = "p"
		b := must[*s3.Bucket](t)(s3.New(o))
		data := random(1, 2*part+12345)
		mod := time.Date(2026, 1, 2, 3, 4, 5, 678_901_000, time.UTC)
		w := must[blob.Writer](t)(b.Create(t.Context(), "d/large"))
		must[int](t)(w.Write(data))
		if got := names(t, b); len(got) > 0 {
			t.Errorf("before Commit there is %q", got)
		}
		w.SetModTime(mod) // too late once parts are sent: see below
		if err := b.Commit(t.Context(), w); err != nil {
			t.Fatal(err)
		}
		commit(t, b, "d/dated", data, mod)
		commit(t, b, "d/exact", data[:2*part], mod)
		if got := names(t, b); !slices.Equal(got, []string{"d/dated", "d/exact", "d/large"}) {
			t.Errorf("after Commit there is %q", got)
		}
		info := must[blob.Info](t)(b.Stat(t.Context(), "d/dated"))
		if info.Size != int64(len(data)) || !info.ModTime.Equal(mod) || info.Version == "" {
			t.Errorf("Stat = %+v", info)
		}
		r := must[blob.Reader](t)(b.Open(t.Context(), "d/large"))
		defer r.Close()
		if got := must[[]byte](t)(io.ReadAll(r)); !bytes.Equal(got, data) {
			t.Errorf("read %d other bytes", len(got))
		}
		var wg sync.WaitGroup
		for i := range 4 {
			wg.Go(func() {
				rnd := rand.New(rand.NewPCG(1, uint64(i)))
				for range 5 {
					off := rnd.Int64N(int64(len(data)))
					buf := make([]byte, rnd.IntN(3<<20))
					n, err := r.ReadAt(buf, off)
					want := data[off:min(off+int64(len(buf)), int64(len(data)))]
					if !bytes.Equal(buf[:n], want) || (err == nil) != (n == len(buf)) || err != nil && !errors.Is(err, io.EOF) {
						t.Errorf("ReadAt(%d, %d) = %d, %v", len(buf), off, n, err)
					}
				}
			})
		}
		wg.Wait()
		must[int64](t)(r.Seek(-10, io.SeekEnd))
		if got := must[[]byte](t)(io.ReadAll(r)); !bytes.Equal(got, data[len(data)-10:]) {
			t.Errorf("the end = %x", got)
		}
	})
}

// A Reader of a blob that it does not hold fails when the blob is replaced or
// removed, instead of mixing two versions.
func TestPinned(t *testing.T) {
	t.Parallel()
	services(t, func(t *testing.T, o s3.Options) {
		o.Memory = part
		b := must[*s3.Bucket](t)(s3.New(o))
		old, next := random(1, part+100), random(2, part+100)
		commit(t, b, "a", old, time.Time{})
		r := must[blob.Reader](t)(b.Open(t.Context(), "a"))
		buf := make([]byte, 100)
		must[int](t)(r.ReadAt(buf, 0))
		commit(t, b, "a", next, time.Time{})
		if n, err := r.ReadAt(buf, part); !errors.Is(err, s3.ErrChanged) || n != 0 || !strings.Contains(err.Error(), "/a: replaced") {
			t.Errorf("ReadAt of what was replaced = %d, %v", n, err)
		}
		r = must[blob.Reader](t)(b.Open(t.Context(), "a"))
		if err := b.Remove(t.Context(), "a"); err != nil {
			t.Fatal(err)
		}
		if n, err := r.ReadAt(buf, part); !errors.Is(err, blob.ErrNotExist) || n != 0 {
			t.Errorf("ReadAt of what was removed = %d, %v", n, err)
		}
	})
}

// A Commit makes blobs visible in the order given, large and small.
func TestOrder(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var seen []string
	watch := func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			next.ServeHTTP(w, r)
			q := r.URL.Query()
			if !strings.Contains(r.URL.Path, ".lockstep") && (r.Method == http.MethodPut && q.Get("partNumber") == "" || r.Method == http.MethodPost && q.Get("uploadId") != "") {
				mu.Lock()
				seen = append(seen, r.URL.Path)
				mu.Unlock()
			}
		})
	}
	b := open(t, s3.Options{Endpoint: fake(t, watch), Memory: part})
	var ws []blob.Writer
	var want []string
	for i, n := range []int{10, part + 1, 0, 2*part + 1, 3, 1} {
		name := fmt.Sprintf("n%d", 9-i)
		w := must[blob.Writer](t)(b.Create(t.Context(), name))
		must[int](t)(w.Write(random(byte(i), n)))
		ws, want = append(ws, w), append(want, "/"+bucket+"/"+name)
	}
	if err := b.Commit(t.Context(), ws...); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(seen, want) {
		t.Errorf("visible in order %q, want %q", seen, want)
	}
}

// Dropping a large blob leaves nothing behind, even if the context has ended.
func TestDropLarge(t *testing.T) {
	t.Parallel()
	services(t, func(t *testing.T, o s3.Options) {
		o.Memory = part
		b := must[*s3.Bucket](t)(s3.New(o))
		ctx, cancel := context.WithCancel(t.Context())
		w := must[blob.Writer](t)(b.Create(ctx, "a"))
		must[int](t)(w.Write(random(1, 2*part)))
		cancel()
		if err := w.Close(); err != nil {
			t.Error(err)
		}
		o.Abandoned = time.Nanosecond
		other := must[*s3.Bucket](t)(s3.New(o))
		if n, err := other.Sweep(t.Context(), slices.Values([]string(nil))); n != 0 || err != nil {
			t.Errorf("Sweep = %d, %v, want nothing to be left", n, err)
		}
	})
}

// Sweep removes unfinished uploads of dead processes: only Lockstep's own, not
// those being written, young, or to be kept.
func TestSweep(t *testing.T) {
	t.Parallel()
	services(t, func(t *testing.T, o s3.Options) {
		o.Memory = part
		died := must[*s3.Bucket](t)(s3.New(o))
		for _, name := range []string{"a", "d/b", "keep"} {
			w := must[blob.Writer](t)(died.Create(t.Context(), name))
			must[int](t)(w.Write(random(1, part+1)))
		}
		core := coreOf(t, o)
		theirs := must[string](t)(core.NewMultipartUpload(t.Context(), o.Bucket, "a", putOptions))
		b := must[*s3.Bucket](t)(s3.New(o))
		sweep := func(want int) {
			t.Helper()
			if n, err := b.Sweep(t.Context(), slices.Values([]string{"keep"})); n != want || err != nil {
				t.Errorf("Sweep = %d, %v, want %d", n, err, want)
			}
		}
		sweep(0)
		o.Abandoned = time.Nanosecond
		b = must[*s3.Bucket](t)(s3.New(o))
		w := must[blob.Writer](t)(b.Create(t.Context(), "writing"))
		must[int](t)(w.Write(random(1, part+1)))
		time.Sleep(1100 * time.Millisecond) // services count age in seconds
		sweep(2)
		sweep(0)
		if err := b.Commit(t.Context(), w); err != nil {
			t.Error(err)
		}
		if got := names(t, b); !slices.Equal(got, []string{"writing"}) {
			t.Errorf("there is %q", got)
		}
		var left []string
		for u := range core.ListIncompleteUploads(t.Context(), o.Bucket, "", true) {
			if u.Err != nil {
				t.Fatal(u.Err)
			}
			left = append(left, u.Key)
		}
		slices.Sort(left)
		if !slices.Equal(left, []string{"a", "keep"}) {
			t.Errorf("unfinished are %q, want theirs (%s) and the one to keep", left, theirs)
		}
	})
}

// Objects have the expected media type and caching.
func TestAttributes(t *testing.T) {
	t.Parallel()
	services(t, func(t *testing.T, o s3.Options) {
		o.Memory = part
		o.Attributes = func(name string) (string, string) {
			if strings.HasSuffix(name, ".xml") {
				return "application/xml; charset=utf-8", "no-cache"
			}
			return "", ""
		}
		b := must[*s3.Bucket](t)(s3.New(o))
		for name, n := range map[string]int{"small.xml": 10, "large.xml": part + 1, "other": 10} {
			commit(t, b, name, random(1, n), time.Time{})
			h := must[http.Header](t)(b.Head(t.Context(), name))
			typ, cache := "application/xml; charset=utf-8", "no-cache"
			if name == "other" {
				typ, cache = "application/octet-stream", ""
			}
			if strings.HasSuffix(t.Name(), "/fake") {
				cache = "" // the service does not store it
			}
			if h.Get("Content-Type") != typ || h.Get("Cache-Control") != cache {
				t.Errorf("%s has %q", name, h)
			}
		}
	})
}

// Many blobs written at a time do not fill memory: the excess goes to files,
// and from there to the bucket.
func TestManyWriters(t *testing.T) {
	t.Parallel()
	address := fake(t)
	b := open(t, s3.Options{Endpoint: address, Memory: part, TempDir: t.TempDir()})
	var ws []blob.Writer
	want := map[string][]byte{}
	data := random(1, 3*part)
	for i := range 16 {
		name := fmt.Sprintf("n%02d", i)
		want[name] = data[i*1000:][:9<<19] // 4.5 MB; one is several parts
		if i == 9 {
			want[name] = data
		}
		w := must[blob.Writer](t)(b.Create(t.Context(), name))
		for chunk := range slices.Chunk(want[name], 100_000) {
			must[int](t)(w.Write(chunk))
		}
		ws = append(ws, w)
	}
	if err := b.Commit(t.Context(), ws...); err != nil {
		t.Fatal(err)
	}
	for name, data := range want {
		r := must[blob.Reader](t)(b.Open(t.Context(), name))
		if got := must[[]byte](t)(io.ReadAll(r)); !bytes.Equal(got, data) {
			t.Errorf("%s has %d other bytes", name, len(got))
		}
	}
	b = open(t, s3.Options{Endpoint: address, Memory: part, TempDir: "/nonexistent/dir"})
	var err error
	for i := 0; i < 20 && err == nil; i++ {
		w := must[blob.Writer](t)(b.Create(t.Context(), "x"))
		defer w.Close()
		_, err = w.Write(want["n00"])
	}
	if err == nil || !strings.Contains(err.Error(), "write s3://bucket/x: keep what is to be sent: ") {
		t.Errorf("with no room for files: %v", err)
	}
}
