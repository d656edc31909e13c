package compare_test

import (
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/spf13/pflag"

	"lockstep/cmd/lockstep/internal/explorer/compare"
	"lockstep/cmd/lockstep/internal/explorer/spool"
	"lockstep/cmd/lockstep/internal/network"
	"lockstep/cmd/lockstep/internal/term"
	"lockstep/destination"
	"lockstep/internal/mirrordir"
)

// TestWithMirror compares a Source with a mirror while another process has it open, and
// leaves nothing behind.
func TestWithMirror(t *testing.T) {
	t.Parallel()
	var changed atomic.Bool
	var server *httptest.Server
	server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		a := "a1"
		if changed.Load() {
			a = "a-changed"
		}
		switch r.URL.Path {
		case "/sitemap.xml":
			_, _ = fmt.Fprintf(w, `<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9" xmlns:rs="http://www.openarchives.org/rs/terms/"><rs:md capability="resourcelist" at="2026-01-02T00:00:00Z"/>
				<url><loc>%s/a</loc><lastmod>2026-01-01T00:00:00Z</lastmod><rs:md length="%d"/></url><url><loc>%s/b</loc><lastmod>2026-01-01T00:00:00Z</lastmod><rs:md length="1"/></url></urlset>`, server.URL, len(a), server.URL)
		case "/a":
			_, _ = io.WriteString(w, a)
		case "/b":
			_, _ = io.WriteString(w, "b")
		default:
			http.NotFound(w, r)
		}
	}))
	t.Cleanup(server.Close)
	source, dir := server.URL+"/sitemap.xml", filepath.Join(t.TempDir(), "mirror")
	m, err := mirrordir.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	client, err := destination.NewClient(source, destination.ClientOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	d, err := destination.New(m.Files, m.Journal, client, destination.Options{Dest: dir})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.Sync(t.Context(), source); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "foreign.txt"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	before := files(t, dir)
	changed.Store(true)
	silent := term.Silent()
	silent.LookupEnv = func(string) (string, bool) { return "", false }
	c := &compare.Comparer{Out: &term.Options{}, IO: silent, Dir: t.TempDir()}
	c.Network.Declare(pflag.NewFlagSet("", pflag.ContinueOnError), network.TheSource) // which sets the defaults
	var found []string
	result, err := c.WithMirror(t.Context(), source, dir, func(r *spool.Row) error {
		found = append(found, r.Kind+" "+strings.TrimPrefix(r.URI, server.URL))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(found)
	if got := fmt.Sprint(found); got != "[foreign foreign.txt stale /a]" {
		t.Errorf("found %s, %+v", got, result)
	}
	if after := files(t, dir); !slices.Equal(before, after) {
		t.Errorf("the mirror had %q, and has %q", before, after)
	}
}

// files returns the names of all files and directories of a mirror.
func files(t *testing.T, dir string) (names []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		names = append(names, path)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}
