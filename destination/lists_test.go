package destination_test

import (
	"context"
	"crypto/md5"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"lockstep/destination"
)

// A listSite is a Source of lists a test writes itself.
type listSite struct {
	*site
	t *testing.T
}

func newListSite(t *testing.T) *listSite {
	t.Helper()
	return &listSite{newSite(t, style{noChanges: true}), t}
}

// entry is one about the content of path; the hash is of text.
func (s *listSite) entry(path, lastmod, text string) string {
	if lastmod != "" {
		lastmod = "<lastmod>" + lastmod + "</lastmod>"
	}
	return fmt.Sprintf(`<url><loc>%s</loc>%s<rs:md hash="md5:%x"/></url>`, s.url(path), lastmod, md5.Sum([]byte(text)))
}

func (s *listSite) list(path, at string, entries ...string) {
	s.replace(path, doc("urlset", fmt.Sprintf(`<rs:md capability="resourcelist" at="2024-05-0%sT00:00:00Z"/>`, at), strings.Join(entries, "\n")))
}

// index lists parts, each a path or a path and what the index says it is of.
func (s *listSite) index(path, at string, parts ...string) {
	s.replace(path, doc("sitemapindex", fmt.Sprintf(`<rs:md capability="resourcelist" at="2024-05-0%sT00:00:00Z"/>`, at), s.parts(parts)))
}

func (s *listSite) parts(parts []string) string {
	body := ""
	for _, p := range parts {
		p, at, stated := strings.Cut(p, " ")
		body += "<sitemap><loc>" + s.url(p) + "</loc>"
		if stated {
			body += `<rs:md at="2024-05-0` + at + `T00:00:00Z"/>`
		}
		body += "</sitemap>"
	}
	return body
}

const top = "/rs/resourcelist.xml"

// TestListWords has several entries for one resource, in one list and in several,
// whose answers arrive in any order: the later lastmod counts,
// else the later entry.
func TestListWords(t *testing.T) {
	t.Parallel()
	const early, late = "2024-04-01T00:00:00Z", "2024-04-02T00:00:00Z"
	tests := []struct {
		name  string
		write func(s *listSite)
	}{
		{"in one list", func(s *listSite) { s.list(top, "1", s.entry("/x", "", "old"), s.entry("/x", "", "new")) }},
		{"the earlier stands later", func(s *listSite) { s.list(top, "1", s.entry("/x", late, "new"), s.entry("/x", early, "old")) }},
		{"one without lastmod stands later", func(s *listSite) { s.list(top, "1", s.entry("/x", late, "old"), s.entry("/x", "", "new")) }},
		{"in two parts", func(s *listSite) {
			s.index(top, "1", "/slow", "/b")
			s.list("/slow", "1", s.entry("/x", early, "old"))
			s.list("/b", "1", s.entry("/x", early, "new"))
		}},
		{"the later part comes first", func(s *listSite) {
			s.index(top, "1", "/a", "/slow")
			s.list("/a", "1", s.entry("/x", early, "old"))
			s.list("/slow", "1", s.entry("/x", early, "new"))
		}},
		{"the later lastmod stands earlier", func(s *listSite) {
			s.index(top, "1", "/slow", "/b")
			s.list("/slow", "1", s.entry("/x", late, "new"))
			s.list("/b", "1", s.entry("/x", early, "old"))
		}},
		{"an index among the parts", func(s *listSite) {
			s.index(top, "1", "/a", "/deep", "/c")
			s.index("/deep", "1", "/slow")
			s.list("/a", "1", s.entry("/x", early, "old"))
			s.list("/slow", "1", s.entry("/x", early, "old, too"))
			s.list("/c", "1", s.entry("/x", early, "new"))
		}},
		{"an index at the end", func(s *listSite) {
			s.index(top, "1", "/a", "/deep")
			s.index("/deep", "1", "/b", "/slow")
			s.list("/a", "1", s.entry("/x", early, "old"))
			s.list("/b", "1", s.entry("/x", early, "old, too"))
			s.list("/slow", "1", s.entry("/x", early, "new"))
		}},
		{"eleven parts", func(s *listSite) {
			var parts []string
			for i := range 11 {
				parts = append(parts, fmt.Sprint("/part", i))
				s.list(parts[i], "1", s.entry("/x", early, map[bool]string{true: "new", false: fmt.Sprint("old ", i)}[i == 10]))
			}
			s.index(top, "1", parts...)
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := newListSite(t)
			tt.write(s)
			s.put("/x", "new")
			s.setFault(func(_ http.ResponseWriter, r *http.Request) bool {
				if r.URL.Path == "/slow" {
					wait(r.Context(), 30*time.Millisecond)
				}
				return false
			})
			m := newMirror(t, s.site)
			r := m.mustSync()
			if r.Created != 1 || r.Failed != 0 {
				t.Errorf("%+v", r)
			}
			if n := s.got("/x"); n != 1 && s.got("/slow")+s.got("/part0") == 0 { // from one of several parts it may be requested before the others are read
				t.Errorf("%d requests", n)
			}
		})
	}
}

