package s3_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"lockstep/blob"
	"lockstep/blob/s3"
)

// serving returns a bucket of a service with the given answers.
func serving(t testing.TB, o s3.Options, answer http.HandlerFunc) *s3.Bucket {
	t.Helper()
	server := httptest.NewServer(answer)
	t.Cleanup(server.Close)
	o.Endpoint = server.URL
	return open(t, o)
}

// said returns the text of the error with its hint.
func said(err error) string {
	if err == nil {
		return "no error"
	}
	if h, ok := errors.AsType[interface {
		error
		Hint() string
	}](err); ok {
		return err.Error() + " | " + h.Hint()
	}
	return err.Error()
}

// lateLookup fails as if a name server did not answer.
func lateLookup(_ context.Context, network, address string) (net.Conn, error) {
	host, _, _ := net.SplitHostPort(address)
	return nil, &net.OpError{Op: "dial", Net: network, Err: &net.DNSError{Err: "i/o timeout", Name: host, IsTimeout: true, UnwrapErr: context.DeadlineExceeded}}
}

// TestErrors: errors state the cause in words, with bucket and key, and a hint.
func TestErrors(t *testing.T) {
	t.Parallel()
	closed := httptest.NewServer(nil)
	closed.Close()
	status := func(status int, header, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			if name, value, ok := strings.Cut(header, ": "); ok {
				w.Header().Set(name, value)
			}
			w.WriteHeader(status)
			_, _ = io.WriteString(w, body)
		}
	}
	code := func(status int, code, message string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(status)
			_, _ = fmt.Fprintf(w, "<Error><Code>%s</Code><Message>%s</Message></Error>", code, message)
		}
	}
	for _, tt := range []struct {
		name   string
		answer http.HandlerFunc
		want   []string
		is     error
	}{
		{"denied", code(403, "AccessDenied", "Access Denied."), []string{"Access Denied (AccessDenied)", "s3:GetObject"}, fs.ErrPermission},
		{"key", code(403, "InvalidAccessKeyId", "Unknown."), []string{"Unknown (InvalidAccessKeyId)", "AWS_ACCESS_KEY_ID"}, fs.ErrPermission},
		{"secret", code(403, "SignatureDoesNotMatch", "Wrong."), []string{"AWS_SECRET_ACCESS_KEY"}, fs.ErrPermission},
		{"session", code(400, "ExpiredToken", "Expired."), []string{"new credentials"}, fs.ErrPermission},
		{"clock", code(403, "RequestTimeTooSkewed", "The clocks differ."), []string{"clock of this machine"}, nil},
		{"region", code(400, "AuthorizationHeaderMalformed", "the region 'us-east-1' is wrong"), []string{"AWS_REGION"}, nil},
		{"no bucket", code(404, "NoSuchBucket", "No."), []string{"the bucket does not exist", "AWS_ENDPOINT_URL"}, s3.ErrNoBucket},
		{"html", status(200, "Content-Type: text/html", "<!DOCTYPE html><html><body>hello<br>"), []string{"not of an S3 service", "endpoint"}, nil},
		{"full", code(507, "XMinioStorageFull", "Storage backend has reached its minimum free drive threshold."), []string{"minimum free drive"}, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			b := serving(t, s3.Options{Attempts: 1}, tt.answer)
			var err error
			for _, e := range b.List(t.Context(), "d/") {
				err = e
			}
			errs := map[string]error{"list s3://bucket/d/": err}
			if tt.name != "html" { // an object may be anything
				_, errs["open s3://bucket/d/a"] = b.Open(t.Context(), "d/a")
				_, errs["stat s3://bucket/d/a"] = b.Stat(t.Context(), "d/a")
				w := must[blob.Writer](t)(b.Create(t.Context(), "d/a"))
				errs["put s3://bucket/d/a"] = b.Commit(t.Context(), w)
			}
			for op, err := range errs {
				for _, want := range append(tt.want, op+": ") {
					if !strings.Contains(said(err), want) {
						t.Errorf("%s = %s\nwant %q", op, said(err), want)
					}
				}
				if tt.is != nil && !errors.Is(err, tt.is) {
					t.Errorf("%s = %v, want %v", op, err, tt.is)
				}
			}
		})
	}
	t.Run("refused", func(t *testing.T) {
		t.Parallel()
		b := open(t, s3.Options{Endpoint: closed.URL, Attempts: 2})
		_, err := b.Stat(t.Context(), "a")
		if s := said(err); !strings.Contains(s, "stat s3://bucket/a: dial tcp 127.0.0.1") || !strings.Contains(s, "AWS_ENDPOINT_URL") {
			t.Errorf("Stat = %s", s)
		}
	})
	// That the service does not answer in time is no end of the caller's own run.
	silent := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
	t.Cleanup(silent.Close)
	for name, tt := range map[string]struct {
		endpoint  string
		transport *http.Transport
		want      string
	}{
		"no connection": {"http://192.0.2.1:9", &http.Transport{DialContext: (&net.Dialer{Timeout: 1}).DialContext}, "stat s3://bucket/a: dial tcp 192.0.2.1:9: i/o timeout"},
		"no name":       {"http://service.invalid", &http.Transport{DialContext: lateLookup}, "stat s3://bucket/a: dial tcp: lookup service.invalid: i/o timeout"},
		"no answer":     {silent.URL, &http.Transport{ResponseHeaderTimeout: 10 * time.Millisecond}, "stat s3://bucket/a: net/http: timeout awaiting response headers"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := open(t, s3.Options{Endpoint: tt.endpoint, Attempts: 1, Transport: tt.transport})
			_, err := b.Stat(t.Context(), "a")
			if s := said(err); !strings.HasPrefix(s, tt.want) || !strings.Contains(s, tt.endpoint) || !strings.Contains(s, "AWS_ENDPOINT_URL") {
				t.Errorf("Stat = %s, want %s, and where the service is", s, tt.want)
			}
			if errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, blob.ErrUnavailable) {
				t.Errorf("Stat = %v, which counts as the end of the run, or not as a failure of the service", err)
			}
			ended, cancel := context.WithCancel(t.Context())
			cancel()
			if _, err := b.Stat(ended, "a"); !errors.Is(err, context.Canceled) || strings.Contains(said(err), "AWS_ENDPOINT_URL") {
				t.Errorf("after the end of the run: Stat = %s", said(err))
			}
		})
	}
	t.Run("plain", func(t *testing.T) {
		t.Parallel()
		b := open(t, s3.Options{Endpoint: strings.Replace(fake(t), "http:", "https:", 1), Attempts: 1})
		_, err := b.Stat(t.Context(), "a")
		if s := said(err); !strings.Contains(s, "plain HTTP") {
			t.Errorf("Stat = %s", s)
		}
	})
	t.Run("unsigned", func(t *testing.T) {
		t.Parallel()
		server := httptest.NewServer(code(403, "AccessDenied", "Access Denied"))
		t.Cleanup(server.Close)
		b := must[*s3.Bucket](t)(s3.New(s3.Options{Endpoint: server.URL, Bucket: bucket, Attempts: 1}))
		_, err := b.Open(t.Context(), "a")
		if s := said(err); !strings.Contains(s, "no credentials were given: set AWS_ACCESS_KEY_ID") {
			t.Errorf("Open = %s", s)
		}
	})
}

