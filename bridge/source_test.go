package bridge_test

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"lockstep/blob"
	"lockstep/catalog"
	"lockstep/destination"
	"lockstep/internal/faultclock"
	"lockstep/repository"
	"lockstep/resourcesync"
	"lockstep/source"
)

// An office is a real Source, with a feed and a repository of its set, that
// keeps changing while it is read.
type office struct {
	*faultclock.Clock
	t    testing.TB
	srv  *httptest.Server
	cat  *catalog.Mem
	set  string // its name in the catalog
	src  *source.Source
	docs http.Handler
	repo *repository.Repository

	mu      sync.Mutex // guards what follows; held for one change at a time
	rnd     *rand.Rand
	texts   map[string]string // current texts, by path
	faults  float64           // share of requests that fail
	changes float64           // share of requests that a change precedes
}

func newOffice(t testing.TB, seed uint64) *office {
	o := &office{Clock: faultclock.New(time.Date(2024, 5, 1, 12, 0, 0, 0, time.UTC)), t: t, rnd: rand.New(rand.NewPCG(seed, 3)), texts: map[string]string{}}
	o.cat = catalog.NewMem(o.Now)
	o.srv = httptest.NewUnstartedServer(o)
	base := "http://" + o.srv.Listener.Addr().String() + "/"
	var err error
	if o.set, err = source.CapabilityListURI(base, source.DefaultSet); err != nil {
		t.Fatal(err)
	}
	atom := source.Atom{Entries: 1 + o.rnd.IntN(9)}
	if o.rnd.IntN(4) == 0 {
		atom = source.Atom{Complete: true}
	}
	o.src, err = source.New(o.cat, new(blob.Mem), source.Options{
		BaseURL: base, Now: o.Now, Grace: time.Hour,
		Sets: []source.Set{{Atom: &atom}},
	})
	if err != nil {
		t.Fatal(err)
	}
	o.docs = o.src.Handler()
	o.repo, err = repository.New(o.cat, repository.Options{
		BaseURL: base + "oai", Records: 1 + o.rnd.IntN(20), Now: o.Now,
		Sets: []repository.Set{{Name: source.DefaultSet, Catalog: o.set, Open: o.open}},
	})
	if err != nil {
		t.Fatal(err)
	}
	o.publish()
	o.srv.Start()
	t.Cleanup(o.srv.Close)
	return o
}

func (o *office) publish() {
	if _, err := o.src.Publish(context.Background()); err != nil {
		o.t.Errorf("Publish: %v", err)
	}
}

func (o *office) open(_ context.Context, r *catalog.Record) (io.ReadCloser, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	text, ok := o.texts[strings.TrimPrefix(r.URI, o.srv.URL+"/")]
	if !ok {
		return nil, fs.ErrNotExist
	}
	return io.NopCloser(strings.NewReader(text)), nil
}

// put stores a record, in one or two representations.
func (o *office) put(n int, text string, both bool) {
	uri := func(end string) string { return fmt.Sprintf("%s/r/%d%s", o.srv.URL, n, end) }
	us := []catalog.Update{{Record: catalog.Record{URI: uri(".xml"), Type: "application/xml", Lastmod: o.Now()}}}
	bodies := []string{fmt.Sprintf(`<mods xmlns="http://www.loc.gov/mods/v3"><title>%s</title></mods>`, text)}
	if both {
		us = append(us, catalog.Update{Record: catalog.Record{URI: uri(".txt"), Type: "text/plain", Lastmod: o.Now(), Links: []resourcesync.Link{{Rel: "canonical", Href: uri(".xml")}}}})
		us[0].Links = []resourcesync.Link{{Rel: "alternate", Href: uri(".txt"), Type: "text/plain"}}
		bodies = append(bodies, text)
	}
	for i := range us {
		sum := resourcesync.NewHasher(resourcesync.SHA256)
		_, _ = sum.Write([]byte(bodies[i]))
		us[i].Hashes, us[i].Length = sum.Sum(), int64(len(bodies[i]))
		o.texts[strings.TrimPrefix(us[i].URI, o.srv.URL+"/")] = bodies[i]
	}
	if _, there := o.texts[fmt.Sprintf("r/%d.txt", n)]; there && !both {
		us = append(us, catalog.Update{Deleted: true, Record: catalog.Record{URI: uri(".txt")}})
		delete(o.texts, fmt.Sprintf("r/%d.txt", n))
	}
	o.apply(us)
}

func (o *office) del(n int) {
	var us []catalog.Update
	for _, end := range []string{".xml", ".txt"} {
		path := fmt.Sprintf("r/%d%s", n, end)
		us = append(us, catalog.Update{Deleted: true, Record: catalog.Record{URI: o.srv.URL + "/" + path}})
		delete(o.texts, path)
	}
	o.apply(us)
}

func (o *office) apply(us []catalog.Update) {
	if _, err := o.cat.Apply(context.Background(), o.set, us); err != nil {
		o.t.Errorf("Apply: %v", err)
	}
}

