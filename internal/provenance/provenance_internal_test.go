package provenance

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"lockstep/internal/fetch"
	"lockstep/resourcesync"
)

// newChecker returns a Checker that may request addresses of this machine.
func newChecker(t *testing.T, o Options) *Checker {
	t.Helper()
	client, err := fetch.New(fetch.Options{AllowPrivate: true, Retries: -1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return New(client, o)
}

// serve starts an origin.
func serve(t *testing.T, h http.HandlerFunc) string {
	t.Helper()
	srv := httptest.NewServer(h)
	t.Cleanup(srv.Close)
	return srv.URL
}

// yield yields n copies of resources at origin, each second one with a via link.
func yield(origin string, n int) iter.Seq2[Copy, error] {
	return func(yield func(Copy, error) bool) {
		via := &resourcesync.Link{} // the same memory for all
		for i := range n {
			one := Copy{URI: fmt.Sprintf("http://copy.example/%d", i), Hashes: hashed("a", resourcesync.SHA256), Length: 1}
			if i%2 == 0 {
				*via = resourcesync.Link{Rel: "via", Href: fmt.Sprintf("%s/%d", origin, i)}
				one.Via = via
			}
			if !yield(one, nil) {
				return
			}
		}
	}
}

// TestSampleIsChosenAgainByItsSeed: each copy with a via link can be in it.
func TestSampleIsChosenAgainByItsSeed(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var asked []string
	origin := serve(t, func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		asked = append(asked, r.URL.Path)
		fmt.Fprint(w, "a")
	})
	choice := func(seed uint64) (Report, string) {
		asked = nil
		r, err := newChecker(t, Options{Sample: 5, Seed: seed}).Run(t.Context(), yield(origin, 1000))
		if err != nil {
			t.Fatal(err)
		}
		slices.Sort(asked)
		return r, strings.Join(slices.Compact(asked), " ")
	}
	r, first := choice(0)
	if r.Copies != 500 || r.WithoutVia != 500 || r.Checked != 5 || r.Identical != 5 || len(r.Findings) != 0 || r.Seed == 0 || strings.Count(first, " ") != 4 {
		t.Errorf("report %+v of a sample of %s, want 5 of 500", r, first)
	}
	if _, again := choice(r.Seed); again != first {
		t.Errorf("sample %s, then with the same seed %s", first, again)
	}
	if _, other := choice(r.Seed + 1); other == first {
		t.Errorf("sample %s with two seeds", first)
	}
}

// TestFindingsAreCountedBeyondThoseListed: memory does not grow with the findings.
func TestFindingsAreCountedBeyondThoseListed(t *testing.T) {
	t.Parallel()
	const n = maxListed + 10
	reported := 0
	c := newChecker(t, Options{Sample: SampleAll, OnFinding: func(Finding) { reported++ }})
	r, err := c.Run(t.Context(), func(yield func(Copy, error) bool) {
		for range n {
			if !yield(Copy{URI: "http://copy.example/", Via: &resourcesync.Link{Href: "urn:x"}, Length: -1}, nil) {
				return
			}
		}
	})
	if err != nil || r.Unchecked != n || len(r.Findings) != maxListed || r.Omitted != n-maxListed || reported != n {
		t.Errorf("%d unchecked, %d listed, %d omitted, %d reported, %v; want %d", r.Unchecked, len(r.Findings), r.Omitted, reported, err, n)
	}
}

// TestRunEndsWithItsContext, also when all copies were sent to the workers, and with the
// error of the copies.
func TestRunEndsWithItsContext(t *testing.T) {
	t.Parallel()
	cause := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	origin := serve(t, func(_ http.ResponseWriter, r *http.Request) {
		cancel(cause)
		<-r.Context().Done()
	})
	for _, n := range []int{1, 1000} {
		if r, err := newChecker(t, Options{Sample: SampleAll}).Run(ctx, yield(origin, n)); !errors.Is(err, cause) || r.Checked > 0 {
			t.Errorf("%d copies: Run() = %+v, %v; want %v", n, r, err, cause)
		}
	}
	broken := func(yield func(Copy, error) bool) { yield(Copy{}, cause) }
	if _, err := newChecker(t, Options{Sample: 1}).Run(t.Context(), broken); !errors.Is(err, cause) {
		t.Errorf("Run() = %v, want %v", err, cause)
	}
}

// TestASlowOriginIsGivenUp: the time for one resource is limited, even if bytes arrive,
// and a host that is too slow again and again is not asked any more.
func TestASlowOriginIsGivenUp(t *testing.T) {
	t.Parallel()
	origin := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusOK)
		_ = http.NewResponseController(w).Flush() // the client may be gone
		<-r.Context().Done()
	})
	c := newChecker(t, Options{Sample: SampleAll, Jobs: 1})
	c.patience = 1
	r, err := c.Run(t.Context(), yield(origin, 2*maxSlow+4))
	if err != nil || r.Unchecked != maxSlow+2 {
		t.Fatalf("%+v, %v; want %d unchecked", r, err, maxSlow+2)
	}
	for i, f := range r.Findings {
		if again := strings.Contains(f.Cause, "not asked any more"); !strings.HasPrefix(f.Cause, errSlow.Error()) || again != (i >= maxSlow) {
			t.Errorf("%d: %s", i, f.Cause)
		}
	}
}

