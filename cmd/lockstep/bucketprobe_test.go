package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

func TestAnUnreachableBucketIsFoundBeforeTheFirstResource(t *testing.T) {
	t.Parallel()
	var fetched atomic.Int64
	srv := brokenSource(t, 50, func(w http.ResponseWriter, _ *http.Request) {
		fetched.Add(1)
		_, _ = fmt.Fprint(w, "x")
	})
	dead := freeAddress(t) // connections to it are refused
	denied := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusForbidden)
		_, _ = fmt.Fprint(w, `<?xml version="1.0"?><Error><Code>AccessDenied</Code><Message>no</Message></Error>`)
	}))
	t.Cleanup(denied.Close)
	var all sync.WaitGroup // each is patient with a bucket that does not answer
	for name, endpoint := range map[string]string{dead: "http://" + dead, "s3://copies/mirror": denied.URL} {
		for _, args := range [][]string{
			{"sync", srv.URL + "/sitemap.xml", "s3://copies/mirror", "--state", filepath.Join(t.TempDir(), "state")},
			{"follow", srv.URL + "/sitemap.xml", "s3://copies/mirror", "--state", filepath.Join(t.TempDir(), "state")},
			{"audit", srv.URL + "/sitemap.xml", "s3://copies/mirror", "--state", filepath.Join(t.TempDir(), "state")},
			{"publish", t.TempDir(), "--out", "s3://copies/mirror", "--base-url", "http://x.org/", "--state", filepath.Join(t.TempDir(), "state")},
		} {
			all.Go(func() {
				cmd := exec.Command("lockstep", args...)
				cmd.Env = append(os.Environ(), "AWS_ENDPOINT_URL="+endpoint, "AWS_ACCESS_KEY_ID=a", "AWS_SECRET_ACCESS_KEY=b", "AWS_REGION=us-east-1")
				out, err := cmd.CombinedOutput()
				if err == nil || cmd.ProcessState.ExitCode() != 1 || !strings.Contains(string(out), name) || !strings.Contains(string(out), "hint: ") {
					t.Errorf("%v: %v, want exit code 1, the address %s and a hint:\n%.1000s", args, err, name, out)
				}
			})
		}
	}
	all.Wait()
	if n := fetched.Load(); n != 0 {
		t.Errorf("%d resources were fetched", n)
	}
}