// happen makes n changes and publishes them.
func (o *office) happen(n int) {
	for range n {
		if o.rnd.IntN(3) > 0 {
			o.Step(time.Duration(o.rnd.IntN(3000)) * time.Millisecond)
		}
		if r := o.rnd.IntN(50); o.rnd.IntN(4) == 0 {
			o.del(r)
		} else {
			o.put(r, fmt.Sprint("text ", r, " ", o.rnd.IntN(1000)), o.rnd.IntN(2) == 0)
		}
		if o.rnd.IntN(3) == 0 {
			o.publish()
		}
	}
	o.publish()
}

func (o *office) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	o.mu.Lock()
	if o.rnd.Float64() < o.changes {
		o.happen(1 + o.rnd.IntN(3))
	}
	wrong, how := o.rnd.Float64() < o.faults, o.rnd.IntN(3)
	text, ok := o.texts[strings.TrimPrefix(r.URL.Path, "/")]
	o.mu.Unlock()
	switch {
	case wrong && how == 0:
		http.Error(w, "busy", http.StatusServiceUnavailable)
	case wrong && how == 1:
		panic(http.ErrAbortHandler)
	case wrong:
		rec := httptest.NewRecorder()
		o.answer(rec, r, text, ok)
		maps.Copy(w.Header(), rec.Header())
		w.Header().Set("Content-Length", fmt.Sprint(rec.Body.Len()+1))
		w.WriteHeader(rec.Code)
		_, _ = w.Write(rec.Body.Bytes()[:rec.Body.Len()/2])
	default:
		o.answer(w, r, text, ok)
	}
}

func (o *office) answer(w http.ResponseWriter, r *http.Request, text string, ok bool) {
	switch {
	case r.URL.Path == "/oai":
		o.repo.ServeHTTP(w, r)
	case ok:
		w.Header().Set("ETag", fmt.Sprintf("%q", fmt.Sprintf("%x", sha256.Sum256([]byte(text)))[:16]))
		_, _ = io.WriteString(w, text) // the client may have disconnected
	default:
		o.docs.ServeHTTP(w, r)
	}
}

// settle ends changes and faults.
func (o *office) settle() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.faults, o.changes = 0, 0
	o.publish()
	o.Step(time.Minute)
}

// disturbed syncs a mirror of an office repeatedly, while it changes and
// sometimes canceled, and once more when all changes have ended.
func (o *office) disturbed(m *mirror, rnd *rand.Rand) {
	m.opts.MaxDelete = 100
	for range 6 {
		o.mu.Lock()
		o.happen(rnd.IntN(20))
		o.changes = []float64{0, .1, .3}[rnd.IntN(3)]
		if rnd.IntN(2) == 0 {
			o.faults = .08
		}
		o.mu.Unlock()
		m.disturb(rnd)
		o.settle()
		if rnd.IntN(10) == 0 {
			m.forget()
			m.opts.Delete = destination.DeleteApply
		}
	}
	if _, err := m.sync(); err != nil {
		m.t.Logf("Sync: %v", err)
	}
	m.mustSync()
}

// In the end a mirror read through the feed equals the Source.
func TestSourceFeedConverges(t *testing.T) {
	t.Parallel()
	for seed := range uint64(*rounds) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			rnd := rand.New(rand.NewPCG(seed, 4))
			o := newOffice(t, seed)
			m := newMirror(t, "atom-pmh:"+o.srv.URL+"/resourcesync/main/atom.xml")
			if rnd.IntN(2) == 0 {
				m.opts.Prefer = []string{"text/plain"}
			}
			o.disturbed(m, rnd)
			want := maps.Clone(o.texts)
			for path := range o.texts {
				if n, both := strings.CutSuffix(path, ".txt"); both && m.opts.Prefer != nil {
					delete(want, n+".xml")
				} else if both {
					delete(want, path)
				}
			}
			m.holds(want)
		})
	}
}

var title = regexp.MustCompile(`<title>(.*)</title>`)

// So does one read by OAI-PMH.
func TestSourceRepositoryConverges(t *testing.T) {
	t.Parallel()
	for seed := range uint64(*rounds) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			o := newOffice(t, seed)
			m := newMirror(t, "oai-pmh:"+o.srv.URL+"/oai?metadataPrefix=mods")
			o.disturbed(m, rand.New(rand.NewPCG(seed, 5)))
			var want, got []string
			for path, text := range o.texts {
				if strings.HasSuffix(path, ".xml") {
					want = append(want, title.FindString(text))
				}
			}
			for path, text := range m.files() {
				if got = append(got, title.FindString(text)); !strings.HasPrefix(text, "<?xml ") {
					t.Errorf("%s is no document of its own: %.100s", path, text)
				}
			}
			slices.Sort(want)
			slices.Sort(got)
			if !slices.Equal(got, want) {
				t.Errorf("records %q, want %q", got, want)
			}
		})
	}
}