// TestRealErrors tests the same with a real service.
func TestRealErrors(t *testing.T) {
	t.Parallel()
	o := realBucket(t)
	for name, tt := range map[string]struct {
		bend func(*s3.Options)
		want string
	}{
		"key":      {func(o *s3.Options) { o.AccessKey = "nobody" }, "AWS_ACCESS_KEY_ID"},
		"secret":   {func(o *s3.Options) { o.SecretKey = "wrong" }, "AWS_SECRET_ACCESS_KEY"},
		"bucket":   {func(o *s3.Options) { o.Bucket = "not-there" }, "the bucket does not exist"},
		"region":   {func(o *s3.Options) { o.Region = "eu-west-9" }, "AWS_REGION"},
		"unsigned": {func(o *s3.Options) { o.AccessKey, o.SecretKey = "", "" }, "no credentials"},
	} {
		o := o
		tt.bend(&o)
		b := must[*s3.Bucket](t)(s3.New(o))
		_, err := b.Open(t.Context(), "a")
		if s := said(err); !strings.Contains(s, tt.want) || !strings.Contains(s, "open s3://"+o.Bucket+"/a: ") {
			t.Errorf("%s: %s, want %q", name, s, tt.want)
		}
		_, err = b.Stat(t.Context(), "a")
		if s := said(err); !strings.Contains(s, tt.want) {
			t.Errorf("%s: %s, want %q", name, s, tt.want)
		}
	}
}

