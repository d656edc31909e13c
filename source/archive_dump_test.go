package source_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"lockstep/blob"
	"lockstep/resourcesync"
	"lockstep/source"
)

// crawlDumpPast reads the archives of a set's dumps, the dumps themselves, and
// every package, as strictly as it can.
func crawlDumpPast(read func(name string) ([]byte, error)) (*pastCrawl, error) {
	p := &pastCrawl{crawl: crawl{read: read}, changes: make(map[time.Time]resourcesync.Entry), dumps: true}
	_, entries, err := p.document("resourcesync/main/capabilitylist.xml", resourcesync.CapabilityList)
	if errors.Is(err, blob.ErrNotExist) {
		return nil, errNothing
	}
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		switch e.Capability {
		case resourcesync.ResourceDump:
			err = p.dumped(name(e.Loc), time.Time{}, "")
		case resourcesync.ChangeDump:
			err = p.packed(name(e.Loc), time.Time{}, time.Time{}, "")
		case resourcesync.ResourceDumpArchive:
			err = p.archive(e.Loc, e.Capability, func(a resourcesync.Entry) error {
				p.listed = append(p.listed, name(a.Loc))
				return p.dumped(name(a.Loc), a.At.Time(), e.Loc)
			})
		case resourcesync.ChangeDumpArchive:
			err = p.archive(e.Loc, e.Capability, func(a resourcesync.Entry) error {
				p.closed = append(p.closed, name(a.Loc))
				return p.packed(name(a.Loc), a.From.Time(), a.Until.Time(), e.Loc)
			})
		}
		if err != nil {
			return nil, err
		}
	}
	slices.SortFunc(p.intervals, func(a, b [2]time.Time) int { return a[0].Compare(b[0]) })
	slices.SortStableFunc(p.snapshots, func(a, b snapshot) int { return a.at.Compare(b.at) })
	return p, nil
}

// dumped reads a Resource Dump.
func (p *pastCrawl) dumped(doc string, at time.Time, archive string) error {
	d := dumpCrawl{crawl: &crawl{read: p.read}, state: make(map[string]string)}
	if err := d.resourceDump(doc); err != nil {
		return err
	}
	if archive != "" {
		h, entries, err := d.document(doc, resourcesync.ResourceDump)
		if err != nil {
			return err
		}
		if !h.At.Time().Equal(at) || h.Link("archives") != archive { // RA-RES-01, RA-DOC-10
			return fmt.Errorf("at %s, archives %s; want %s, %s", h.At, h.Link("archives"), at, archive)
		}
		for _, part := range entries {
			if !h.Index {
				break
			}
			if ph, _, err := d.document(name(part.Loc), resourcesync.ResourceDump); err != nil || ph.Link("index") != baseURL+doc {
				return fmt.Errorf("%s: index %s, %w", part.Loc, ph.Link("index"), err)
			}
		}
	}
	s := snapshot{d.at, make(map[string]string)}
	for uri, content := range d.state {
		r := record(uri, content)
		s.state[uri] = digest(r.Length, r.Hashes)
	}
	p.snapshots = append(p.snapshots, s)
	return nil
}

