package source_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"lockstep/source"
)

var keepAll = &source.Retain{All: true}

// archiving returns options of one set with archives of its lists.
func archiving(o source.Options, c source.ChangeList, a source.Archive) source.Options {
	o.Sets = []source.Set{{ChangeList: c, Archive: &a}}
	return o
}

func (w *world) crawlPast() *pastCrawl {
	w.Helper()
	p, err := crawlPast(reader(w.docs))
	if err != nil {
		w.Fatal(err)
	}
	return p
}

// TestArchivesTellThePast holds that lists and archives together tell of every
// moment since the first publication, whatever form lists have, and that what is
// archived never changes (RA-GEN-09, RA-CHG-08).
func TestArchivesTellThePast(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name     string
		opts     source.Options
		list     source.ChangeList
		archives int // that are an index
	}{
		{"one document", source.Options{}, source.ChangeList{}, 0},
		{"parts", source.Options{}, source.ChangeList{Entries: 3}, 0},
		{"index", source.Options{MaxEntries: 4}, source.ChangeList{}, 2},
		{"rotated", source.Options{}, source.ChangeList{Rotate: 2 * time.Hour}, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			tt.opts.Grace = time.Hour
			tt.list.Keep = 8 * time.Hour
			w := newWorld(t, archiving(tt.opts, tt.list, source.Archive{ResourceLists: &source.Retain{All: true, Every: 5 * time.Hour}, ChangeLists: keepAll}))
			s := w.source()
			w.publish(s)
			first := w.crawlPast()
			if len(first.listed) != 1 || len(first.closed) != 0 { // RA-GEN-11, RA-DOC-11
				t.Errorf("at first there are %d lists and %d change lists in the archives, want 1 and 0", len(first.listed), len(first.closed))
			}
			since := first.snapshots[0].at
			seen := make(map[string]string)
			for i := range 40 {
				w.pass(time.Hour)
				w.put(fmt.Sprintf("r%d=%d", i%7, i), fmt.Sprintf("s%d=%d", i, i))
				if i%3 == 0 {
					w.put(fmt.Sprintf("s%d", i))
				}
				w.publish(s)
				w.upToDate()
				p := w.crawlPast()
				if n, err := p.tells(w.past, since); err != nil || n < i {
					t.Fatalf("round %d: %v, %d moments", i, err, n)
				}
				for _, name := range slices.Concat(p.listed, p.closed) {
					now := w.files()[name]
					if old, ok := seen[name]; ok && old != now {
						t.Errorf("%s was\n%s\nis\n%s", name, old, now)
					}
					seen[name] = now
				}
			}
			p := w.crawlPast()
			if len(p.listed) < 7 || len(p.listed) > 9 || len(p.closed) < 4 || p.indexes != tt.archives {
				t.Errorf("%d lists, %d change lists, %d indexes: %s %s", len(p.listed), len(p.closed), p.indexes, p.listed, p.closed)
			}
			before := w.files()
			if r := w.publish(w.source()); r.Written {
				t.Error("a new process has written, though nothing changed")
			}
			if after := w.files(); !slices.Equal(namesOf(before), namesOf(after)) {
				t.Errorf("%v, were %v", namesOf(after), namesOf(before))
			}
		})
	}
}

func namesOf(files map[string]string) (names []string) {
	for name := range files {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// TestHomePageTellsOfThePast: it names archives that are there, says how to have
// what was, and where prior versions are, if any are kept.
func TestHomePageTellsOfThePast(t *testing.T) {
	t.Parallel()
	o := archiving(source.Options{}, source.ChangeList{}, source.Archive{ResourceLists: &source.Retain{All: true}, ChangeLists: &source.Retain{All: true}})
	o.Sets[0].Versions = newPast(t).Versions
	for _, tt := range []struct {
		name string
		o    source.Options
		want bool
	}{{"archives and versions", o, true}, {"neither", source.Options{}, false}} {
		w := newWorld(t, tt.o)
		w.put("a=1")
		s := w.source()
		w.publish(s)
		s = w.source() // it is told of what is there, after a restart as well
		w.publish(s)
		rec := httptest.NewRecorder()
		s.Handler().ServeHTTP(rec, httptest.NewRequest(http.MethodGet, baseURL, nil))
		body := rec.Body.String()
		for _, part := range []string{
			"--at TIME",
			`<a href="` + baseURL + `resourcesync/main/resourcelist-archive.xml">Resource Lists</a>, <a href="` + baseURL + `resourcesync/main/changelist-archive.xml">Change Lists</a>`,
			"<code>" + baseURL + "timegate/</code>",
			"<code>" + baseURL + "timemap/</code>",
		} {
			if !strings.Contains(body, "1 resource on <time") {
				t.Errorf("%s: the home page does not say how many resources there are:\n%s", tt.name, body)
			}
			if got := strings.Contains(body, part); got != tt.want {
				t.Errorf("%s: the home page has %s: %v, want %v\n%s", tt.name, part, got, tt.want, body)
			}
		}
	}
}

// TestArchiveRetention: what the policy says stays, and all it needs; what
// leaves the archive is there for the grace period, then it is gone (RA-GEN-13).
func TestArchiveRetention(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name           string
		retain         source.Retain
		lists, changes int
	}{
		{"count", source.Retain{Count: 3}, 3, 3},
		{"age", source.Retain{Age: 5 * time.Hour}, 6, 6},
		{"one", source.Retain{Count: 1}, 1, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, archiving(source.Options{MaxEntries: 3, Grace: 2 * time.Hour},
				source.ChangeList{Rotate: time.Minute, Keep: 2 * time.Hour}, source.Archive{ResourceLists: &tt.retain, ChangeLists: &tt.retain}))
			s := w.source()
			for i := range 20 {
				w.put(fmt.Sprintf("a%d=1", i), fmt.Sprintf("b%d=1", i))
				w.publish(s)
				w.pass(time.Hour)
				if i == 10 {
					s = w.source()
				}
			}
			p := w.crawlPast()
			if abs(len(p.listed)-tt.lists) > 1 || abs(len(p.closed)-tt.changes) > 4 {
				t.Errorf("%d lists and %d change lists are archived, want %d and about %d", len(p.listed), len(p.closed), tt.lists, tt.changes)
			}
			for range 10 { // until nothing more leaves
				w.pass(time.Hour)
				w.publish(s)
			}
			p = w.crawlPast()
			needed := make(map[string]bool)
			for _, name := range p.listed {
				needed[strings.TrimSuffix(name, ".xml")] = true
			}
			copies := 0
			for _, name := range w.names("resourcesync/main/resourcelist-2") {
				stem := strings.TrimSuffix(name, ".xml")
				if len(strings.Split(stem, "-")) > 2 {
					stem = stem[:strings.LastIndexByte(stem, '-')]
				} else {
					copies++
				}
				if !needed[stem] {
					t.Errorf("%s is left", name)
				}
			}
			if copies != len(p.listed) {
				t.Errorf("%d copies of lists, %d in the archive", copies, len(p.listed))
			}
		})
	}
}

