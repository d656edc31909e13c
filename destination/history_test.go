package destination_test

import (
	"bytes"
	"context"
	"crypto/md5"
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"lockstep/blob"
	"lockstep/blob/faultfs"
	"lockstep/catalog"
	"lockstep/destination"
	"lockstep/destination/filename"
	"lockstep/destination/journal"
	"lockstep/destination/journaltest"
	"lockstep/discover"
	"lockstep/internal/fetch"
	"lockstep/internal/historytest"
	"lockstep/patch"
	"lockstep/resourcesync"
	"lockstep/source"
	"lockstep/storage/postgres"
	"lockstep/storage/postgres/postgrestest"
	"lockstep/storage/sqlite"
)

var (
	histories   = flag.Int("histories", 40, "how many lives TestHistories leads")
	historySeed = flag.Uint64("history-seed", 0, "the one life TestHistories leads; 0 for others each time")
)

// TestHistories runs random histories of a Lockstep Source, which offers any of
// lists, dumps, change dumps and dumps on demand, over a network that fails in
// every way, with a mirror whose runs are broken off at any write. Once all is
// quiet, one more run brings the mirror into step.
func TestHistories(t *testing.T) {
	t.Parallel()
	var by [5]atomic.Int64
	historytest.Run(t, *histories, *historySeed, runtime.GOMAXPROCS(0), func(run *historytest.History) {
		h := newHistory(run)
		h.live()
		for i, n := range []int64{h.by.Request, h.by.Package, h.by.OnDemand, h.by.Patch, h.by.Mirror} {
			by[i].Add(n)
		}
	})
	for i, way := range []string{"requests", "packages", "packages on demand", "patches", "mirrors"} {
		if n := by[i].Load(); n == 0 && *histories >= 1000 && !t.Failed() {
			t.Errorf("nothing came by %s", way)
		} else {
			t.Logf("%d contents came by %s", n, way)
		}
	}
}

// A history is a Source, what it holds, and its mirror.
type history struct {
	*historytest.History

	srv    *httptest.Server
	cat    catalog.Catalog
	src    *source.Source
	set    string
	hidden []string // capabilities that the Capability List does not name

	mu      sync.Mutex // guards what follows
	now     map[string]string
	past    map[string]string // by hash
	patches map[string][]byte // by path
	twins   int               // how often a mirror was asked
	trouble *historytest.Trouble

	deltas  patch.Deltas
	by      destination.By // of all runs
	dir     string
	store   blob.Store
	journal journal.Journal
}

func newHistory(run *historytest.History) *history {
	t := run.T
	h := &history{History: run, now: map[string]string{}, past: map[string]string{}, patches: map[string][]byte{}}
	h.cat = catalog.NewMem(nil)
	h.srv = httptest.NewServer(h)
	t.Cleanup(h.srv.Close)
	var err error
	if h.set, err = source.CapabilityListURI(h.srv.URL+"/", source.DefaultSet); err != nil {
		t.Fatal(err)
	}
	lists, changes := h.IntN(2) == 0, h.IntN(2) == 0
	hide := func(c string) { h.hidden = append(h.hidden, c) }
	set := source.Set{Bitstream: h.bitstream, Past: h.kept, Serve: true, ChangeList: source.ChangeList{Entries: h.pick(0, 3, 10)}}
	o := source.Options{BaseURL: h.srv.URL + "/", MaxEntries: h.pick(0, 7), SmallSet: h.pick(0, 1), Temp: t.TempDir()}
	if lists {
		set.ResourceDump = &source.ResourceDump{Every: time.Duration(h.pick(1, int(50*time.Millisecond))), PackageEntries: h.pick(0, 4)}
	}
	if changes {
		set.ChangeDump = &source.ChangeDump{Every: time.Duration(h.pick(1, int(20*time.Millisecond))), PackageEntries: h.pick(0, 5)}
	}
	if h.IntN(2) == 0 {
		o.OnDemand = &source.OnDemand{Resources: h.pick(0, 3)}
	}
	// Sometimes each capability is the only one; then it must describe everything.
	if lists && h.IntN(3) == 0 {
		hide("resourcelist")
	}
	switch {
	case changes && h.IntN(3) == 0:
		hide("changelist")
		set.ChangeDump.Every = 1
	case h.IntN(5) == 0:
		hide("changelist")
		hide("changedump")
		o.SmallSet = 0
		if lists {
			set.ResourceDump.Every = 1
		}
	}
	h.Tracef("dump %v, change dump %v, hidden %v", lists, changes, h.hidden)
	o.Sets = []source.Set{set}
	if h.src, err = source.New(h.cat, new(blob.Mem), o); err != nil {
		t.Fatal(err)
	}
	h.openMirror()
	return h
}

