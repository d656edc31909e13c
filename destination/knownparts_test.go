package destination_test

import (
	"crypto/md5"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"lockstep/destination/journal"
	"lockstep/storage/sqlite"
)

// A partsSite is a Source whose list is an index of parts, without changes.
type partsSite struct {
	*listSite
	texts map[string]string
	mods  map[string]string // Last-Modified of parts, the day
	full  int               // answers with a part, since reset
	same  int               // answers that a part has not changed
}

func newPartsSite(t *testing.T) *partsSite {
	s := &partsSite{listSite: newListSite(t), texts: map[string]string{}}
	s.setFault(func(w http.ResponseWriter, r *http.Request) bool {
		if !strings.HasPrefix(r.URL.Path, "/part") {
			return false
		}
		s.mu.Lock()
		text := s.doc[r.URL.Path]
		mod, _ := time.Parse(time.DateOnly, s.mods[r.URL.Path]) // otherwise there is none
		s.mu.Unlock()
		rec := &statusWriter{ResponseWriter: w}
		s.serve(rec, r, siteFile{data: []byte(text), doc: true, mod: mod})
		s.mu.Lock()
		defer s.mu.Unlock()
		if rec.status == http.StatusNotModified {
			s.same++
		} else {
			s.full++
		}
		return true
	})
	return s
}

type statusWriter struct {
	http.ResponseWriter
	status int
}

func (w *statusWriter) WriteHeader(status int) {
	w.status = status
	w.ResponseWriter.WriteHeader(status)
}

// resource has a resource at path.
func (s *partsSite) resource(path, text string) {
	s.put(path, text)
	s.texts[path] = text
}

// part writes a part that states resources as they are; those with a text beside
// the path are stated with that content.
func (s *partsSite) part(i int, paths ...string) {
	var entries []string
	for _, path := range paths {
		text, ok := s.texts[path]
		if !ok {
			s.listSite.t.Fatalf("no resource %s", path)
		}
		entries = append(entries, fmt.Sprintf(`<url><loc>%s</loc><lastmod>2024-04-01T00:00:00.25Z</lastmod><rs:md hash="md5:%x" length="%d" type="text/plain"/><rs:ln rel="describedby" href="%s"/></url>`,
			s.url(path), md5.Sum([]byte(text)), len(text), s.url("/about")))
	}
	s.list(fmt.Sprint("/part", i), "1", entries...)
}

func (s *partsSite) indexOf(at string, n int) {
	var parts []string
	for i := range n {
		parts = append(parts, fmt.Sprint("/part", i))
	}
	s.index(top, at, parts...)
}

func (s *partsSite) answers() (full, same int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	full, same = s.full, s.same
	s.full, s.same = 0, 0
	return full, same
}

// standard has twelve resources in four parts.
func (s *partsSite) standard() {
	for i := range 12 {
		s.resource(fmt.Sprintf("/r%02d", i), fmt.Sprint("text ", i))
	}
	for i := range 4 {
		s.part(i, s.three(i)...)
	}
	s.indexOf("1", 4)
}

func (s *partsSite) three(i int) []string {
	return []string{fmt.Sprintf("/r%02d", 3*i), fmt.Sprintf("/r%02d", 3*i+1), fmt.Sprintf("/r%02d", 3*i+2)}
}