func abs(n int) int { return max(n, -n) }

// TestArchivesAdvertised: the Capability List of a set names each of its archives
// once, after the documents they are the past of, and nothing else leads there
// but those (RA-ADV-01, RA-ADV-02, RA-ADV-05, RA-ADV-06). A kind that is not
// asked for is not there (RA-GEN-02).
func TestArchivesAdvertised(t *testing.T) {
	t.Parallel()
	small := source.Retain{Count: 2}
	for kinds := range 16 {
		a := &source.Archive{}
		for i, r := range []**source.Retain{&a.ResourceLists, &a.ResourceDumps, &a.ChangeLists, &a.ChangeDumps} {
			if kinds&(1<<i) != 0 {
				*r = &small
			}
		}
		set := bothDumps
		set.Archive = a
		d := newDumpWorld(t, source.Options{}, set)
		d.put("a=1")
		s := d.source()
		d.publish(s)
		d.dump(s)
		files := d.files()
		for i, kind := range []string{"resourcelist", "resourcedump", "changelist", "changedump"} {
			doc := "resourcesync/main/" + kind + "-archive.xml"
			_, there := files[doc]
			named := strings.Count(files["resourcesync/main/capabilitylist.xml"], "<loc>"+baseURL+doc+`</loc><rs:md capability="`+kind+`-archive"/>`)
			linked := strings.Contains(files["resourcesync/main/"+kind+".xml"], `<rs:ln rel="archives" href="`+baseURL+doc+`"/>`)
			if want := kinds&(1<<i) != 0; there != want || (named == 1) != want || named > 1 || linked != want {
				t.Errorf("%+v: %s is there %v, named %d times, linked %v", *a, doc, there, named, linked)
			}
		}
		for name, text := range files {
			if (name == "robots.txt" || strings.Contains(name, "well-known") || strings.Contains(name, "archive") && strings.HasPrefix(name, "resourcesync/") ||
				strings.HasSuffix(name, "capabilitylist.xml")) && strings.Contains(text, `rel="archives"`) || name == "robots.txt" && strings.Contains(text, "archive") {
				t.Errorf("%s leads to an archive:\n%s", name, text)
			}
		}
	}
}

// TestArchiveRefused: what cannot be meant is an error in words.
func TestArchiveRefused(t *testing.T) {
	t.Parallel()
	for _, r := range []source.Retain{{}, {All: true, Count: 1}, {Count: 1, Age: time.Hour}, {Count: -1}, {Age: -1}, {All: true, Every: -1}} {
		w := newWorld(t, archiving(source.Options{}, source.ChangeList{}, source.Archive{ChangeLists: &r}))
		if _, err := source.New(w.cat, w.docs, w.opts); err == nil || !strings.Contains(err.Error(), "archive of Change Lists") {
			t.Errorf("New with %+v: %v", r, err)
		}
	}
}

// TestArchiveIsPointers: an archive names documents, each once, and never
// resources or packages (RA-GEN-03, RA-DOC-05); it has as many entries as any
// document may have, then there is an index (RA-GEN-05).
func TestArchiveIsPointers(t *testing.T) {
	t.Parallel()
	w := newWorld(t, archiving(source.Options{MaxEntries: 4}, source.ChangeList{Entries: 1}, source.Archive{ChangeLists: keepAll, ResourceLists: &source.Retain{Count: 9}}))
	s := w.source()
	for i := range 14 {
		w.put(fmt.Sprintf("r=%d", i))
		w.publish(s)
		w.pass(time.Minute)
		for name, text := range w.files() {
			if strings.Contains(name, "-archive") && (strings.Count(text, "<loc>") > 4 || strings.Contains(text, ".zip") || strings.Contains(text, "<loc>"+baseURL+"r<")) {
				t.Errorf("%s:\n%s", name, text)
			}
		}
	}
	p := w.crawlPast()
	if p.indexes != 2 || len(p.listed) != 9 || len(p.closed) < 12 {
		t.Errorf("%d indexes, %d lists, %d change lists", p.indexes, len(p.listed), len(p.closed))
	}
}
