package main

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"
	"github.com/rogpeppe/go-internal/testscript"

	"lockstep/cmd/lockstep/internal/mirror"
	"lockstep/cmd/lockstep/internal/term"
)

// bucketEnv is what programs for buckets take from the environment.
func bucketEnv(endpoint string) map[string]string {
	return map[string]string{
		"AWS_ENDPOINT_URL": endpoint, "AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_REGION": "us-east-1",
	}
}

// startBuckets serves buckets, each made when it is first written to, until
// stop is called, and returns the address of the service.
func startBuckets() (endpoint string, stop func(), err error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, err
	}
	fake := gofakes3.New(s3mem.New(), gofakes3.WithAutoBucket(true))
	srv := &http.Server{Handler: cacheControl(fake.Server()), ReadHeaderTimeout: readyLimit}
	go func() { _ = srv.Serve(l) }() // until it is closed
	return "http://" + l.Addr().String(), func() { _ = srv.Close() }, nil
}

// cacheControl makes the service keep the Cache-Control of objects, as others
// do.
func cacheControl(next http.Handler) http.Handler {
	var stated sync.Map // by path
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPut || r.Method == http.MethodPost {
			if v := r.Header.Get("Cache-Control"); v != "" {
				stated.Store(r.URL.Path, v)
			}
		} else if v, ok := stated.Load(r.URL.Path); ok {
			w.Header().Set("Cache-Control", v.(string))
		}
		next.ServeHTTP(w, r)
	})
}

// buckets: `buckets` starts a service for buckets and sets the environment for
// programs that use it.
func (w *world) buckets(ts *testscript.TestScript, args []string) {
	if len(args) != 0 {
		ts.Fatalf("usage: buckets")
	}
	endpoint, stop, err := startBuckets()
	ts.Check(err)
	ts.Defer(stop)
	for name, value := range bucketEnv(endpoint) {
		ts.Setenv(name, value)
	}
}

// object: `object put FILE BUCKET/KEY`, `object get BUCKET/KEY`, whose header
// and bytes go to stdout, `object remove BUCKET/KEY`.
func (w *world) object(ts *testscript.TestScript, args []string) {
	endpoint := ts.Getenv("AWS_ENDPOINT_URL") + "/"
	switch {
	case len(args) == 3 && args[0] == "put":
		text, err := os.ReadFile(ts.MkAbs(args[1]))
		ts.Check(err)
		_, _, err = askBuckets(http.MethodPut, endpoint+args[2], text)
		ts.Check(err)
	case len(args) == 2 && args[0] == "get":
		header, text, err := askBuckets(http.MethodGet, endpoint+args[1], nil)
		ts.Check(err)
		for _, name := range []string{"Content-Type", "Cache-Control"} {
			_, err = fmt.Fprintf(ts.Stdout(), "%s: %s\n", name, header.Get(name))
			ts.Check(err)
		}
		_, err = fmt.Fprintf(ts.Stdout(), "\n%s", text)
		ts.Check(err)
	case len(args) == 2 && args[0] == "remove":
		_, _, err := askBuckets(http.MethodDelete, endpoint+args[1], nil)
		ts.Check(err)
	default:
		ts.Fatalf("usage: object put FILE BUCKET/KEY | object get BUCKET/KEY | object remove BUCKET/KEY")
	}
}

// askBuckets makes a request that is not signed: the service of the tests does
// not ask for it.
func askBuckets(method, url string, body []byte) (http.Header, []byte, error) {
	req, err := http.NewRequest(method, url, bytes.NewReader(body))
	if err != nil {
		return nil, nil, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode >= http.StatusMultipleChoices {
		err = fmt.Errorf("%s %s: %s", method, url, resp.Status)
	}
	return resp.Header, text, err
}

// environment returns what a program started by a script gets to see.
func environment(ts *testscript.TestScript) []string {
	env := os.Environ()
	for _, name := range []string{"HOME", "XDG_STATE_HOME", "AWS_ENDPOINT_URL", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_REGION"} {
		if v := ts.Getenv(name); v != "" {
			env = append(env, name+"="+v)
		}
	}
	return env
}

func TestBucketAddress(t *testing.T) {
	t.Parallel()
	nothing := func(string) (string, bool) { return "", false }
	for address, want := range map[string]string{
		"s3://":            "want s3://BUCKET",
		"s3:///x":          "want s3://BUCKET",
		"s3://bucket":      "",
		"s3://bucket/a/b/": "",
	} {
		b, err := mirror.OpenBucket(address, mirror.BucketClient{LookupEnv: nothing})
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("openBucket(%q) = %v, %v, want %q", address, b, err, want)
		}
	}
	half := func(name string) (string, bool) { return "key", name == "AWS_ACCESS_KEY_ID" }
	if _, err := mirror.OpenBucket("s3://bucket", mirror.BucketClient{LookupEnv: half}); err == nil || !strings.Contains(term.HintOf(err), "AWS_SECRET_ACCESS_KEY") {
		t.Errorf("half a credential: %v, hint %q", err, term.HintOf(err))
	}
}