// TestKnownPartsAreNotReadAgain: a part that has not changed is not transferred again,
// unless the mirror is not known to have what it states. The result is the same in any
// case.
func TestKnownPartsAreNotReadAgain(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		change func(s *partsSite, m *mirror)
		full   int // parts that are read, of four
	}{
		{"a part changes", func(s *partsSite, _ *mirror) {
			s.resource("/r04", "other")
			s.part(1, s.three(1)...)
		}, 1},
		{"a resource is gone", func(s *partsSite, _ *mirror) {
			s.del("/r04")
			s.part(1, "/r03", "/r05")
		}, 1},
		{"a resource moves to a part that changes", func(s *partsSite, _ *mirror) {
			s.part(1, "/r03", "/r04")
			s.part(2, "/r05", "/r06", "/r07", "/r08")
		}, 2},
		{"a resource is in a part that has not changed, too", func(s *partsSite, _ *mirror) {
			s.part(1, "/r03", "/r04", "/r05", "/r09")
		}, 1},
		{"a part is gone", func(s *partsSite, _ *mirror) {
			for _, path := range s.three(3) {
				s.del(path)
			}
			s.indexOf("2", 3)
		}, 0},
		{"a new resource within the range of another part", func(s *partsSite, _ *mirror) {
			s.resource("/r04a", "new")
			s.part(2, append(s.three(2), "/r04a")...)
		}, 1},
		{"that resource again, in the other part", func(s *partsSite, m *mirror) {
			s.resource("/r04a", "new")
			s.part(2, append(s.three(2), "/r04a")...)
			s.indexOf("2", 4)
			m.mustSync()
			s.answers()
			s.part(2, s.three(2)...)
			s.part(1, append(s.three(1), "/r04a")...)
		}, 2},
		{"a file is removed", func(s *partsSite, m *mirror) {
			if err := os.Remove(filepath.Join(m.dir, "r07")); err != nil {
				s.listSite.t.Fatal(err)
			}
		}, 0},
		{"other filters", func(_ *partsSite, m *mirror) { m.opts.Exclude = []string{"**/nothing"} }, 0},
		{"everything is compared", func(_ *partsSite, m *mirror) { m.opts.Baseline = true }, 4},
		{"nothing is recorded", func(_ *partsSite, m *mirror) {
			if err := m.journal.Record(m.t.Context(), journal.Batch{Save: map[string][]byte{"parts/1": nil, "parts/0": nil}}); err != nil {
				m.t.Fatal(err)
			}
		}, 4},
		{"what is recorded is damaged", func(_ *partsSite, m *mirror) {
			if err := m.journal.Record(m.t.Context(), journal.Batch{Save: map[string][]byte{"parts/1": []byte(`{"x":null`), "parts/0": []byte("[")}}); err != nil {
				m.t.Fatal(err)
			}
		}, 4},
		{"a row was changed", func(s *partsSite, m *mirror) {
			held, err := m.journal.Lookup(m.t.Context(), []string{s.url("/r07")})
			if err != nil || held[0].Stated == nil {
				m.t.Fatal(held, err)
			}
			held[0].Stated.Length++
			if err := m.journal.Record(m.t.Context(), journal.Batch{Put: held}); err != nil {
				m.t.Fatal(err)
			}
		}, 1},
		{"a row states other hashes", func(s *partsSite, m *mirror) {
			held, err := m.journal.Lookup(m.t.Context(), []string{s.url("/r07"), s.url("/r08")})
			if err != nil || held[0].Stated == nil {
				m.t.Fatal(held, err)
			}
			held[0].Stated.Hashes = held[1].Stated.Hashes
			if err := m.journal.Record(m.t.Context(), journal.Batch{Put: held[:1]}); err != nil {
				m.t.Fatal(err)
			}
		}, 1},
		{"a row is lost", func(s *partsSite, m *mirror) {
			if err := m.journal.Record(m.t.Context(), journal.Batch{Drop: []string{s.url("/r07")}}); err != nil {
				m.t.Fatal(err)
			}
		}, 1},
	} {
		for _, engine := range []string{"memory", "SQLite"} {
			t.Run(tt.name+"/"+engine, func(t *testing.T) {
				t.Parallel()
				s := newPartsSite(t)
				s.standard()
				m := newMirror(t, s.site)
				m.opts.MaxDelete = 100
				m.opts.Adopt, m.opts.Replace = true, true
				if engine == "SQLite" {
					db, err := sqlite.Open(filepath.Join(t.TempDir(), "journal.db"))
					if err != nil {
						t.Fatal(err)
					}
					t.Cleanup(func() { _ = db.Close() })
					m.journal = db.Journal()
				}
				m.mustSync()
				if full, same := s.answers(); full != 4 || same != 0 {
					t.Fatalf("the first run read %d parts, and found %d unchanged", full, same)
				}
				tt.change(s, m)
				s.indexOf("3", len(s.partNames()))
				if tt.name == "a part is gone" {
					s.indexOf("3", 3)
				}
				m.mustSync()
				if full, same := s.answers(); full != tt.full {
					t.Errorf("%d parts were read, %d were unchanged; want %d read", full, same, tt.full)
				}
			})
		}
	}
}