func wait(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// TestListDisorder lists resources in no order, many of them twice or more, in
// more parts than are read at a time.
func TestListDisorder(t *testing.T) {
	t.Parallel()
	s := newListSite(t)
	r := rand.New(rand.NewPCG(7, 7))
	var parts []string
	const n = 300
	said := map[int]string{}
	for p := range 20 {
		var entries []string
		for range 60 {
			i := r.IntN(n)
			said[i] = fmt.Sprintf("%d as of %d", i, p)
			entries = append(entries, s.entry(fmt.Sprintf("/d/%d", i), fmt.Sprintf("2024-04-%02dT00:00:00Z", p+1), said[i]))
		}
		parts = append(parts, fmt.Sprint("/part", p))
		s.list(parts[p], "1", entries...)
	}
	r.Shuffle(len(parts), func(i, k int) { parts[i], parts[k] = parts[k], parts[i] })
	s.index(top, "1", parts...)
	for i, text := range said {
		s.put(fmt.Sprint("/d/", i), text)
	}
	m := newMirror(t, s.site)
	if r := m.mustSync(); r.Created != int64(len(said)) {
		t.Errorf("%+v", r)
	}
	s.index(top, "2", append([]string{"/part0b"}, parts...)...)
	s.list("/part0b", "1")
	if r := m.mustSync(); r.Unchanged != int64(len(said)) || r.By.Request != 0 {
		t.Errorf("again: %+v", r)
	}
}

// TestListMoves changes an index and its parts while they are read: they are read
// again, once, and if they still do not match, the reading is incomplete.
func TestListMoves(t *testing.T) {
	t.Parallel()
	setUp := func(t *testing.T) (*listSite, *mirror) {
		s := newListSite(t)
		for i := range 9 {
			s.put(fmt.Sprint("/d/", i), fmt.Sprint(i))
		}
		e := func(i int) string { return s.entry(fmt.Sprint("/d/", i), "", fmt.Sprint(i)) }
		s.list("/a", "1", e(0), e(1), e(2))
		s.list("/b", "1", e(3), e(4), e(5))
		s.list("/c", "1", e(6), e(7), e(8))
		s.index(top, "1", "/a", "/b", "/c")
		m := newMirror(t, s.site)
		m.mustSync()
		return s, m
	}
	t.Run("a part goes, the index follows", func(t *testing.T) {
		t.Parallel()
		s, m := setUp(t)
		s.index(top, "2", "/a", "/b", "/gone")
		s.del("/d/8")
		var once atomic.Bool
		s.setFault(func(w http.ResponseWriter, r *http.Request) bool {
			if r.URL.Path == "/gone" && once.CompareAndSwap(false, true) {
				s.list("/c2", "2", s.entry("/d/6", "", "6"), s.entry("/d/7", "", "7"))
				s.index(top, "2", "/a", "/b", "/c2")
			}
			return false
		})
		if r := m.mustSync(); r.Deleted != 1 || r.Unchanged != 8 || s.got(top) > 3 { // asked whether it changed; read; read again
			t.Errorf("%+v, %d readings", r, s.got(top))
		}
	})
	t.Run("a part is older than the index says, then not", func(t *testing.T) {
		t.Parallel()
		s, m := setUp(t)
		s.index(top, "2", "/a", "/b", "/c 2")
		s.del("/d/8")
		var reads atomic.Int64
		s.setFault(func(w http.ResponseWriter, r *http.Request) bool {
			if r.URL.Path == "/c" && reads.Add(1) == 2 {
				s.list("/c", "2", s.entry("/d/6", "", "6"), s.entry("/d/7", "", "7"))
			}
			return false
		})
		if r := m.mustSync(); r.Deleted != 1 {
			t.Errorf("%+v", r)
		}
	})
	for _, tt := range []struct {
		name  string
		write func(s *listSite)
		want  string
	}{
		{"a part stays away", func(s *listSite) { s.index(top, "2", "/a", "/gone", "/c") }, "404"},
		{"a part is listed twice", func(s *listSite) { s.index(top, "2", "/a", "/b", "/b") }, "twice"},
		{"an index lists itself", func(s *listSite) { s.index(top, "2", "/a", "/b", top) }, "below itself"},
		{"two list each other", func(s *listSite) { s.index(top, "2", "/a", "/x"); s.index("/x", "2", "/y"); s.index("/y", "2", "/x") }, "below itself"},
		{"nested without end", func(s *listSite) {
			s.index(top, "2", "/a", "/b", "/n1")
			for i := range 9 {
				s.index(fmt.Sprint("/n", i+1), "2", fmt.Sprint("/n", i+2))
			}
		}, "nested more than 3 deep"},
		{"a part is another kind", func(s *listSite) {
			s.replace("/b", doc("urlset", `<rs:md capability="changelist" from="2024-05-01T00:00:00Z"/>`, ""))
			s.index(top, "2", "/a", "/b", "/c")
		}, "not a resourcelist"},
		{"a part stays older than the index says", func(s *listSite) {
			s.list("/c", "2", s.entry("/d/6", "", "6")) // a cache has an earlier version of it
			s.index(top, "3", "/a", "/b", "/c 3")
		}, "/c: it is of 2024-05-02T00:00:00Z, and its index says 2024-05-03T00:00:00Z"},
		{"a part does not state its kind", func(s *listSite) {
			s.replace("/c", doc("urlset", "", s.entry("/d/6", "", "6")))
			s.index(top, "2", "/a", "/b", "/c")
		}, "/c: it is a plain Sitemap, but its index is a Resource List"},
		{"a part is empty and does not state its kind", func(s *listSite) {
			s.replace("/c", `<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"/>`)
			s.index(top, "2", "/a", "/b", "/c")
		}, "/c: it is a plain Sitemap"},
		{"a part breaks off", func(s *listSite) {
			s.replace("/b", `<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"><url>`)
			s.index(top, "2", "/a", "/b", "/c")
		}, "/b"},
		{"a part is a page", func(s *listSite) {
			s.replace("/b", `<!DOCTYPE html><html><body>Log in</body></html>`)
			s.index(top, "2", "/a", "/b", "/c")
		}, "/b"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s, m := setUp(t)
			tt.write(s)
			r, err := m.sync()
			wantErr(t, r, err, destination.ErrIncomplete, tt.want)
			if r.Deleted != 0 || len(m.files()) != 9 {
				t.Errorf("%+v, %d files", r, len(m.files()))
			}
			r, err = m.sync()
			wantErr(t, r, err, destination.ErrIncomplete, tt.want)
			if r.Deleted != 0 || len(m.files()) != 9 {
				t.Errorf("again: %+v, %d files", r, len(m.files()))
			}
		})
	}
}

