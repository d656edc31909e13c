package destination_test

import (
	"bytes"
	"context"
	"io"
	"io/fs"
	"iter"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"lockstep/catalog"
	"lockstep/destination"
	"lockstep/destination/filename"
	"lockstep/discover"
	"lockstep/internal/fetch"
	"lockstep/resourcesync"
)

// A pool is a Source without documents: resources on a server, and an Origin that
// lists them from a catalog.
type pool struct {
	t   testing.TB
	srv *httptest.Server
	cat *catalog.Mem

	mu    sync.Mutex
	files map[string]string
	gets  int
	now   time.Time

	id       string
	source   string
	whole    bool
	complete bool
	steps    [][]catalog.Update // what each Update brings
	err      error              // of the last of them
	warnings []string
	contents map[string]string // by URI, what the Origin has itself
	gone     map[string]bool
	maps     []filename.Map

	updates  int
	fulls    int
	opened   []destination.BridgeOptions
	open     int // how many are
	applied  [2]int64
	onUpdate func()
}

const poolSet = "set"

func newPool(t testing.TB) *pool {
	p := &pool{t: t, cat: catalog.NewMem(nil), files: map[string]string{}, id: "memory", source: "feed", whole: true, complete: true, contents: map[string]string{}, gone: map[string]bool{}}
	p.now = time.Date(2024, 5, 1, 0, 0, 0, 0, time.UTC)
	p.srv = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p.mu.Lock()
		text, ok := p.files[r.URL.Path]
		p.gets++
		p.mu.Unlock()
		if r.URL.Path == "/feed" {
			_, _ = io.WriteString(w, `<feed xmlns="http://www.w3.org/2005/Atom"/>`)
			return
		}
		if !ok {
			http.NotFound(w, r)
			return
		}
		_, _ = io.WriteString(w, text)
	}))
	t.Cleanup(p.srv.Close)
	if _, err := p.cat.Mark(t.Context(), poolSet); err != nil {
		t.Fatal(err)
	}
	return p
}

// put stores a resource on the server, and returns the update that an intake makes of it.
func (p *pool) put(path, text string, links ...resourcesync.Link) catalog.Update {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.files[path] = text
	p.now = p.now.Add(time.Minute)
	typ := "text/plain"
	if strings.HasSuffix(path, ".json") {
		typ = "application/json"
	}
	return catalog.Update{Record: catalog.Record{URI: p.srv.URL + path, Lastmod: p.now, Length: -1, Type: typ, Links: links}}
}

func (p *pool) del(path string) catalog.Update {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.files, path)
	return catalog.Update{Record: catalog.Record{URI: p.srv.URL + path}, Deleted: true}
}

func (p *pool) link(rel, path, typ string) resourcesync.Link {
	return resourcesync.Link{Rel: rel, Href: p.srv.URL + path, Type: typ}
}

// brings sets what the next calls of Updates return.
func (p *pool) brings(steps ...[]catalog.Update) { p.steps = steps }

// A poolOrigin is an open Origin of a pool.
type poolOrigin struct{ *pool }

func (p *pool) bridge(_ context.Context, f discover.Foreign, o destination.BridgeOptions) (destination.Origin, error) {
	if f.URI != p.srv.URL+"/feed" || f.Kind != discover.AtomPMH {
		p.t.Errorf("Bridge was asked for %+v", f)
	}
	p.opened = append(p.opened, o)
	p.open++
	return poolOrigin{p}, nil
}

func (p poolOrigin) Update(ctx context.Context, full bool) (bool, error) {
	p.updates++
	if full {
		p.fulls++
	}
	if p.onUpdate != nil {
		p.onUpdate()
	}
	if len(p.steps) > 0 {
		step := p.steps[0]
		p.pool.steps = p.steps[1:]
		if _, err := p.cat.Apply(ctx, poolSet, step); err != nil {
			return false, err
		}
	}
	if len(p.pool.steps) > 0 {
		return true, nil
	}
	return false, p.err
}