func (s *partsSite) partNames() (all []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for path := range s.doc {
		if strings.HasPrefix(path, "/part") {
			all = append(all, path)
		}
	}
	return all
}

// Without an ETag, many servers report a part that was replaced by an older one as unchanged.
// It is read, because the index states another lastmod, or none.
func TestKnownPartsWithoutETag(t *testing.T) {
	t.Parallel()
	s := newPartsSite(t)
	s.style.noETag = true
	s.mods = map[string]string{}
	s.standard()
	modify := func(part int, day string) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.mods[fmt.Sprint("/part", part)] = day
	}
	for i := range 4 {
		modify(i, "2024-04-20")
	}
	index := func(at string, lastmod bool) {
		body := ""
		for i := range 4 {
			body += "<sitemap><loc>" + s.url(fmt.Sprint("/part", i)) + "</loc>"
			if lastmod {
				body += "<lastmod>" + s.mods[fmt.Sprint("/part", i)] + "</lastmod>"
			}
			body += "</sitemap>"
		}
		s.replace(top, doc("sitemapindex", `<rs:md capability="resourcelist" at="2024-05-0`+at+`T00:00:00Z"/>`, body))
	}
	m := newMirror(t, s.site)
	for _, step := range []struct {
		name   string
		change func()
		full   int
	}{
		{"first", func() { index("1", true) }, 4},
		{"unchanged", func() { index("2", true) }, 0},
		{"an older part", func() {
			s.resource("/r04", "older")
			s.part(1, s.three(1)...)
			modify(1, "2024-04-10")
			index("3", true)
		}, 1},
		{"unchanged since", func() { index("4", true) }, 0},
		{"no lastmod", func() { index("5", false) }, 4},
		{"still none", func() { index("6", false) }, 4},
	} {
		step.change()
		m.mustSync()
		if full, same := s.answers(); full != step.full || same != 4-step.full {
			t.Errorf("%s: %d parts were read, %d were unchanged; want %d read", step.name, full, same, step.full)
		}
	}
}

// A resource that cannot be fetched is not forgotten with the part that states it.
func TestKnownPartsOfFailedResources(t *testing.T) {
	t.Parallel()
	s := newPartsSite(t)
	s.standard()
	s.del("/r07") // the list still states it
	m := newMirror(t, s.site)
	if r, err := m.sync(); err == nil || r.Failed != 1 {
		t.Fatalf("Sync = %+v, %v, want a failure", r, err)
	}
	s.answers()
	s.indexOf("2", 4)
	if r, err := m.sync(); err == nil || r.Failed != 1 {
		t.Fatalf("Sync = %+v, %v, want the failure again", r, err)
	}
	if full, same := s.answers(); full != 1 || same < 3 { // it is looked for in the list once more
		t.Errorf("%d parts were read, %d were unchanged; want the part of the resource that failed to be read", full, same)
	}
	s.put("/r07", s.texts["/r07"])
	s.indexOf("3", 4)
	m.mustSync()
}

// A reading that is incomplete loses nothing of what was recorded, and deletes nothing.
func TestKnownPartsOfIncompleteReadings(t *testing.T) {
	t.Parallel()
	s := newPartsSite(t)
	s.standard()
	m := newMirror(t, s.site)
	m.mustSync()
	answer := s.fault
	s.setFault(func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path == "/part2" {
			http.Error(w, "no", http.StatusInternalServerError)
			return true
		}
		return answer(w, r)
	})
	s.indexOf("2", 4)
	if _, err := m.sync(); err == nil {
		t.Fatal("Sync succeeded without a part")
	}
	m.same()
	s.setFault(answer)
	s.answers()
	s.indexOf("3", 4)
	m.mustSync()
	if full, same := s.answers(); full != 0 || same != 4 {
		t.Errorf("%d parts were read, %d were unchanged; want all to be unchanged", full, same)
	}
}

