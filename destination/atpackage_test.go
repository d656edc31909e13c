package destination_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"lockstep/blob"
	"lockstep/destination"
	"lockstep/destination/journal"
	"lockstep/discover"
	"lockstep/internal/fetch"
	"lockstep/resourcesync"
)

// never is a source of randomness by which an atWorld makes no random choice.
type never struct{}

func (never) Uint64() uint64 { return math.MaxUint64 }

// A packagedPast is a Source whose archived packages can be replaced by others
// of the same length that are not what its dumps state.
type packagedPast struct {
	*atWorld
	right, wrong map[string][]byte // packages by path
	noRanges     bool              // packages can only be read whole
}

// A packagedStyle says what a packagedPast has kept.
type packagedStyle struct {
	name                     string
	noHash, mementos         bool // what its lists and manifests say of resources
	resourceDump, changeDump bool // it has kept these, in place of lists
	beside                   bool // it has kept lists, too
}

// pastResources is how many resources a packagedPast has.
const pastResources = 4

// newPackagedPast returns a Source that had resources at one instant, then changed
// most of them, and has deleted all since; and the instant of which the packages
// say what there was.
func newPackagedPast(t testing.TB, style packagedStyle) (*packagedPast, time.Time) {
	p := &packagedPast{atWorld: newAtWorld(t, rand.New(never{})), right: map[string][]byte{}, wrong: map[string][]byte{}}
	p.srv.Close()
	p.srv = httptest.NewServer(p)
	t.Cleanup(p.srv.Close)
	p.noHash, p.mementos = style.noHash, style.mementos
	p.change(pastResources, "version 1, the right one")
	if style.beside {
		p.take(false)
	}
	p.take(style.resourceDump)
	p.change(pastResources-1, "version 2, the right one")
	at := p.now
	p.shut(style.changeDump)
	if style.beside {
		s := shutSpan{from: p.start, until: at, path: "/rs/span-beside.xml"}
		p.spans = append(p.spans, s)
		p.writeSpan(s.path, s.from, s.until, false)
	}
	p.change(pastResources, "version 3, the right one")
	p.change(pastResources, "")
	p.now = p.now.Add(time.Second)
	p.take(false)
	p.shut(false)
	p.build()
	for _, l := range p.lists {
		if l.dump {
			p.vouch(l.path, resourcesync.Header{Capability: resourcesync.ResourceDump, At: resourcesync.NewDatetime(l.at)})
		}
	}
	for _, s := range p.spans {
		if s.dump {
			p.vouch(s.path, resourcesync.Header{Capability: resourcesync.ChangeDump, From: resourcesync.NewDatetime(s.from), Until: resourcesync.NewDatetime(s.until)})
		}
	}
	return p, at
}

// change gives the first n resources a new content, or deletes them if data is
// empty.
func (p *packagedPast) change(n int, data string) {
	for i := range n {
		p.now = p.now.Add(p.step)
		v := atVersion{path: fmt.Sprintf("/r/%c", 'a'+i), at: p.now, nth: len(p.log)}
		if data != "" {
			v.data = fmt.Sprintf("%s, of %d", data, i)
		}
		p.alive[v.nth] = p.mementos
		p.log = append(p.log, v)
	}
	p.now = p.now.Add(time.Second)
}

// vouch makes the dump at path state the hash of its only package, and makes the
// package that does not match it.
func (p *packagedPast) vouch(path string, h resourcesync.Header) {
	pack := fmt.Sprintf("/rs/package-%d.zip", len(p.right))
	p.right[pack] = tamper(p, p.docs[pack], "right", "right", false)
	p.wrong[pack] = tamper(p, p.docs[pack], "right", "wrong", false)
	if len(p.right[pack]) != len(p.wrong[pack]) {
		p.Fatalf("%s: the packages have %d and %d bytes", pack, len(p.right[pack]), len(p.wrong[pack]))
	}
	sum := sha256.Sum256(p.right[pack])
	h.Links = nil
	p.write(path, h, []resourcesync.Entry{{Loc: p.url(pack), Metadata: resourcesync.Metadata{
		Type: "application/zip", Length: int64(len(p.right[pack])), HasLength: true, From: h.From, Until: h.Until,
		Hashes: resourcesync.Hashes{{Algorithm: resourcesync.SHA256, Digest: string(sum[:])}},
	}}})
	p.docs[pack] = p.right[pack]
}

// ServeHTTP answers requests for parts of packages, unless they can only be read
// whole; all else is as in an atWorld.
func (p *packagedPast) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if _, ok := p.right[r.URL.Path]; ok && !p.noRanges {
		w.Header().Set("ETag", `"the-same"`)
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(p.docs[r.URL.Path]))
		return
	}
	p.atWorld.ServeHTTP(w, r)
}

