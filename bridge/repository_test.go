package bridge_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"lockstep/bridge"
	"lockstep/destination"
	"lockstep/discover"
	"lockstep/internal/faultclock"
	"lockstep/oaipmh"
	"lockstep/oaipmh/oaipmhtest"
)

// A library is a repository on a server.
type library struct {
	*oaipmhtest.Repository
	*faultclock.Clock
	url string
}

func newLibrary(t testing.TB, o oaipmhtest.Options) *library {
	c := faultclock.New(time.Date(2024, 5, 1, 12, 0, 0, 0, time.UTC))
	o.Clock = c.Now
	repo := oaipmhtest.New(o)
	srv := httptest.NewServer(repo)
	t.Cleanup(srv.Close)
	return &library{repo, c, srv.URL + "/oai"}
}

// want returns the expected files of a mirror of the library.
func (l *library) want() map[string]string {
	all := map[string]string{}
	for id, text := range l.All() {
		all[strings.ReplaceAll(id, "%", "%25")+".xml"] = string(text)
	}
	return all
}

// listings counts the requests for records.
func (l *library) listings(from int) (n int) {
	for _, q := range l.Requests()[from:] {
		if v, _ := url.ParseQuery(q); v.Get("verb") == string(oaipmh.VerbListRecords) {
			n++
		}
	}
	return n
}

func TestRepository(t *testing.T) {
	t.Parallel()
	for _, prefix := range []string{"", "oai-pmh:"} {
		t.Run("prefix="+prefix, func(t *testing.T) {
			t.Parallel()
			l := newLibrary(t, oaipmhtest.Options{Records: 250, Sets: []string{"a", "b"}})
			l.Put(oaipmhtest.Record{Identifier: "oai:example.org:maps/7", Title: "Sheet 7"})
			m := newMirror(t, prefix+l.url)
			r := m.mustSync()
			if r.Created != 251 || r.Via != discover.OAIPMH || r.Mode != destination.ModeBaseline || r.By.Harvest != 251 {
				t.Errorf("report: %+v", r)
			}
			m.holds(l.want())
			for _, q := range l.Requests() {
				if strings.Contains(q, "GetRecord") {
					t.Errorf("asked for a record that had come: %s", q)
				}
			}

			l.Step(time.Hour)
			before := len(l.Requests())
			r = m.mustSync()
			if r.Mode != destination.ModeNone || l.listings(before) != 1 {
				t.Errorf("nothing is new: %s, %d listings", r.Mode, l.listings(before))
			}

			l.Step(time.Hour)
			l.Put(oaipmhtest.Record{Identifier: "oai:example.org:maps/7", Title: "Sheet 7, 2nd edition"})
			l.Put(oaipmhtest.Record{Identifier: "oai:example.org:new", Title: "New"})
			l.Delete("oai:example.org:0000003")
			r = m.mustSync()
			if r.Created != 1 || r.Updated != 1 || r.Deleted != 1 || r.Mode != destination.ModeIncremental {
				t.Errorf("report: %+v", r)
			}
			m.holds(l.want())
			if err := m.run(func(d *destination.Destination) error {
				r, err := d.Audit(t.Context(), m.address, destination.AuditOptions{Content: true})
				if err == nil && (!r.InSync || r.Verified != 251) {
					err = fmt.Errorf("audit: %+v", r)
				}
				return err
			}); err != nil {
				t.Error(err)
			}
		})
	}
}