// The warnings about a part are repeated while it stays as it is.
func TestKnownPartsKeepTheirWarnings(t *testing.T) {
	t.Parallel()
	s := newPartsSite(t)
	s.standard()
	m := newMirror(t, s.site)
	first := m.mustSync()
	s.indexOf("2", 4)
	s.answers()
	second := m.mustSync()
	if _, same := s.answers(); same != 4 || !slices.Equal(first.Warnings, second.Warnings) || !strings.Contains(strings.Join(first.Warnings, "\n"), "4 more like it") {
		t.Errorf("%d parts were unchanged; warnings %q, then %q", same, first.Warnings, second.Warnings)
	}
}

// TestKnownPartsConverge has resources change and move between parts whose ranges
// overlap, runs that fail, rows and files that are lost, and selections that change: the
// mirror is like one that reads all parts.
func TestKnownPartsConverge(t *testing.T) {
	t.Parallel()
	reused := 0
	for seed := range uint64(12) {
		random := rand.New(rand.NewPCG(seed, 41))
		s := newPartsSite(t)
		m := newMirror(t, s.site)
		m.opts.MaxDelete = 100
		m.opts.Adopt, m.opts.Replace = true, true
		const parts = 5
		in := map[string]int{} // part of each resource
		for i := range 25 {
			path := fmt.Sprintf("/r%02d", i)
			s.resource(path, fmt.Sprint("first ", i))
			in[path] = i / 5
		}
		for round := range 14 {
			for range random.IntN(4) {
				path := fmt.Sprintf("/r%02d", random.IntN(30))
				switch _, there := in[path]; {
				case !there || random.IntN(4) == 0:
					s.resource(path, fmt.Sprint("text ", random.Int()))
					in[path] = random.IntN(parts)
				case random.IntN(3) == 0:
					s.del(path)
					delete(in, path)
				case random.IntN(2) == 0:
					s.resource(path, fmt.Sprint("text ", random.Int()))
				default:
					in[path] = random.IntN(parts)
				}
			}
			for i := range parts {
				var paths []string
				for n := range 30 {
					if part, there := in[fmt.Sprintf("/r%02d", n)]; there && part == i {
						paths = append(paths, fmt.Sprintf("/r%02d", n))
					}
				}
				s.part(i, paths...)
			}
			s.indexOf(fmt.Sprint(1+round%9), parts)
			switch random.IntN(6) {
			case 0:
				m.opts.Exclude = []string{fmt.Sprintf("**/r%d*", random.IntN(3))}
				if _, err := m.sync(); err != nil {
					t.Fatalf("seed %d, round %d: %v", seed, round, err)
				}
				m.opts.Exclude = nil
			case 1:
				for path := range in {
					_ = os.Remove(filepath.Join(m.dir, path))
					break
				}
			case 2:
				s.mu.Lock()
				for path := range in {
					delete(s.files, path)
					break
				}
				s.mu.Unlock()
				_, _ = m.sync() // fails
				s.mu.Lock()
				for path := range in {
					s.files[path] = siteFile{data: []byte(s.texts[path]), mod: s.now}
				}
				s.mu.Unlock()
				s.indexOf(fmt.Sprint(1+(round+3)%9), parts)
			case 3:
				for path := range in {
					if err := m.journal.Record(t.Context(), journal.Batch{Drop: []string{s.url(path)}}); err != nil {
						t.Fatal(err)
					}
					break
				}
			}
			s.answers()
			r, err := m.sync()
			if err != nil {
				t.Fatalf("seed %d, round %d: %+v, %v", seed, round, r, err)
			}
			m.same()
			_, same := s.answers()
			reused += same
		}
	}
	if reused == 0 {
		t.Error("no part was found unchanged")
	}
}