// TestListExcess lists entries that are too large to be sorted: they are
// refused, or lose what is not needed, and the others come.
func TestListExcess(t *testing.T) {
	t.Parallel()
	s := newListSite(t)
	s.put("/x", "x")
	s.put("/y", "y")
	links := ""
	for i := range 30 {
		links += fmt.Sprintf(`<rs:ln rel="duplicate" href="http://m%d.example/%s"/>`, i, strings.Repeat("long/", 1000))
	}
	s.list(top, "1", s.entry("/x", "", "x"), s.entry("/"+strings.Repeat("u", 100_000), "", "u"),
		strings.Replace(s.entry("/y", "", "y"), "</url>", links+"</url>", 1))
	m := newMirror(t, s.site)
	r, err := m.sync()
	if !errors.Is(err, destination.ErrIncomplete) || r.Created != 2 || r.Refused != 1 || r.Failed != 0 {
		t.Fatalf("%v %+v", err, r)
	}
	if cause := r.Failures[0].Cause; !strings.Contains(cause, "its URI has 1000") || len(cause) > 1000 {
		t.Errorf("refused: %s", cause[max(len(cause)-300, 0):])
	}
}

// TestOpenPartStatesItsEnd: a part of an unchanged index that states an end in the future
// is asked for again, as one that states none.
//
// Requirements: RS-AMB-25.
func TestOpenPartStatesItsEnd(t *testing.T) {
	t.Parallel()
	s := newSite(t, style{parts: 2})
	for i := range 3 {
		s.put(fmt.Sprint("/", i), "one")
	}
	until := time.Now().AddDate(0, 0, 1).UTC().Format(time.RFC3339)
	s.rewrite = func(path, text string) string {
		head, _, _ := strings.Cut(text, "<url>")
		if !strings.HasPrefix(path, "/rs/changes-") || strings.Contains(head, "until=") {
			return text
		}
		return strings.Replace(text, `capability="changelist"`, `capability="changelist" until="`+until+`"`, 1)
	}
	m := newMirror(t, s)
	m.mustSync()
	m.mustSync()
	s.put("/3", "new")
	if r := m.mustSync(); r.Created != 1 {
		t.Errorf("the part has one more change: %s", counts(r))
	}
}
