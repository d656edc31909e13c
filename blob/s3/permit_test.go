package s3_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"lockstep/blob"
	"lockstep/blob/blobtest"
	"lockstep/blob/s3"
	"lockstep/blob/s3/s3test"
)

var errMayNot = errors.New("this process must not write any more")

// A writing process may lose the right to write.
type writing struct{ lost atomic.Bool }

func (w *writing) may() error {
	if w.lost.Load() {
		return errMayNot
	}
	return nil
}

// With conditions a bucket is a store like any other.
func TestConditional(t *testing.T) {
	t.Parallel()
	blobtest.RunLimits(t, limits, func(t *testing.T) blob.Store {
		return open(t, s3.Options{Endpoint: fake(t, s3test.Conditional), MayWrite: new(writing).may})
	})
	t.Run("versity", func(t *testing.T) {
		limits := limits
		limits.LosesInFolders = true
		blobtest.RunLimits(t, limits, func(t *testing.T) blob.Store {
			o := realBucket(t)
			o.MayWrite = new(writing).may
			b, err := s3.New(o)
			if err != nil {
				t.Fatal(err)
			}
			return b
		})
	})
}

// A request that a process sent while it could write, and that arrives when another one has
// written, changes nothing, whatever the content.
func TestLateRequest(t *testing.T) {
	t.Parallel()
	for _, large := range []bool{false, true} {
		for _, before := range []bool{false, true} {
			held, arrived := make(chan struct{}), make(chan struct{})
			var hold atomic.Bool
			endpoint := fake(t, s3test.Conditional, func(next http.Handler) http.Handler {
				return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					switches := r.Method == http.MethodPut && !large || r.Method == http.MethodPost && r.URL.Query().Has("uploadId")
					if switches && hold.CompareAndSwap(true, false) {
						close(arrived)
						<-held
					}
					next.ServeHTTP(w, r)
				})
			})
			size := 10
			if large {
				size = 9 << 20
			}
			old := writing{}
			first, second := open(t, s3.Options{Endpoint: endpoint, MayWrite: old.may}), open(t, s3.Options{Endpoint: endpoint, MayWrite: new(writing).may})
			if before {
				commitText(t, first, "name", strings.Repeat("0", size))
			}
			hold.Store(true)
			ended := make(chan error)
			go func() {
				w, err := first.Create(context.Background(), "name")
				if err == nil {
					_, err = io.WriteString(w, strings.Repeat("1", size))
				}
				if err == nil {
					err = first.Commit(context.Background(), w)
				}
				ended <- err
			}()
			<-arrived
			old.lost.Store(true)
			commitText(t, second, "name", strings.Repeat("2", size))
			close(held)
			if err := <-ended; !errors.Is(err, errMayNot) {
				t.Errorf("large %v, before %v: %v", large, before, err)
			}
			if got := contentOf(t, second, "name"); got != strings.Repeat("2", size) {
				t.Errorf("large %v, before %v: the late request has replaced the object: %.10s", large, before, got)
			}
			w, err := first.Create(t.Context(), "other")
			if err != nil {
				t.Fatal(err)
			}
			if err := first.Commit(t.Context(), w); !errors.Is(err, errMayNot) {
				t.Errorf("a process that must not write: %v", err)
			}
		}
	}
}

// A service that refuses each condition is asked a few times, and not again when what was
// not stored is committed once more.
func TestContradiction(t *testing.T) {
	t.Parallel()
	var puts atomic.Int64
	endpoint := fake(t, s3test.Conditional, func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method != http.MethodPut {
				next.ServeHTTP(w, r)
				return
			}
			puts.Add(1)
			w.WriteHeader(http.StatusPreconditionFailed)
			_, _ = io.WriteString(w, `<?xml version="1.0"?><Error><Code>PreconditionFailed</Code></Error>`)
		})
	})
	b := open(t, s3.Options{Endpoint: endpoint, MayWrite: new(writing).may})
	w, err := b.Create(t.Context(), "name")
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	for range 20 {
		if err := b.Commit(t.Context(), w); err == nil || !strings.Contains(err.Error(), "refuses each condition") {
			t.Fatalf("Commit: %v", err)
		}
	}
	if n := puts.Load(); n > 10 {
		t.Errorf("%d requests", n)
	}
}

func commitText(t *testing.T, b *s3.Bucket, name, text string) {
	t.Helper()
	w, err := b.Create(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(w, text); err != nil {
		t.Fatal(err)
	}
	if err := b.Commit(t.Context(), w); err != nil {
		t.Fatal(err)
	}
}

func contentOf(t *testing.T, b *s3.Bucket, name string) string {
	t.Helper()
	r, err := b.Open(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	data, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}
