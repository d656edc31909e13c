package source_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"lockstep/blob"
	"lockstep/catalog"
	"lockstep/source"
)

// TestArchiveWithdrawn: an archive that is to be no more goes from the Capability
// List first, then for itself, then what only it named (RA-GEN-13); no document
// written since links to it (RA-ADV-03).
func TestArchiveWithdrawn(t *testing.T) {
	t.Parallel()
	w := newWorld(t, archiving(source.Options{MaxEntries: 3, Grace: time.Hour}, source.ChangeList{Keep: 2 * time.Hour},
		source.Archive{ResourceLists: keepAll, ChangeLists: keepAll}))
	s := w.source()
	for i := range 12 {
		w.put(fmt.Sprintf("r%d=%d", i%5, i))
		w.publish(s)
		w.pass(time.Hour)
	}
	if p := w.crawlPast(); len(p.listed) != 12 || len(p.closed) < 3 || p.indexes != 2 {
		t.Fatalf("archived are %d and %d, in %d indexes", len(p.listed), len(p.closed), p.indexes)
	}
	w.opts.Sets[0].Archive = nil
	s = w.source()
	if r := w.publish(s); !r.Written || !r.Sets[0].List {
		t.Errorf("Publish = %+v, want a list that has no link to an archive", r)
	}
	w.upToDate()
	if names := w.names("resourcesync/main/resourcelist-archive.xml"); len(names) > 0 {
		t.Errorf("%s is there", names)
	}
	if len(w.names("resourcesync/main/resourcelist-2")) < 20 {
		t.Error("what was archived was removed at once")
	}
	for range 3 {
		w.pass(2 * time.Hour)
		w.put("z=" + w.now().String())
		w.publish(s)
	}
	w.upToDate()
	for name, content := range w.files() {
		if strings.Contains(name, "archive") && strings.HasPrefix(name, "resourcesync/") || strings.HasPrefix(name, "resourcesync/main/resourcelist.") && strings.Contains(content, `rel="archives"`) {
			t.Errorf("%s is left\n%s", name, content)
		}
	}
	if n := len(w.names("resourcesync/main/resourcelist-2")); n > 8 {
		t.Errorf("%d documents of archived lists are left", n)
	}
	w.opts.Sets[0].Archive = &source.Archive{ResourceLists: keepAll, ChangeLists: keepAll}
	w.publish(w.source())
	if p := w.crawlPast(); len(p.listed) != 1 {
		t.Errorf("%d lists in an archive that is turned on again, want 1", len(p.listed))
	}
}

// TestArchiveTurnedOn: what was closed before there was an archive goes into it,
// and links to it as what is closed since does (RA-GEN-12), whether or not it was
// an archive's before.
func TestArchiveTurnedOn(t *testing.T) {
	t.Parallel()
	kept := &source.Archive{ResourceLists: keepAll, ChangeLists: keepAll}
	w := newWorld(t, archiving(source.Options{MaxEntries: 3, Grace: time.Hour}, source.ChangeList{Keep: 20 * time.Hour}, *kept))
	for i, a := range []*source.Archive{nil, kept, nil, kept} {
		w.opts.Sets[0].Archive = a
		s := w.source()
		for n := range 7 {
			w.put(fmt.Sprintf("r%d=%d of %d", n%5, n, i))
			w.publish(s)
			w.pass(10 * time.Minute)
		}
		w.upToDate()
		if a == nil {
			continue
		}
		if p := w.crawlPast(); len(p.closed) < 2 {
			t.Errorf("%d Change Lists are archived", len(p.closed))
		}
		for _, name := range w.names("resourcesync/main/changelist-2") {
			if content := w.files()[name]; !strings.Contains(content, `rel="archives"`) {
				t.Errorf("%s does not link to its archive\n%s", name, content)
			}
		}
	}
}

