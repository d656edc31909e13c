package bench

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"lockstep/blob"
	"lockstep/catalog"
	intakedir "lockstep/intake/dir"
	"lockstep/internal/mediatype"
	"lockstep/source"
)

var (
	serveFiles   = flag.Int("serve.files", 1000, "small files to serve")
	serveClients = flag.Int("serve.clients", 32, "connections that ask for them")
)

// BenchmarkServe measures small files over loopback, clients included: ours
// beside net/http's file server, and a document, as it is and compressed.
func BenchmarkServe(b *testing.B) {
	dir := b.TempDir()
	for i := range *serveFiles {
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("file-%05d.txt", i)), make([]byte, 4096), 0o666); err != nil {
			b.Fatal(err)
		}
	}
	cat := catalog.NewMem(nil)
	files, err := intakedir.New(dir, cat, catalogSet, intakedir.Options{BaseURI: "https://data.example.org/"})
	if err != nil {
		b.Fatal(err)
	}
	if _, err := files.Scan(context.Background()); err != nil {
		b.Fatal(err)
	}
	src, err := source.New(cat, new(blob.Mem), source.Options{
		BaseURL: "https://data.example.org/", Content: files.Open, Type: mediatype.Of,
	})
	if err != nil {
		b.Fatal(err)
	}
	if _, err := src.Publish(context.Background()); err != nil {
		b.Fatal(err)
	}
	file := func(i int64) string { return fmt.Sprintf("/file-%05d.txt", i%int64(*serveFiles)) }
	list := func(int64) string { return "/resourcesync/main/resourcelist.xml" }
	ours := func() *http.Server { return source.NewServer(src.Handler()) }
	std := func() *http.Server { return &http.Server{Handler: http.FileServer(http.Dir(dir))} }
	for _, bb := range []struct {
		name   string
		server func() *http.Server
		target func(i int64) string
		header string
	}{
		{"resource", ours, file, ""},
		{"net-http", std, file, ""},
		{"document", ours, list, ""},
		{"document-gzip", ours, list, "Accept-Encoding: gzip\r\n"},
		{"home", ours, func(int64) string { return "/" }, ""},
	} {
		b.Run(bb.name, func(b *testing.B) { serve(b, bb.server(), bb.target, bb.header) })
	}
}

func serve(b *testing.B, server *http.Server, target func(int64) string, header string) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	go func() { _ = server.Serve(ln) }() // ends with Close
	defer server.Close()
	var next atomic.Int64
	var g sync.WaitGroup
	b.ResetTimer()
	for range *serveClients {
		g.Go(func() {
			conn, err := net.Dial("tcp", ln.Addr().String())
			if err != nil {
				b.Error(err)
				return
			}
			defer conn.Close()
			r := bufio.NewReader(conn)
			for i := next.Add(1); i <= int64(b.N); i = next.Add(1) {
				fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: data.example.org\r\n%s\r\n", target(i), header)
				resp, err := http.ReadResponse(r, nil)
				if err == nil {
					_, err = io.Copy(io.Discard, resp.Body)
				}
				if err != nil || resp.StatusCode != http.StatusOK {
					b.Errorf("%s: %v", target(i), err)
					return
				}
			}
		})
	}
	g.Wait()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "requests/s")
}
