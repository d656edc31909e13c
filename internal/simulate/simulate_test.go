package simulate_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"testing"
	"testing/iotest"
	"time"

	"github.com/google/go-cmp/cmp"

	"lockstep/blob"
	"lockstep/destination"
	"lockstep/internal/fetch"
	"lockstep/internal/simulate"
	"lockstep/resourcesync"
	"lockstep/source"
	"lockstep/storage/sqlite"
)

// start returns a simulated Source and its address.
func start(t *testing.T, o simulate.Options) (*simulate.Source, string) {
	t.Helper()
	var h http.Handler
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { h.ServeHTTP(w, r) }))
	t.Cleanup(srv.Close)
	o.BaseURL = srv.URL + "/"
	sim, err := simulate.New(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	h = sim.Handler()
	return sim, o.BaseURL
}

func truth(t *testing.T, sim *simulate.Source) map[string]resourcesync.Hashes {
	t.Helper()
	all := map[string]resourcesync.Hashes{}
	for r, err := range sim.Resources(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		all[r.URI] = r.Hashes
	}
	return all
}

func get(t *testing.T, uri string) ([]byte, *http.Response) {
	t.Helper()
	resp, err := http.Get(uri)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return body, resp
}

// TestSameSeed demands that the seed and the number of changes determine
// everything, however the changes are divided.
func TestSameSeed(t *testing.T) {
	t.Parallel()
	o := simulate.Options{BaseURL: "http://data.example.org/", Seed: 7, Resources: 50, Sizes: simulate.Sizes{Min: 0, Max: 3000}}
	var seen []map[string]resourcesync.Hashes
	for _, steps := range [][]int64{{120}, {1, 100, 19}} {
		sim, err := simulate.New(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		for _, n := range steps {
			if err := sim.Apply(t.Context(), n); err != nil {
				t.Fatal(err)
			}
		}
		if p := sim.Progress(); p.Changes != 120 {
			t.Errorf("%d changes, want 120", p.Changes)
		}
		seen = append(seen, truth(t, sim))
	}
	if diff := cmp.Diff(seen[0], seen[1]); diff != "" {
		t.Errorf("the same seed, something else: %s", diff)
	}
	o.Seed++
	other, err := simulate.New(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	for uri, hashes := range truth(t, other) {
		if cmp.Equal(seen[0][uri], hashes) && len(hashes) > 0 && len(seen[0][uri]) > 0 {
			if body := hashes.Get(resourcesync.MD5); body != emptyMD5 {
				t.Errorf("%s is the same with another seed", uri)
			}
		}
	}
}

var emptyMD5 = func() string {
	h := resourcesync.NewHasher(resourcesync.MD5)
	return h.Sum().Get(resourcesync.MD5)
}()

// TestServed checks that served resources match their descriptions.
func TestServed(t *testing.T) {
	t.Parallel()
	sim, _ := start(t, simulate.Options{Resources: 20, Sizes: simulate.Sizes{Min: 1, Max: 100_000}})
	if err := sim.Apply(t.Context(), 30); err != nil {
		t.Fatal(err)
	}
	for uri, want := range truth(t, sim) {
		body, resp := get(t, uri)
		h := want.NewHasher()
		_, _ = h.Write(body) // a hash takes everything
		if diff := cmp.Diff(want, h.Sum()); diff != "" {
			t.Errorf("%s: %s", uri, diff)
		}
		if resp.Header.Get("Link") == "" || resp.Header.Get("ETag") == "" {
			t.Errorf("%s: no Link or ETag in %v", uri, resp.Header)
		}
	}
}

// TestMirrored keeps a Destination synchronized through changes and faults.
func TestMirrored(t *testing.T) {
	t.Parallel()
	db, err := sqlite.Open(filepath.Join(t.TempDir(), "catalog.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	sim, base := start(t, simulate.Options{
		Resources: 200, Seed: 3, Catalog: db.Catalog(),
		Faults:       simulate.Faults{Status: 0.02, Reset: 0.02, Cut: 0.03, Stall: 0.01, Flip: 0.01, Pause: 50 * time.Millisecond},
		ResourceDump: new(source.ResourceDump), ChangeDump: new(source.ChangeDump),
	})
	dir := t.TempDir()
	for range 4 {
		syncWith(t, base, dir)
		for uri, want := range truth(t, sim) {
			h := want.NewHasher()
			body, err := os.ReadFile(filepath.Join(dir, filepath.FromSlash(uri[len(base):])))
			if err != nil {
				t.Fatal(err)
			}
			_, _ = h.Write(body) // a hash takes everything
			if !cmp.Equal(want, h.Sum()) {
				t.Errorf("%s differs in the mirror", uri)
			}
		}
		if err := sim.Apply(t.Context(), 60); err != nil {
			t.Fatal(err)
		}
		if err := sim.Publish(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

// TestRun lets Run make the changes.
func TestRun(t *testing.T) {
	t.Parallel()
	done := make(chan simulate.Progress, 100)
	sim, _ := start(t, simulate.Options{Rate: 1000, Every: 10 * time.Millisecond, Changes: 25, Resources: -1,
		OnDone: func(p simulate.Progress) { done <- p }})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- sim.Run(ctx) }()
	for p := range done {
		if p.Changes == 25 {
			break
		}
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if p := sim.Progress(); p.Changes != 25 || p.Resources == 0 {
		t.Errorf("%+v after 25 changes", p)
	}
}

// TestContent reads any part of a resource and checks that it is the same.
func TestContent(t *testing.T) {
	t.Parallel()
	sim, _ := start(t, simulate.Options{Resources: 1, Sizes: simulate.Sizes{Min: 1003, Max: 1003}})
	for uri := range truth(t, sim) {
		whole, _ := get(t, uri)
		if err := iotest.TestReader(bytes.NewReader(whole), whole); err != nil || len(whole) != 1003 {
			t.Fatal(err, len(whole))
		}
		for from := range 20 {
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, uri, nil)
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("Range", fmt.Sprintf("bytes=%d-%d", from, from+from))
			resp, err := http.DefaultClient.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			part, err := io.ReadAll(resp.Body)
			_ = resp.Body.Close()
			if err != nil || !bytes.Equal(part, whole[from:from+from+1]) {
				t.Errorf("bytes from %d: %x, %v, want %x", from, part, err, whole[from:from+from+1])
			}
		}
	}
}

func TestFaults(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		fault string
		check func(resp *http.Response, body []byte, err error) bool
	}{
		{"status=100%", func(resp *http.Response, _ []byte, err error) bool { return err == nil && resp.StatusCode == 503 }},
		{"reset=100%", func(_ *http.Response, _ []byte, err error) bool { return err != nil }},
		{"cut=100%", func(resp *http.Response, body []byte, err error) bool {
			return err != nil && (resp == nil || len(body) < 4096)
		}},
		{"flip=100%", func(_ *http.Response, body []byte, err error) bool { return err == nil && len(body) == 4096 }},
	} {
		faults, err := simulate.ParseFaults(tt.fault)
		if err != nil {
			t.Fatal(err)
		}
		sim, _ := start(t, simulate.Options{Resources: 1, Faults: faults})
		for uri, want := range truth(t, sim) {
			resp, err := http.Get(uri)
			var body []byte
			if err == nil {
				body, err = io.ReadAll(resp.Body)
				_ = resp.Body.Close()
			}
			h := want.NewHasher()
			_, _ = h.Write(body) // a hash takes everything
			if !tt.check(resp, body, err) || cmp.Equal(want, h.Sum()) {
				t.Errorf("%s: %d bytes, %v", tt.fault, len(body), err)
			}
		}
	}
}

func TestParse(t *testing.T) {
	t.Parallel()
	for s, want := range map[string]simulate.Sizes{
		"4KB": {Min: 4096, Max: 4096}, "1-2": {Min: 1, Max: 2}, "0-1.5MB": {Min: 0, Max: 3 << 19}, " 1kib - 1TB ": {Min: 1024, Max: 1 << 40},
	} {
		if got, err := simulate.ParseSizes(s); err != nil || got != want {
			t.Errorf("ParseSizes(%q) = %v, %v, want %v", s, got, err, want)
		}
	}
	for _, s := range []string{"", "x", "0", "-1", "2KB-1KB", "4XB", "1e30", "NaN", "1-2-3", "9999999TB"} {
		if got, err := simulate.ParseSizes(s); !errors.Is(err, simulate.ErrSizes) {
			t.Errorf("ParseSizes(%q) = %v, %v", s, got, err)
		}
	}
	for _, s := range []string{"x", "status", "status=2", "status=101%", "status=60%,cut=60%", "cut=-1%", "cut=NaN%", ","} {
		if got, err := simulate.ParseFaults(s); !errors.Is(err, simulate.ErrFaults) {
			t.Errorf("ParseFaults(%q) = %v, %v", s, got, err)
		}
	}
	if _, err := simulate.New(t.Context(), simulate.Options{}); err == nil {
		t.Error("no base URL is no error")
	}
}

func FuzzParse(f *testing.F) {
	f.Add("1KB-10MB")
	f.Add("status=2%,cut=1%")
	f.Fuzz(func(t *testing.T, s string) {
		if sizes, err := simulate.ParseSizes(s); err == nil && (sizes.Min < 0 || sizes.Max < sizes.Min || sizes.Max == 0) {
			t.Errorf("ParseSizes(%q) = %+v", s, sizes)
		}
		if faults, err := simulate.ParseFaults(s); err == nil && !(faults.Status+faults.Cut+faults.Reset+faults.Stall+faults.Flip <= 1) {
			t.Errorf("ParseFaults(%q) = %+v", s, faults)
		}
	})
}

// syncWith synchronizes the directory with the Source at base.
func syncWith(t *testing.T, base, dir string) {
	t.Helper()
	store, err := blob.NewDir(dir, blob.DirOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	home, err := url.Parse(base)
	if err != nil {
		t.Fatal(err)
	}
	client, err := fetch.New(fetch.Options{Home: home})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if err := os.MkdirAll(filepath.Join(dir, ".lockstep"), 0o700); err != nil {
		t.Fatal(err)
	}
	journal, err := sqlite.Open(filepath.Join(dir, ".lockstep", "state.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer journal.Close()
	d, err := destination.New(store, journal.Journal(), client, destination.Options{MaxDelete: 100})
	if err != nil {
		t.Fatal(err)
	}
	report, err := d.Sync(t.Context(), base)
	if err != nil || report.Failed > 0 {
		t.Fatalf("sync: %+v, %v", report, err)
	}
}