// TestAttempts: an overloaded service is retried, but not forever.
func TestAttempts(t *testing.T) {
	t.Parallel()
	var asked atomic.Int64
	b := serving(t, s3.Options{Attempts: 3}, func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		w.WriteHeader(http.StatusServiceUnavailable)
		_, _ = io.WriteString(w, "<Error><Code>SlowDown</Code><Message>Please reduce your request rate.</Message></Error>")
	})
	start := time.Now()
	_, err := b.Open(t.Context(), "a")
	if asked.Load() != 3 || err == nil || !strings.Contains(err.Error(), "reduce your request rate (SlowDown)") || time.Since(start) > 40*time.Second {
		t.Errorf("asked %d times in %v: %v", asked.Load(), time.Since(start), err)
	}
}

// breaking truncates the body of every nth answer to a GET of an object.
func breaking(n int64, count *atomic.Int64) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method != http.MethodGet || r.URL.Query().Has("list-type") || count.Add(1)%n != 0 {
				next.ServeHTTP(w, r)
				return
			}
			rec := httptest.NewRecorder()
			next.ServeHTTP(rec, r)
			for name, values := range rec.Header() {
				w.Header()[name] = values
			}
			w.Header().Set("Content-Length", fmt.Sprint(rec.Body.Len()))
			w.WriteHeader(rec.Code)
			_, _ = w.Write(rec.Body.Bytes()[:rec.Body.Len()/2])
			_ = http.NewResponseController(w).Flush() // so that the client sees the half
			panic(http.ErrAbortHandler)
		})
	}
}

// TestBroken: a truncated answer is requested again, but not forever.
func TestBroken(t *testing.T) {
	t.Parallel()
	data := random(1, part+1000)
	for _, n := range []int64{1, 2} {
		var count atomic.Int64
		b := open(t, s3.Options{Endpoint: fake(t, breaking(n, &count)), Memory: part, Attempts: 3})
		commit(t, b, "small", data[:1000], time.Time{})
		commit(t, b, "large", data, time.Time{})
		count.Store(1)
		for name, want := range map[string][]byte{"small": data[:1000], "large": data} {
			var got []byte
			r, err := b.Open(t.Context(), name)
			if err == nil {
				got, err = io.ReadAll(r)
			}
			switch {
			case n == 1 && (err == nil || !strings.Contains(err.Error(), "broke off after")):
				t.Errorf("always broken: %v", err)
			case n == 2 && (err != nil || !bytes.Equal(got, want)):
				t.Errorf("broken now and then: %d bytes, %v", len(got), err)
			}
		}
	}
}

// TestAnswerLost: an upload whose completion was not confirmed counts as
// complete if the object exists.
func TestAnswerLost(t *testing.T) {
	t.Parallel()
	var lost atomic.Bool
	losing := func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodPost && r.URL.Query().Has("uploadId") && lost.CompareAndSwap(false, true) {
				next.ServeHTTP(httptest.NewRecorder(), r)
				panic(http.ErrAbortHandler)
			}
			next.ServeHTTP(w, r)
		})
	}
	b := open(t, s3.Options{Endpoint: fake(t, losing), Memory: part})
	data := random(1, part+1)
	commit(t, b, "a", data, time.Time{})
	if r := must[blob.Reader](t)(b.Open(t.Context(), "a")); !bytes.Equal(must[[]byte](t)(io.ReadAll(r)), data) || !lost.Load() {
		t.Error("read something else")
	}
}

