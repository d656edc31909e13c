package s3_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"lockstep/blob"
	"lockstep/blob/s3"
	"lockstep/blob/s3/s3test"
)

// TestCheckConditions: a service that honors conditions is accepted, and nothing remains there;
// one that ignores them, of small objects or of uploads, is not.
func TestCheckConditions(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		service func(t *testing.T) s3.Options
		want    error
	}{
		"a real service":           {func(t *testing.T) s3.Options { return realBucket(t) }, nil},
		"one in memory":            {func(t *testing.T) s3.Options { return s3.Options{Endpoint: fake(t, s3test.Conditional)} }, nil},
		"one that ignores them":    {func(t *testing.T) s3.Options { return s3.Options{Endpoint: fake(t, s3test.Unconditional)} }, s3.ErrUnconditional},
		"one that does of uploads": {func(t *testing.T) s3.Options { return s3.Options{Endpoint: fake(t)} }, s3.ErrUnconditional},
	} {
		t.Run(strings.ReplaceAll(name, " ", "_"), func(t *testing.T) {
			t.Parallel()
			o := test.service(t)
			b := open(t, o)
			if o.Bucket != "" {
				var err error
				if b, err = s3.New(o); err != nil {
					t.Fatal(err)
				}
			}
			if err := s3.CheckConditions(t.Context(), b); !errors.Is(err, test.want) || test.want == nil && err != nil {
				t.Errorf("CheckConditions = %v, want %v", err, test.want)
			}
			for info, err := range b.List(t.Context(), "") {
				t.Errorf("%s, %v is left", info.Name, err)
			}
		})
	}
}

// TestExpect: a blob replaces the version that it expects and no other, also if the answer to its
// request is lost.
func TestExpect(t *testing.T) {
	t.Parallel()
	var lose sync.Once
	losing := func(next http.Handler) http.Handler { // the answer to one request
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodPut && strings.HasSuffix(r.URL.Path, "/lost") {
				lost := false
				lose.Do(func() {
					lost = true
					next.ServeHTTP(httptest.NewRecorder(), r)
				})
				if lost {
					panic(http.ErrAbortHandler)
				}
			}
			next.ServeHTTP(w, r)
		})
	}
	b := open(t, s3.Options{Endpoint: fake(t, s3test.Conditional, losing)})
	write := func(name, text, expected string) (string, error) {
		t.Helper()
		w, err := b.Create(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		defer w.Close()
		w.(blob.Conditional).Expect(expected)
		if _, err := w.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
		err = b.Commit(t.Context(), w)
		return w.(blob.Versioned).Version(), err
	}
	first, err := write("a", "1", "")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := write("a", "2", ""); !errors.Is(err, blob.ErrConflict) {
		t.Errorf("a blob that exists is created: %v", err)
	}
	second, err := write("a", "3", first)
	if err != nil || second == first {
		t.Errorf("the expected version is replaced by %q: %v", second, err)
	}
	if _, err := write("a", "4", first); !errors.Is(err, blob.ErrConflict) {
		t.Errorf("another version is replaced: %v", err)
	}
	if _, err := write("none", "5", first); !errors.Is(err, blob.ErrConflict) && !errors.Is(err, blob.ErrNotExist) {
		t.Errorf("a blob that does not exist is replaced: %v", err)
	}
	if tag, err := write("lost", "6", ""); err != nil || tag == "" {
		t.Errorf("a blob whose first answer was lost: %q, %v", tag, err)
	}
}