// One set, in one format; and how the address determines file names.
func TestRepositorySet(t *testing.T) {
	t.Parallel()
	l := newLibrary(t, oaipmhtest.Options{Records: 10, Sets: []string{"a", "b"}})
	m := newMirror(t, "oai-pmh:"+l.url+"?metadataPrefix=oai_dc&set=b")
	if r := m.mustSync(); r.Created != 5 {
		t.Errorf("report: %+v", r)
	}
	if _, err := newMirror(t, "oai-pmh:"+l.url+"?set=none").sync(); err == nil {
		t.Error("a set that is not there is none")
	}
	few := newLibrary(t, oaipmhtest.Options{Records: 1, Sets: []string{"a", "none"}})
	empty := newMirror(t, "oai-pmh:"+few.url+"?set=none")
	if r := empty.mustSync(); len(r.Warnings) != 1 || !strings.HasSuffix(r.Warnings[0], "it has no records of format oai_dc in set none") {
		t.Errorf("warnings: %q", r.Warnings)
	}
	maps := bridge.Maps(discover.Foreign{Kind: discover.OAIPMH, URI: l.url + "?set=b&x=1&metadataPrefix=marc"})
	if want := l.url + "?x=1&verb=GetRecord&metadataPrefix=marc&identifier="; len(maps) != 1 || maps[0].Prefix != want {
		t.Errorf("Maps = %+v, want %s", maps, want)
	}
	if maps := bridge.Maps(discover.Foreign{Kind: discover.AtomPMH, URI: l.url}); maps != nil {
		t.Errorf("Maps of a feed = %+v", maps)
	}
}

// Records that disappear without a deletion record are noticed by a full
// harvest, and the guard asks before many are deleted.
func TestRepositoryForgets(t *testing.T) {
	t.Parallel()
	l := newLibrary(t, oaipmhtest.Options{Records: 20, Deleted: oaipmh.DeletedNo})
	m := newMirror(t, l.url)
	m.mustSync()
	l.Step(time.Hour)
	for i := range 15 {
		l.Delete(fmt.Sprintf("oai:example.org:%07d", i))
	}
	if r := m.mustSync(); r.Deleted != 0 {
		t.Errorf("report: %+v", r)
	}
	m.opts.Baseline = true
	r, err := m.sync()
	if !errors.Is(err, destination.ErrRefused) || r.Deleted != 0 || len(m.files()) != 20 {
		t.Fatalf("Sync = %v\n%+v", err, r)
	}
	m.opts.Baseline, m.opts.MaxDelete = false, 100
	m.mustSync()
	m.holds(l.want())
}

// A repository that lists nothing for a while is mirrored again when it lists its records,
// which have not changed; consent to delete that comes then deletes none of them.
func TestRepositoryEmptyForAWhile(t *testing.T) {
	t.Parallel()
	l := newLibrary(t, oaipmhtest.Options{Records: 20})
	var down atomic.Bool
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if down.Load() && r.FormValue("verb") == string(oaipmh.VerbListRecords) {
			_, _ = io.WriteString(w, `<OAI-PMH xmlns="`+oaipmh.Namespace+`"><responseDate>`+oaipmh.FormatDatestamp(l.Now(), oaipmh.Second)+
				`</responseDate><request/><error code="noRecordsMatch">none</error></OAI-PMH>`)
			return
		}
		l.ServeHTTP(w, r)
	}))
	t.Cleanup(srv.Close)
	m := newMirror(t, srv.URL+"/oai")
	m.mustSync()
	want := m.files()
	l.Step(time.Hour)
	down.Store(true)
	m.opts.Baseline = true
	if r, err := m.sync(); !errors.Is(err, destination.ErrRefused) || r.Deleted != 0 {
		t.Fatalf("Sync = %v\n%+v", err, r)
	}
	down.Store(false)
	m.opts.Baseline, m.opts.MaxDelete = false, 100
	if r := m.mustSync(); r.Deleted != 0 {
		t.Errorf("report: %+v", r)
	}
	m.holds(want)
}