func (p poolOrigin) Status(ctx context.Context) (destination.OriginStatus, error) {
	st, err := p.cat.Status(ctx, poolSet)
	return destination.OriginStatus{
		ID: p.id, Source: p.source, Seq: int64(st.Last), Kept: int64(st.Kept.Seq), Until: p.now, Whole: p.whole, Complete: p.complete, Warnings: p.warnings,
	}, err
}

func entryOf(r *catalog.Record) resourcesync.Entry {
	e := resourcesync.Entry{Loc: r.URI, Lastmod: resourcesync.NewDatetime(r.Lastmod)}
	e.Type, e.Hashes, e.Links = r.Type, r.Hashes, r.Links
	return e
}

func (p poolOrigin) Entries(ctx context.Context) iter.Seq2[resourcesync.Entry, error] {
	return func(yield func(resourcesync.Entry, error) bool) {
		for r, err := range p.cat.Resources(ctx, poolSet, catalog.Range{}) {
			if !yield(entryOf(&r), err) {
				return
			}
		}
	}
}

func (p poolOrigin) Find(ctx context.Context, uri string) (resourcesync.Entry, bool, error) {
	for r, err := range p.cat.Resources(ctx, poolSet, catalog.Range{From: uri, To: uri + "\x00"}) {
		return entryOf(&r), true, err
	}
	return resourcesync.Entry{}, false, nil
}

func (p poolOrigin) Changes(ctx context.Context, after int64) iter.Seq2[resourcesync.Entry, error] {
	return func(yield func(resourcesync.Entry, error) bool) {
		for c, err := range p.cat.Changes(ctx, poolSet, catalog.Seq(after)) {
			e := entryOf(&c.Record)
			e.Change, e.Datetime = c.Change, resourcesync.NewDatetime(c.EventTime)
			if !yield(e, err) {
				return
			}
		}
	}
}

func (p poolOrigin) Open(_ context.Context, uri string, _ resourcesync.Hashes) (io.ReadCloser, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.gone[uri] {
		return nil, destination.ErrGone
	}
	if text, ok := p.contents[uri]; ok {
		return io.NopCloser(bytes.NewReader([]byte(text))), nil
	}
	return nil, fs.ErrNotExist
}

func (p poolOrigin) Applied(_ context.Context, changes, contents int64) error {
	p.pool.applied = [2]int64{changes, contents}
	return nil
}

func (p poolOrigin) Maps() []filename.Map { return p.maps }

func (p poolOrigin) Close() error {
	p.pool.open--
	return nil
}

// A reservoir is a mirror of a pool.
type reservoir struct {
	*mirror
	pool *pool
}

func newReservoir(t testing.TB, p *pool) *reservoir {
	return &reservoir{mirror: newMirror(t, nil), pool: p}
}

func (m *reservoir) destination() *destination.Destination {
	m.t.Helper()
	c, err := fetch.New(fetch.Options{Home: discover.Home(m.pool.srv.URL), Retries: -1})
	if err != nil {
		m.t.Fatal(err)
	}
	m.t.Cleanup(c.Close)
	o := m.opts
	o.Bridge = m.pool.bridge
	d, err := destination.New(m.store, m.journal, c, o)
	if err != nil {
		m.t.Fatal(err)
	}
	return d
}

func (m *reservoir) sync() (destination.Report, error) {
	m.t.Helper()
	r, err := m.destination().Sync(m.t.Context(), m.pool.srv.URL+"/feed")
	if m.pool.open != 0 {
		m.t.Fatalf("%d Origins are open still", m.pool.open)
	}
	return r, err
}

func (m *reservoir) mustSync(want string) destination.Report {
	m.t.Helper()
	r, err := m.sync()
	if err != nil {
		m.t.Fatalf("Sync: %v\n%+v", err, r)
	}
	wantCounts(m.t, r, want)
	return r
}

// holds checks which files are there, with which contents.
func (m *reservoir) holds(want map[string]string) {
	m.t.Helper()
	got := m.files()
	for path, text := range want {
		if got[path] != text {
			m.t.Errorf("%s = %q, want %q", path, got[path], text)
		}
	}
	for path := range got {
		if _, ok := want[path]; !ok {
			m.t.Errorf("%s is here", path)
		}
	}
}