// TestAtArchivedPackageOfAnotherHash: of an archived package whose bytes do not
// have the hash that its dump states, neither a sync nor a comparison of past states
// uses anything, though the package matches its own manifest: no content, no change,
// no deletion. The failure names the package, and another source of the
// same content is used where there is one (RA-DST-03, RS-ZIP-09).
func TestAtArchivedPackageOfAnotherHash(t *testing.T) {
	t.Parallel()
	for _, tt := range []packagedStyle{
		{name: "Resource Dump", resourceDump: true, mementos: true},
		{name: "Resource Dump without hashes of members", noHash: true, resourceDump: true, changeDump: true},
		{name: "Resource Dump and Change Dump", resourceDump: true, changeDump: true},
		{name: "Change Dump", changeDump: true, mementos: true},
		{name: "Change Dump without hashes of members", noHash: true, changeDump: true},
		{name: "both beside lists", beside: true, resourceDump: true, changeDump: true},
		{name: "both beside lists without hashes", noHash: true, beside: true, resourceDump: true, changeDump: true},
		{name: "both beside lists that name mementos", beside: true, mementos: true, resourceDump: true, changeDump: true},
	} {
		for _, noRanges := range []bool{false, true} {
			name := tt.name
			if noRanges {
				name += ", read whole"
			}
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				p, at := newPackagedPast(t, tt)
				p.noRanges = noRanges
				r, diff, files := p.lookBack(at)
				if r.By.Package == 0 && !(tt.beside && tt.mementos) || diff.err != nil || len(diff.changes) != pastResources || holds(files, "wrong") {
					t.Fatalf("a package with the stated hash is not used: %+v, %v\n%+v", r.Report, files, diff)
				}
				for path, data := range p.wrong {
					p.docs[path] = data
				}
				r, diff, files = p.lookBack(at)
				if r.By.Package > 0 || r.Deleted > 0 || holds(files, "wrong") {
					t.Errorf("sync took from the package: %+v\n%v", r.Report, files)
				}
				if ok := tt.beside && tt.mementos; ok {
					if r.err != nil || len(files) != pastResources || !holds(files, "version 2, the right") {
						t.Errorf("sync did not use the lists and mementos: %v, %+v\n%v", r.err, r.Report, files)
					}
				} else if !errors.Is(r.err, destination.ErrIncomplete) || !strings.Contains(problems(r.err, r.Warnings, r.Failures), ".zip is not what its dump states") {
					t.Errorf("sync does not name the package: %v, %+v", r.err, r.Report)
				}
				if tt.mementos && (len(files) != pastResources) && !tt.resourceDump {
					t.Errorf("sync did not use the mementos: %v", files)
				}
				switch {
				case tt.beside:
					if diff.err != nil || len(diff.changes) != pastResources {
						t.Errorf("diff did not use the lists: %+v", diff)
					}
				case !errors.Is(diff.err, destination.ErrIncomplete) || len(diff.changes) > 0:
					t.Errorf("diff took from the package: %+v", diff)
				case !strings.Contains(problems(diff.err, diff.Warnings, diff.Failures), ".zip is not what its dump states"):
					t.Errorf("diff does not name the package: %+v", diff)
				}
			})
		}
	}
}

// problems returns the error, warnings and failures of a run as one text.
func problems(err error, warnings []string, failures []destination.Failure) string {
	text := fmt.Sprint(err) + strings.Join(warnings, "\n")
	for _, f := range failures {
		text += "\n" + f.Cause
	}
	return text
}

// holds reports whether a file contains text.
func holds(files map[string]string, text string) bool {
	for _, data := range files {
		if strings.Contains(data, text) {
			return true
		}
	}
	return false
}

type pastSync struct {
	destination.Report
	err error
}

type pastDiff struct {
	destination.DiffReport
	changes []destination.Difference
	err     error
}

// lookBack syncs a new mirror to an instant, and compares that instant with now.
func (p *packagedPast) lookBack(at time.Time) (r pastSync, diff pastDiff, files map[string]string) {
	p.Helper()
	c, err := fetch.New(fetch.Options{Home: discover.Home(p.srv.URL), Retries: -1})
	if err != nil {
		p.Fatal(err)
	}
	defer c.Close()
	dir := p.TempDir()
	store, err := blob.NewDir(dir, blob.DirOptions{})
	if err != nil {
		p.Fatal(err)
	}
	defer store.Close()
	d, err := destination.New(store, new(journal.Mem), c, destination.Options{MaxDelete: 100, At: at})
	if err != nil {
		p.Fatal(err)
	}
	r.Report, r.err = d.Sync(context.Background(), p.srv.URL)
	diff.DiffReport, diff.err = d.Diff(context.Background(), p.srv.URL, at, time.Time{}, func(x destination.Difference) error {
		diff.changes = append(diff.changes, x)
		return nil
	})
	return r, diff, (&mirror{t: p.TB, dir: dir}).files()
}
