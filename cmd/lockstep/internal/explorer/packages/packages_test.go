package packages_test

import (
	"archive/zip"
	"bytes"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"lockstep/cmd/lockstep/internal/explorer/packages"
	"lockstep/internal/fetch"
)

// TestSlowPackage: while a package is being opened, others are; and the slow one is requested once.
func TestSlowPackage(t *testing.T) {
	t.Parallel()
	var content bytes.Buffer
	if err := zip.NewWriter(&content).Close(); err != nil {
		t.Fatal(err)
	}
	asked, release := make(chan struct{}, 100), make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/slow.zip" {
			asked <- struct{}{}
			<-release
		}
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(content.Bytes()))
	}))
	defer server.Close()
	client, err := fetch.New(fetch.Options{AllowPrivate: true})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	shelf := packages.NewShelf(8)
	get := func(name string) <-chan *packages.Package {
		got := make(chan *packages.Package, 1)
		go func() {
			uri := server.URL + name
			p, err := shelf.Get(t.Context(), uri, func() (*packages.Package, error) { return packages.Open(t.Context(), client, uri, t.TempDir()) })
			if err != nil {
				t.Error(err)
			}
			got <- p
		}()
		return got
	}
	slow := get("/slow.zip")
	<-asked
	same := get("/slow.zip")
	select {
	case <-get("/fast.zip"):
	case <-time.After(30 * time.Second):
		t.Error("another package waits for the slow one")
	}
	close(release)
	if a, b := <-slow, <-same; a != b || a == nil {
		t.Errorf("the slow package is %p and %p", a, b)
	}
	if n := len(asked); n > 0 {
		t.Errorf("%d further requests for the slow package", n)
	}
	shelf.Close()
}