func (h *history) pick(of ...int) int { return of[h.IntN(len(of))] }

func (h *history) openMirror() {
	h.dir = h.TempDir()
	dir, err := blob.NewDir(h.dir, blob.DirOptions{})
	h.Must(err)
	h.Cleanup(func() { dir.Close() })
	h.store, h.journal = dir, new(journal.Mem)
	switch n := h.IntN(20); {
	case n == 0:
		h.Must(blob.MakeDir(filepath.Join(h.dir, ".lockstep")))
		db, err := sqlite.Open(filepath.Join(h.dir, destination.StateFile))
		h.Must(err)
		h.Cleanup(func() { db.Close() })
		h.journal = db.Journal()
	case n == 1 && postgrestest.Installed():
		db, err := postgres.Options{}.Open(context.Background(), postgrestest.URL(h))
		h.Must(err)
		h.Cleanup(func() { db.Close() })
		h.journal = db.Journal()
	}
}

// live runs the history.
func (h *history) live() {
	ctx := context.Background()
	h.change(5 + h.IntN(20))
	h.publish(ctx)
	for range 1 + h.IntN(5) {
		switch h.IntN(6) {
		case 0:
			h.upset(h.Trouble())
			h.sync(ctx, nil)
			h.upset(nil)
		case 1, 2:
			h.sync(ctx, &faultfs.Faults{At: 1 + h.IntN(60)})
		case 3:
			h.sync(ctx, nil)
		}
		if h.IntN(4) > 0 {
			h.change(1 + h.IntN(12))
			h.publish(ctx)
		}
	}
	if err := h.sync(ctx, nil); err != nil {
		// Pending failures are tried again; and what was published while
		// it was read is there the next time.
		if err = h.sync(ctx, nil); err != nil {
			h.Fatalf("quiet run: %v", err)
		}
	}
	h.same()
	if err := h.sync(ctx, nil); err != nil {
		h.Fatalf("run of nothing: %v", err)
	}
	h.same()
}

// change makes n changes.
func (h *history) change(n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for range n {
		path := fmt.Sprintf("res/%c/%d", 'a'+h.IntN(3), h.IntN(12))
		if h.IntN(8) == 0 {
			path += "/below"
		}
		uri := h.srv.URL + "/" + path
		if _, there := h.now[uri]; there && h.IntN(4) == 0 {
			delete(h.now, uri)
			_, err := h.cat.Apply(context.Background(), h.set, []catalog.Update{{Record: catalog.Record{URI: uri}, Deleted: true}})
			h.Must(err)
			h.Tracef("delete %s", path)
			continue
		}
		text := strings.Repeat(fmt.Sprintf("%x.", h.Uint64()), h.pick(1+h.IntN(30), 1+h.IntN(30), 200))
		var links []resourcesync.Link
		if old := h.now[uri]; len(old) > 2000 && h.IntN(4) > 0 {
			at := h.IntN(len(old))
			text = old[:at] + fmt.Sprintf("<%x>", h.Uint32()) + old[at:]
			if h.IntN(5) > 0 {
				links = []resourcesync.Link{h.patch(old, text)}
			}
		}
		if h.IntN(4) == 0 {
			links = append(links, resourcesync.Link{Rel: "duplicate", Href: h.srv.URL + "/twin/" + path})
		}
		h.now[uri] = text
		s2, s5 := sha256.Sum256([]byte(text)), md5.Sum([]byte(text))
		h.past[string(s2[:])] = text
		r := catalog.Record{URI: uri, Lastmod: time.Now().UTC(), Length: int64(len(text)), Type: "text/plain", Links: links,
			Hashes: resourcesync.Hashes{{Algorithm: resourcesync.MD5, Digest: string(s5[:])}, {Algorithm: resourcesync.SHA256, Digest: string(s2[:])}}}
		_, err := h.cat.Apply(context.Background(), h.set, []catalog.Update{{Record: r}})
		h.Must(err)
		h.Tracef("put %s %d, %d links", path, len(text), len(links))
	}
}

// patch returns a link to a patch, which may be unusable.
func (h *history) patch(old, text string) resourcesync.Link {
	if h.IntN(6) == 0 {
		old += "?"
	}
	body, err := h.deltas.Make([]byte(old), []byte(text))
	h.Must(err)
	sum := sha256.Sum256(body)
	if h.IntN(10) == 0 {
		body = append(bytes.Clone(body[:len(body)-1]), body[len(body)-1]^1)
	}
	path := fmt.Sprintf("/patch/%d", len(h.patches))
	h.patches[path] = body
	return resourcesync.Link{Rel: resourcesync.RelPatch, Href: h.srv.URL + path, Type: patch.TypeDelta, Length: int64(len(body)), HasLength: true,
		Hashes: resourcesync.Hashes{{Algorithm: resourcesync.SHA256, Digest: string(sum[:])}}}
}