// A dry run and an audit do not change the memory.
func TestRepositoryDryRun(t *testing.T) {
	t.Parallel()
	l := newLibrary(t, oaipmhtest.Options{Records: 5})
	m := newMirror(t, l.url)
	m.opts.DryRun = true
	for _, m.nowhere = range []bool{true, false} {
		if r := m.mustSync(); r.Created != 5 {
			t.Errorf("report: %+v", r)
		}
		if names := m.state(); len(names) > 0 {
			t.Errorf("a dry run left %v", names)
		}
	}
	if err := os.Mkdir(filepath.Join(m.dir, ".lockstep", "harvest-look-1"), 0o777); err != nil { // as a killed process leaves it
		t.Fatal(err)
	}
	m.opts.DryRun = false
	m.mustSync()
	if names := m.state(); len(names) != 2 {
		t.Errorf("memory: %v", names)
	}
	l.Step(time.Hour)
	l.Put(oaipmhtest.Record{Identifier: "x", Title: "X"})
	m.opts.DryRun = true
	for range 2 {
		if r := m.mustSync(); r.Created != 1 {
			t.Errorf("report: %+v", r)
		}
	}
	m.opts.DryRun = false
	if r := m.mustSync(); r.Created != 1 {
		t.Errorf("report: %+v", r)
	}
	m.holds(l.want())
}

// Random histories with faults, canceled runs and lost memories: in the end the
// mirror equals the repository.
func TestRepositoryConverges(t *testing.T) {
	t.Parallel()
	for seed := range uint64(*rounds) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			rnd := rand.New(rand.NewPCG(seed, 1))
			deleted := []oaipmh.DeletedRecord{oaipmh.DeletedPersistent, oaipmh.DeletedTransient, oaipmh.DeletedNo}[rnd.IntN(3)]
			l := newLibrary(t, oaipmhtest.Options{
				Records: rnd.IntN(60), PageSize: 1 + rnd.IntN(9), Deleted: deleted, Unordered: rnd.IntN(2) == 0, Dirty: rnd.IntN(4) == 0,
				Granularity: []oaipmh.Granularity{oaipmh.Day, oaipmh.Second}[rnd.IntN(2)],
			})
			m := newMirror(t, l.url)
			m.opts.MaxDelete = 100
			for range 6 {
				l.happen(rnd)
				if rnd.IntN(2) == 0 {
					l.SetFaults(oaipmhtest.Faults{Seed: rnd.Uint64(), Unavailable: .05, Reset: .05, Cut: .05, HTML: .03, Expire: .05, NoCounts: rnd.IntN(2) == 0})
				}
				m.disturb(rnd)
				l.SetFaults(oaipmhtest.Faults{})
			}
			l.Step(time.Hour)
			m.opts.Baseline = deleted == oaipmh.DeletedNo
			if _, err := m.sync(); err != nil { // complete a harvest that has begun
				t.Logf("Sync: %v", err)
			}
			m.mustSync()
			m.holds(l.want())
		})
	}
}

// happen simulates the passage of time in the library.
func (l *library) happen(rnd *rand.Rand) {
	for range rnd.IntN(30) {
		id := fmt.Sprintf("oai:example.org:%07d", rnd.IntN(80))
		switch rnd.IntN(4) {
		case 0:
			l.Delete(id)
		default:
			l.Put(oaipmhtest.Record{Identifier: id, Title: fmt.Sprint("Title ", rnd.IntN(5)), Size: rnd.IntN(2000)})
		}
		if rnd.IntN(3) == 0 {
			l.Step(time.Duration(rnd.IntN(5000)) * time.Millisecond)
		}
	}
}

// disturb starts a sync that may be canceled: after some time or after some
// events, so that it is also canceled late on a slow machine.
func (m *mirror) disturb(rnd *rand.Rand) {
	m.t.Helper()
	ctx, cancel := context.WithCancel(m.t.Context())
	defer cancel()
	switch rnd.IntN(4) {
	case 0:
		timer := time.AfterFunc(time.Duration(rnd.IntN(60))*time.Millisecond, cancel)
		defer timer.Stop()
	case 1:
		left := rnd.IntN(60)
		m.opts.OnEvent = func(destination.Event) {
			if left--; left < 0 {
				cancel()
			}
		}
		defer func() { m.opts.OnEvent = nil }()
	}
	r, err := m.syncWithin(ctx)
	m.t.Logf("%s: %d created, %d updated, %d deleted: %v", r.Mode, r.Created, r.Updated, r.Deleted, err)
	if errors.Is(err, destination.ErrRefused) {
		m.t.Fatal(err)
	}
}