// TestArchiveLost: an archive that is lost, damaged or somebody else's is made
// anew from what is remembered, and what is remembered, from the archive;
// nothing that was archived is removed meanwhile.
func TestArchiveLost(t *testing.T) {
	t.Parallel()
	for name, harm := range map[string]func(w *world){
		"archive":    func(w *world) { w.remove("resourcesync/main/changelist-archive.xml") },
		"garbage":    func(w *world) { w.write("resourcesync/main/resourcelist-archive.xml", "<urlset") },
		"stranger's": func(w *world) { w.write("resourcesync/main/changelist-archive.xml", "<html/>") },
		"part":       func(w *world) { w.remove("resourcesync/main/resourcelist-archive-00001.xml") },
		"part cut":   func(w *world) { w.write("resourcesync/main/changelist-archive-00001.xml", "<urlset>") },
		"remembered": func(w *world) { w.remove(".lockstep/archives/main.json") },
		"nonsense": func(w *world) {
			w.write(".lockstep/archives/main.json", `{"version":1,"archives":{"changelist":[{"name":"x"}]}}`)
		},
		"state": func(w *world) { w.remove(".lockstep/main.json"); w.remove(".lockstep/main.tail.json") },
		"all but archives": func(w *world) {
			w.remove(".lockstep/main.json")
			w.remove(".lockstep/main.tail.json")
			w.remove(".lockstep/archives/main.json")
		},
	} {
		for _, rotate := range []time.Duration{0, time.Hour} {
			t.Run(fmt.Sprintf("%s, rotate %s", name, rotate), func(t *testing.T) {
				t.Parallel()
				w := newWorld(t, archiving(source.Options{MaxEntries: 3, Grace: time.Hour}, source.ChangeList{Keep: 3 * time.Hour, Rotate: rotate},
					source.Archive{ResourceLists: keepAll, ChangeLists: keepAll}))
				s := w.source()
				w.publish(s)
				since := w.crawlPast().snapshots[0].at
				for i := range 14 {
					w.pass(time.Hour)
					w.put(fmt.Sprintf("r%d=%d", i%5, i))
					w.publish(s)
				}
				before := w.crawlPast()
				harm(w)
				s = w.source()
				for i := range 6 {
					w.publish(s)
					w.upToDate()
					p := w.crawlPast()
					if n, err := p.tells(w.past, since); err != nil || n < 14 {
						t.Fatalf("round %d: %v, %d moments", i, err, n)
					}
					for _, doc := range slices.Concat(before.listed, before.closed) {
						if !slices.Contains(p.listed, doc) && !slices.Contains(p.closed, doc) {
							t.Errorf("%s is not archived any more", doc)
						}
					}
					w.pass(time.Hour)
					w.put(fmt.Sprintf("s%d=%d", i, i))
				}
			})
		}
	}
}

// TestArchiveOfLostHistory: when the history begins anew, because the catalog
// was restored from an older copy, all that was told is in the archive, closed,
// and does not seem to join what follows.
func TestArchiveOfLostHistory(t *testing.T) {
	t.Parallel()
	for _, rotate := range []time.Duration{0, time.Hour} {
		for _, back := range []bool{false, true} { // the clock goes back as well
			t.Run(fmt.Sprintf("rotate=%s back=%v", rotate, back), func(t *testing.T) {
				t.Parallel()
				w := newWorld(t, archiving(source.Options{Grace: time.Hour}, source.ChangeList{Keep: 3 * time.Hour, Rotate: rotate},
					source.Archive{ResourceLists: keepAll, ChangeLists: keepAll}))
				s := w.source()
				w.publish(s)
				since := w.crawlPast().snapshots[0].at
				for i := range 8 {
					w.pass(time.Hour)
					w.put(fmt.Sprintf("r%d=%d", i%5, i))
					w.publish(s)
				}
				told := w.crawlPast()
				end := w.now()
				if back {
					w.pass(-90 * time.Minute)
				} else {
					w.pass(time.Hour)
				}
				w.cat, w.live = catalog.NewMem(w.now), map[string]string{}
				w.put("other=1")
				past := w.past
				w.past = nil
				w.remember()
				w.publish(w.source())
				p := w.crawlPast()
				began := p.snapshots[len(p.snapshots)-1].at
				if covered := p.covered(); covered.Before(began.Add(-time.Minute)) {
					t.Errorf("the history seems to be whole since %s: %v", covered, p.intervals)
				}
				for at := range told.changes {
					if _, ok := p.changes[at]; !ok && (!back || at.Before(began.Add(-2*time.Hour))) {
						t.Errorf("the change at %s is told no more: %v", at, p.intervals)
					}
				}
				if back {
					for _, s := range p.snapshots[:len(p.snapshots)-1] {
						if s.at.After(began) {
							t.Errorf("a list of %s is told, the history begins at %s", s.at, began)
						}
					}
					return
				}
				old := *p // as it was told, up to its end
				old.intervals = slices.DeleteFunc(slices.Clone(p.intervals), func(i [2]time.Time) bool { return i[0].After(end) })
				old.snapshots = slices.DeleteFunc(slices.Clone(p.snapshots), func(s snapshot) bool { return s.at.After(end) })
				if n, err := old.tells(past, since); err != nil || n < 8 {
					t.Errorf("of what was: %v, %d moments", err, n)
				}
			})
		}
	}
}