// TestBytesAreReadWhereHashesCannotBeCompared: the link and the copy may have hashes of
// different algorithms, or none.
func TestBytesAreReadWhereHashesCannotBeCompared(t *testing.T) {
	t.Parallel()
	const sha, md5 = resourcesync.SHA256, resourcesync.MD5
	origin := serve(t, func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, "origin") })
	tests := []struct {
		name   string
		held   resourcesync.Hashes
		length int64
		bytes  string
		stated resourcesync.Hashes
		want   Verdict
	}{
		{"other algorithms", hashed("copied", md5), 6, "copied", hashed("origin", sha), Altered},
		{"other algorithms, and the bytes are damaged", hashed("copied", md5), 6, "c0pied", hashed("origin", sha), Unclear},
		{"no hash of the copy", nil, -1, "copied", hashed("origin", sha), Altered},
		{"no hash at all", nil, -1, "origin", nil, Identical},
		{"another length than recorded", nil, 5, "origin", hashed("copied", sha), Unclear},
		{"comparable hashes", hashed("copied", md5), 6, "not read", hashed("copied", md5), Changed},
	}
	for _, tt := range tests {
		c := newChecker(t, Options{})
		one := &Copy{URI: "http://copy.example/", Via: &resourcesync.Link{Href: origin + "/", Hashes: tt.stated}, Hashes: tt.held, Length: tt.length}
		one.Open = func(context.Context) (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(tt.bytes)), nil }
		if err := c.Check(t.Context(), one); err != nil {
			t.Fatal(err)
		}
		r := c.Report()
		if got := *r.count(tt.want); got != 1 {
			t.Errorf("%s: %+v, want %s", tt.name, r, tt.want)
		}
	}
}

// TestACopyIsNotItsOwnOrigin: a link, or a redirect, may lead back.
func TestACopyIsNotItsOwnOrigin(t *testing.T) {
	t.Parallel()
	origin := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/origin" {
			http.Redirect(w, r, "/copy", http.StatusFound)
			return
		}
		fmt.Fprint(w, "a")
	})
	for _, path := range []string{"/copy", "/origin"} {
		c := newChecker(t, Options{})
		one := &Copy{URI: origin + "/copy", Via: &resourcesync.Link{Href: origin + path}, Hashes: hashed("a", resourcesync.SHA256), Length: 1}
		if err := c.Check(t.Context(), one); err != nil {
			t.Fatal(err)
		}
		if r := c.Report(); r.Unchecked != 1 || !strings.Contains(r.Findings[0].Cause, "itself") {
			t.Errorf("%s: %+v, want unchecked", path, r)
		}
	}
}