// packed reads a Change Dump.
func (p *pastCrawl) packed(doc string, from, until time.Time, archive string) error {
	d := dumpCrawl{crawl: &crawl{read: p.read}}
	h, entries, err := d.document(doc, resourcesync.ChangeDump)
	if err != nil {
		return err
	}
	if archive != "" && (h.Index || !h.From.Time().Equal(from) || !h.Until.Time().Equal(until) || until.IsZero() || h.Link("archives") != archive) {
		return fmt.Errorf("[%s, %s) archives %s; want [%s, %s) %s", h.From, h.Until, h.Link("archives"), from, until, archive)
	}
	var packages []resourcesync.Entry
	for _, part := range d.parts(h, entries) {
		pe := entries
		if part != nil {
			if _, pe, err = d.document(name(part.Loc), resourcesync.ChangeDump); err != nil {
				return err
			}
		}
		packages = append(packages, pe...)
	}
	for _, e := range packages {
		mh, items, _, err := d.pkg(e, resourcesync.ChangeDumpManifest)
		if err == nil {
			err = p.events(mh, items)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (d *dumpWorld) crawlDumpPast() *pastCrawl {
	d.Helper()
	p, err := crawlDumpPast(reader(d.docs))
	if err != nil {
		d.Fatal(err)
	}
	return p
}

// TestDumpArchives holds that archived dumps, with all their packages and the
// copies of manifests (RA-AMB-09), tell of
// every moment since the first, that what is archived never changes, and that
// nothing stays that is not needed (RA-GEN-09, RA-GEN-13).
func TestDumpArchives(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name    string
		max     int
		retain  source.Retain
		indexes int
	}{
		{"all", 0, source.Retain{All: true}, 0},
		{"parts", 3, source.Retain{All: true}, 2},
		{"count", 3, source.Retain{Count: 4}, -1},
		{"age", 0, source.Retain{Age: 9 * time.Hour}, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			d := newDumpWorld(t, source.Options{MaxEntries: tt.max, Grace: time.Hour}, source.Set{
				ChangeList:   source.ChangeList{Keep: 4 * time.Hour},
				ResourceDump: &source.ResourceDump{Every: 3 * time.Hour, PackageEntries: 2},
				ChangeDump:   &source.ChangeDump{Every: time.Hour, PackageEntries: 3},
				Archive:      &source.Archive{ResourceDumps: &tt.retain, ChangeDumps: &tt.retain},
			})
			s := d.source()
			d.publish(s)
			d.dump(s)
			since := d.crawlDumpPast().snapshots[0].at
			seen := make(map[string]string)
			for i := range 24 {
				d.pass(time.Hour)
				d.put(fmt.Sprintf("r%d=%d", i%7, i), fmt.Sprintf("s%d=%d", i%11, i))
				if i%5 == 0 {
					d.put(fmt.Sprintf("s%d", i%11))
				}
				if i == 12 {
					s = d.source()
				}
				d.publish(s)
				d.dump(s)
				d.holds(d.dumps())
				p := d.crawlDumpPast()
				if tt.retain.All {
					if n, err := p.tells(d.world.past, since); err != nil || n < i {
						t.Fatalf("round %d: %v, %d moments", i, err, n)
					}
				}
				files := d.files()
				for _, name := range slices.Concat(p.listed, p.closed) {
					if old, ok := seen[name]; ok && old != files[name] {
						t.Errorf("%s was\n%s\nis\n%s", name, old, files[name])
					}
					seen[name] = files[name]
				}
			}
			p := d.crawlDumpPast()
			if len(p.listed) < 3 || tt.retain.All && (len(p.listed) < 7 || len(p.closed) < 3) || tt.retain.Count > 0 && (len(p.listed) > 4 || len(p.closed) > 7) ||
				tt.indexes >= 0 && p.indexes != tt.indexes {
				t.Errorf("%d and %d dumps are archived, %d indexes", len(p.listed), len(p.closed), p.indexes)
			}
			for range 14 { // until nothing more leaves, and what has left goes
				d.pass(61 * time.Minute)
				d.publish(s)
				d.dump(s)
			}
			d.noLitter()
			if r, err := d.source().PublishDumps(context.Background()); err != nil || r.Written {
				t.Errorf("a new process has written (%v), though nothing changed, %v", r.Written, err)
			}
		})
	}
}

// noLitter holds that every package is named by something.
func (d *dumpWorld) noLitter() {
	d.Helper()
	named := make(map[string]bool)
	read := func(name string) ([]byte, error) {
		named[name] = true
		return reader(d.docs)(name)
	}
	if _, err := crawlDumpPast(read); err != nil {
		d.Fatal(err)
	}
	for name := range d.files() {
		if strings.Contains(name, "dump-") && !named[name] {
			d.Errorf("%s is left", name)
		}
	}
}