// TestCommitAgain: blobs that a Commit could not make visible can be committed
// again.
func TestCommitAgain(t *testing.T) {
	t.Parallel()
	var down atomic.Bool
	failing := func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if down.Load() && !strings.Contains(r.URL.Path, "first") {
				w.WriteHeader(http.StatusForbidden)
				return
			}
			next.ServeHTTP(w, r)
		})
	}
	b := open(t, s3.Options{Endpoint: fake(t, failing), Memory: part})
	var ws []blob.Writer
	want := map[string][]byte{"first": random(1, 10), "large": random(2, part+7), "last": random(3, 9)}
	for _, name := range []string{"first", "large", "last"} {
		w := must[blob.Writer](t)(b.Create(t.Context(), name))
		must[int](t)(w.Write(want[name]))
		ws = append(ws, w)
	}
	down.Store(true)
	err := b.Commit(t.Context(), ws...)
	commitErr, ok := errors.AsType[*blob.CommitError](err)
	if !ok || commitErr.Name != "large" {
		t.Fatalf("Commit = %v, want one that names large", err)
	}
	down.Store(false)
	if err := b.Commit(t.Context(), ws[commitErr.Done:]...); err != nil {
		t.Fatal(err)
	}
	for name, data := range want {
		r := must[blob.Reader](t)(b.Open(t.Context(), name))
		if got := must[[]byte](t)(io.ReadAll(r)); !bytes.Equal(got, data) {
			t.Errorf("%s has %d other bytes", name, len(got))
		}
	}
}

// TestStops: long operations stop with their context.
func TestStops(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancelCause(t.Context())
	b := serving(t, s3.Options{}, func(_ http.ResponseWriter, r *http.Request) {
		cancel(errors.New("enough"))
		<-r.Context().Done()
	})
	_, err := b.Open(ctx, "a")
	if !errors.Is(err, context.Canceled) {
		t.Errorf("Open = %v", err)
	}
	n := 0
	for _, err := range b.List(ctx, "") {
		if n++; err == nil {
			t.Error("List goes on")
		}
	}
	if n != 1 {
		t.Errorf("List yields %d errors", n)
	}
}

// TestCommitParallel makes one blob of many fail: the error names it, all
// others that can be are visible, and committing the rest again costs nothing
// for those.
func TestCommitParallel(t *testing.T) {
	t.Parallel()
	const n = 40
	var down atomic.Bool
	var puts atomic.Int64
	failing := func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodPut {
				puts.Add(1)
			}
			if down.Load() && strings.HasSuffix(r.URL.Path, "/blob-05") {
				w.WriteHeader(http.StatusForbidden)
				return
			}
			next.ServeHTTP(w, r)
		})
	}
	b := open(t, s3.Options{Endpoint: fake(t, failing), Memory: part, Parallel: 8})
	var ws []blob.Writer
	for i := range n {
		w := must[blob.Writer](t)(b.Create(t.Context(), fmt.Sprintf("blob-%02d", i)))
		w.(blob.Typed).SetType("text/x-test")
		must[int](t)(fmt.Fprint(w, i))
		ws = append(ws, w)
	}
	down.Store(true)
	err := b.Commit(t.Context(), ws...)
	commitErr, ok := errors.AsType[*blob.CommitError](err)
	if !ok || commitErr.Done != 5 || commitErr.Name != "blob-05" || !errors.Is(err, blob.ErrUnavailable) {
		t.Fatalf("Commit = %v, want one that names blob-05", err)
	}
	down.Store(false)
	if err := b.Commit(t.Context(), ws[5:]...); err != nil {
		t.Fatal(err)
	}
	if got := puts.Load(); got > n+1 {
		t.Errorf("%d PUTs for %d blobs, want one more", got, n)
	}
	for i := range n {
		r := must[blob.Reader](t)(b.Open(t.Context(), fmt.Sprintf("blob-%02d", i)))
		if got := must[[]byte](t)(io.ReadAll(r)); string(got) != fmt.Sprint(i) {
			t.Errorf("blob %d is %q", i, got)
		}
	}
	if h := must[http.Header](t)(b.Head(t.Context(), "blob-07")); h.Get("Content-Type") != "text/x-test" {
		t.Errorf("type %q", h.Get("Content-Type"))
	}
}