func (h *history) publish(ctx context.Context) {
	_, err := h.src.Publish(ctx)
	h.Must(err)
	_, err = h.src.PublishDumps(ctx)
	h.Must(err)
	h.Tracef("publish")
}

func (h *history) bitstream(_ context.Context, r *catalog.Record) (io.ReadCloser, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return readText(h.now[r.URI])
}

func (h *history) kept(_ context.Context, c *catalog.Change) (io.ReadCloser, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return readText(h.past[c.Hashes.Get(resourcesync.SHA256)])
}

func readText(text string) (io.ReadCloser, error) {
	if text == "" {
		return nil, fs.ErrNotExist
	}
	return io.NopCloser(strings.NewReader(text)), nil
}

func (h *history) upset(t *historytest.Trouble) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.trouble = t
}

var capabilityEntry = regexp.MustCompile(`(?s)<url>.*?</url>\s*`)

func (h *history) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h.mu.Lock()
	trouble := h.trouble
	h.mu.Unlock()
	if trouble != nil {
		trouble.Serve(w, r, http.HandlerFunc(h.serve))
		return
	}
	h.serve(w, r)
}

func (h *history) serve(w http.ResponseWriter, r *http.Request) {
	h.mu.Lock()
	body, ok := h.patches[r.URL.Path]
	if path, isTwin := strings.CutPrefix(r.URL.Path, "/twin"); isTwin { // has it, or had it, or something else
		if h.twins++; h.twins%3 > 0 {
			body, ok = []byte(h.now[h.srv.URL+path]), true
		} else if h.twins%2 > 0 {
			body, ok = []byte(path), true
		}
	}
	h.mu.Unlock()
	if ok {
		_, _ = w.Write(body) // the client finds out
		return
	}
	if !strings.HasSuffix(r.URL.Path, "/capabilitylist.xml") || len(h.hidden) == 0 {
		h.src.Handler().ServeHTTP(w, r)
		return
	}
	r = r.Clone(r.Context())
	r.Header = http.Header{}
	rec := httptest.NewRecorder()
	h.src.Handler().ServeHTTP(rec, r)
	text := capabilityEntry.ReplaceAllFunc(rec.Body.Bytes(), func(e []byte) []byte {
		if slices.ContainsFunc(h.hidden, func(c string) bool { return bytes.Contains(e, []byte(`capability="`+c+`"`)) }) {
			return nil
		}
		return e
	})
	w.Header().Set("Content-Type", "application/xml")
	w.WriteHeader(rec.Code)
	_, _ = w.Write(text)
}

// sync runs the mirror once; with a fuse everything it writes fails from some
// point on, as if it had been killed there.
func (h *history) sync(ctx context.Context, f *faultfs.Faults) error {
	c, err := fetch.New(fetch.Options{Home: discover.Home(h.srv.URL), Retries: -1, Jobs: h.pick(0, 1, 4)})
	h.Must(err)
	defer c.Close()
	store, journal := h.store, h.journal
	if f != nil {
		store, journal = &faultfs.Dir{Dir: store.(*blob.Dir), Faults: f}, &journaltest.Faulty{Journal: journal, Faults: f}
	}
	d, err := destination.New(store, journal, c, destination.Options{MaxDelete: 100, Via: [...]string{"", "list", "dump", "dump"}[h.IntN(4)]})
	h.Must(err)
	r, err := d.Sync(ctx, h.srv.URL)
	h.by.Request += r.By.Request
	h.by.Package += r.By.Package
	h.by.OnDemand += r.By.OnDemand
	h.by.Patch += r.By.Patch
	h.by.Mirror += r.By.Mirror
	h.Tracef("sync: %s via %s, %v", counts(r), r.Via, err)
	if err == nil && r.Failed > 0 {
		h.Fatalf("no error, but %+v", r)
	}
	if errors.Is(err, destination.ErrRefused) {
		h.Fatalf("refused: %v", err)
	}
	return err
}

// same compares the mirror's files with what the Source holds.
func (h *history) same() {
	h.Helper()
	paths, err := filename.New(filename.Options{Origin: h.srv.URL})
	h.Must(err)
	m := mirror{t: h.T, dir: h.dir}
	got := map[string]string{}
	for path, data := range m.files() {
		uri, err := paths.URI(path)
		h.Must(err)
		got[uri] = data
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if d := cmp.Diff(h.now, got); d != "" {
		h.Fatalf("mirror: (-want +got)\n%.2000s", d)
	}
}