// A countingStore counts what is asked of it.
type countingStore struct {
	blob.Store
	mu              sync.Mutex // guards what follows
	opened, created []string
}

func (s *countingStore) note(names *[]string, name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	*names = append(*names, name)
}

func (s *countingStore) Open(ctx context.Context, name string) (blob.Reader, error) {
	s.note(&s.opened, name)
	return s.Store.Open(ctx, name)
}

func (s *countingStore) Create(ctx context.Context, name string) (blob.Writer, error) {
	s.note(&s.created, name)
	return s.Store.Create(ctx, name)
}

// TestArchivingCopiesNothing: to archive a list costs one small document beside
// it, the archive, and what is remembered, however large the list is; what leaves
// the Change List part by part costs no bytes of its own.
func TestArchivingCopiesNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, archiving(source.Options{MaxEntries: 10, Grace: time.Hour}, source.ChangeList{Entries: 5, Keep: 2 * time.Hour},
		source.Archive{ResourceLists: keepAll, ChangeLists: keepAll}))
	count := &countingStore{Store: w.docs}
	w.docs = count
	w.fill("r%03d", 95)
	s := w.source()
	w.publish(s)
	for i := range 10 {
		w.pass(time.Hour)
		for j := range 5 {
			w.put(fmt.Sprintf("r%03d=%d", j, i))
		}
		count.opened, count.created = nil, nil
		w.publish(s)
		var archives, copies, others int
		for _, name := range count.created {
			switch {
			case strings.Contains(name, "archive"):
				archives++
			case strings.HasPrefix(name, "resourcesync/main/resourcelist-") && !strings.Contains(name[len("resourcesync/main/resourcelist-"):], "-"):
				copies++
			default:
				others++
			}
		}
		// Ten parts of the list, its index; the state twice; a closed and an open
		// part of the Change List, its index.
		if archives > 7 || copies != 1 || others > 10+1+2+3 {
			t.Errorf("round %d: %d blobs for archives, %d copies of the index, %d others: %s", i, archives, copies, others, count.created)
		}
		for _, name := range count.opened {
			if strings.Contains(name, "list-2") {
				t.Errorf("round %d: %s is read", i, name)
			}
		}
	}
}

// TestListed: every change that a document names is above the floor, and every
// snapshot is among them (ME-RET-01).
func TestListed(t *testing.T) {
	t.Parallel()
	d := newDumpWorld(t, source.Options{Grace: time.Hour}, source.Set{
		ChangeList:   source.ChangeList{Keep: 3 * time.Hour},
		ResourceDump: &source.ResourceDump{Every: 2 * time.Hour}, ChangeDump: &source.ChangeDump{Every: time.Hour},
		Archive: &source.Archive{ResourceLists: &source.Retain{Count: 3}, ResourceDumps: &source.Retain{Count: 2}, ChangeLists: &source.Retain{Age: 4 * time.Hour}, ChangeDumps: &source.Retain{Count: 1}},
	})
	s := d.source()
	ctx := context.Background()
	if floor, snapshots, err := s.Listed(ctx, "main"); floor != 0 || len(snapshots) != 0 || err != nil {
		t.Errorf("Listed = %d, %v, %v before anything is published", floor, snapshots, err)
	}
	rose := false
	for i := range 20 {
		d.put(fmt.Sprintf("r%d=%d", i%3, i))
		d.publish(s)
		d.dump(s)
		for _, s := range []*source.Source{s, d.source()} {
			floor, snapshots, err := s.Listed(ctx, "main")
			if err != nil {
				t.Fatal(err)
			}
			rose = rose || floor > 0
			lists, dumps := d.crawlPast(), d.crawlDumpPast()
			var all []catalog.Change
			for c, err := range d.cat.Changes(ctx, d.set, floor) {
				if err != nil {
					t.Fatal(err)
				}
				all = append(all, c)
			}
			for _, p := range []*pastCrawl{lists, dumps} {
				for at := range p.changes {
					known := slices.ContainsFunc(all, func(c catalog.Change) bool { return c.EventTime.Equal(at) })
					if st, _ := d.cat.Status(ctx, d.set); !known && st.Kept.Seq <= floor {
						t.Errorf("round %d: the change at %s is told, the floor is %d", i, at, floor)
					}
				}
				for _, snap := range p.snapshots {
					if !slices.ContainsFunc(snapshots, func(m catalog.Mark) bool { return m.At.Equal(snap.at) && m.Seq > 0 }) {
						t.Errorf("round %d: the snapshot of %s is not among %v", i, snap.at, snapshots)
					}
				}
			}
		}
		d.pass(time.Hour)
	}
	if !rose {
		t.Error("the floor never rises")
	}
}
