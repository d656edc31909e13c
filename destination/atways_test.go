package destination_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"lockstep/destination"
	"lockstep/memento"
)

// A oneSite is a site of one resource, which had three versions; the tests request
// the last but one. Its handler says where versions are available.
type oneSite struct {
	*site
	at      [3]time.Time
	data    [3]string
	handler func(w http.ResponseWriter, r *http.Request) bool
}

const onePath = "/a"

// newOneSite returns a oneSite whose lists have these links. The Change List has the
// whole history, and the Resource List from before it is in the archive.
func newOneSite(t *testing.T, st style, links func(s *oneSite) string) *oneSite {
	return newOneSiteOf(t, st, links, [3]time.Duration{time.Hour, time.Hour, time.Hour})
}

// newOneSiteOf returns one whose versions follow each other after gaps, and 137 ms each.
func newOneSiteOf(t *testing.T, st style, links func(s *oneSite) string, gaps [3]time.Duration) *oneSite {
	s := &oneSite{site: newSite(t, st)}
	s.offer = fmt.Sprintf(`<url><loc>%s</loc><rs:md capability="resourcelist-archive"/></url>`, s.url("/rs/archive.xml"))
	first := s.now
	for i := range s.at {
		s.data[i] = fmt.Sprintf("version %d", i)
		s.now = s.now.Add(gaps[i])
		s.put(onePath, s.data[i])
		s.at[i] = s.log[i].at
	}
	s.links = func(siteEvent) string { return links(s) }
	s.doc["/rs/archive.xml"] = doc("urlset", `<rs:md capability="resourcelist-archive"/>`,
		fmt.Sprintf(`<url><loc>%s</loc><rs:md at="%s"/></url>`, s.url("/rs/first.xml"), s.time(first)))
	s.doc["/rs/first.xml"] = doc("urlset", fmt.Sprintf(`<rs:md capability="resourcelist" at="%s"/>`, s.time(first)), "")
	s.setFault(func(w http.ResponseWriter, r *http.Request) bool { return s.handler != nil && s.handler(w, r) })
	return s
}

// version answers with a version, as a memento.
func (s *oneSite) version(w http.ResponseWriter, i int) bool {
	w.Header().Set("Memento-Datetime", memento.FormatDatetime(s.at[i]))
	_, _ = w.Write([]byte(s.data[i]))
	return true
}

// list answers with a TimeMap of addresses, each with the version whose datetime
// it is listed with.
func (s *oneSite) list(w http.ResponseWriter, versions ...any) bool {
	fmt.Fprintf(w, `<%s>; rel="original"`, s.url(onePath))
	for i := 0; i < len(versions); i += 2 {
		fmt.Fprintf(w, `, <%s>; rel="memento"; datetime="%s"`, versions[i], memento.FormatDatetime(s.at[versions[i+1].(int)]))
	}
	return true
}

// negotiated is the version a TimeGate answers with.
func (s *oneSite) negotiated(r *http.Request) int {
	at, err := memento.ParseDatetime(r.Header.Get("Accept-Datetime"))
	best := 0
	for i := range s.at {
		if err != nil || !s.at[i].Truncate(time.Second).After(at) {
			best = i
		}
	}
	return best
}

// sync brings a mirror to the state of the site when its second version was current.
func (s *oneSite) sync(t *testing.T) (string, destination.Report, error) {
	return s.syncAt(t, s.at[1].Add(time.Minute))
}

func (s *oneSite) syncAt(t *testing.T, at time.Time) (string, destination.Report, error) {
	m := newMirror(t, s.site)
	m.opts.At = at
	r, err := m.sync()
	return m.files()["a"], r, err
}

func link(rel, href string) string { return fmt.Sprintf(`<rs:ln rel="%s" href="%s"/>`, rel, href) }

// TestAtTimeGates gets a version from TimeGates and mementos of every pattern,
// with a hash that identifies it, and without (ME-GEN-03, ME-HD-03,
// ME-IM-01, ME-MM-05, ME-MM-07, ME-LK-02, ME-LK-07, ME-RS-07, ME-RS-09,
// ME-TM-04, RS-REL-50, RS-REL-53, RS-REL-54, RA-DST-03).
func TestAtTimeGates(t *testing.T) {
	t.Parallel()
	none := func(*oneSite) string { return "" }
	gate := func(s *oneSite) string { return link("timegate", s.url("/gate")) }
	redirect := func(s *oneSite, w http.ResponseWriter, r *http.Request, to string) bool {
		w.Header().Set("Vary", "accept-datetime")
		http.Redirect(w, r, s.url(to), http.StatusFound)
		return true
	}
	mementos := func(s *oneSite, w http.ResponseWriter, r *http.Request) bool {
		for i := range s.at {
			if r.URL.Path == fmt.Sprintf("/m/%d", i) {
				return s.version(w, i)
			}
		}
		return false
	}
	for _, tt := range []struct {
		name  string
		links func(*oneSite) string
		serve func(s *oneSite, w http.ResponseWriter, r *http.Request) bool

		ambiguous bool // without a hash
	}{
		{"1.1", none, func(s *oneSite, w http.ResponseWriter, r *http.Request) bool {
			if r.URL.Path == onePath && r.Header.Get("Accept-Datetime") != "" {
				return redirect(s, w, r, fmt.Sprintf("/m/%d", s.negotiated(r)))
			}
			return mementos(s, w, r)
		}, false},
		{"1.2", none, func(s *oneSite, w http.ResponseWriter, r *http.Request) bool {
			if r.URL.Path != onePath {
				return false
			}
			i := s.negotiated(r)
			w.Header().Set("Vary", "accept-datetime")
			w.Header().Set("Content-Location", s.url(fmt.Sprintf("/m/%d", i)))
			return s.version(w, i)
		}, false},
		{"1.3", none, func(s *oneSite, w http.ResponseWriter, r *http.Request) bool {
			return r.URL.Path == onePath && s.version(w, s.negotiated(r))
		}, false},
		{"2.1", gate, func(s *oneSite, w http.ResponseWriter, r *http.Request) bool {
			if r.URL.Path == "/gate" {
				return redirect(s, w, r, fmt.Sprintf("/m/%d", s.negotiated(r)))
			}
			return mementos(s, w, r)
		}, false},
		{"2.1 by way of others", gate, func(s *oneSite, w http.ResponseWriter, r *http.Request) bool {
			switch r.URL.Path {
			case "/gate":
				return redirect(s, w, r, "/other")
			case "/other":
				return redirect(s, w, r, fmt.Sprintf("/m/old-%d", s.negotiated(r)))
			}
			for i := range s.at {
				if r.URL.Path == fmt.Sprintf("/m/old-%d", i) { // a version that was a redirect
					w.Header().Set("Memento-Datetime", memento.FormatDatetime(s.at[i]))
					return redirect(s, w, r, fmt.Sprintf("/m/%d", i))
				}
			}
			return mementos(s, w, r)
		}, false},
		{"2.2", gate, func(s *oneSite, w http.ResponseWriter, r *http.Request) bool {
			if r.URL.Path != "/gate" {
				return false
			}
			i := s.negotiated(r)
			w.Header().Set("Content-Location", s.url(fmt.Sprintf("/m/%d", i)))
			return s.version(w, i)
		}, false},
		{"2.3", gate, func(s *oneSite, w http.ResponseWriter, r *http.Request) bool {
			return r.URL.Path == "/gate" && s.version(w, s.negotiated(r))
		}, false},
		{"named by the resource", none, func(s *oneSite, w http.ResponseWriter, r *http.Request) bool {
			switch r.URL.Path {
			case onePath:
				w.Header().Set("Link", `</gate>; rel="timegate"`)
				return false
			case "/gate":
				return redirect(s, w, r, fmt.Sprintf("/m/%d", s.negotiated(r)))
			}
			return mementos(s, w, r)
		}, false},
		{"named by a resource that is gone", none, func(s *oneSite, w http.ResponseWriter, r *http.Request) bool {
			switch r.URL.Path {
			case onePath:
				w.Header().Set("Link", `</gate>; rel="timegate"`)
				http.Error(w, "gone", http.StatusGone)
				return true
			case "/gate":
				return redirect(s, w, r, fmt.Sprintf("/m/%d", s.negotiated(r)))
			}
			return mementos(s, w, r)
		}, false},
		{"4", func(s *oneSite) string { return link("memento", s.url("/m/1")) }, mementos, false},
		{"4 by a TimeMap", func(s *oneSite) string { return link("timemap", s.url("/map")) }, func(s *oneSite, w http.ResponseWriter, r *http.Request) bool {
			if r.URL.Path == "/map" {
				return s.list(w, "/m/0", 0, "/m/1", 1, "/m/2", 2)
			}
			return mementos(s, w, r)
		}, false},
		{"4 by a TimeMap that is in pages", func(s *oneSite) string { return link("timemap", s.url("/map")) }, func(s *oneSite, w http.ResponseWriter, r *http.Request) bool {
			switch r.URL.Path {
			case "/map":
				http.Redirect(w, r, s.url("/moved"), http.StatusMovedPermanently)
				return true
			case "/moved":
				fmt.Fprint(w, `</page>; rel="timemap", </moved>; rel="self timemap", </map>; rel="timemap",`)
				return s.list(w, "/m/2", 2)
			case "/page":
				return s.list(w, "/m/0", 0, "/m/1", 1)
			}
			return mementos(s, w, r)
		}, false},
		{"4 by a TimeMap that the resource names", none, func(s *oneSite, w http.ResponseWriter, r *http.Request) bool {
			switch r.URL.Path {
			case onePath:
				w.Header().Set("Link", `</map>; rel="timemap"; type="application/link-format", </other>; rel="timemap"; type="application/json"`)
				return false
			case "/map":
				return s.list(w, "/m/0", 0, "/m/1", 1, "/m/2", 2)
			}
			return mementos(s, w, r)
		}, false},
		{"4 with several in a second", func(s *oneSite) string { return link("timemap", s.url("/map")) }, func(s *oneSite, w http.ResponseWriter, r *http.Request) bool {
			if r.URL.Path == "/map" { // ME-HD-04
				return s.list(w, "/m/1", 1, "/m/0", 1, "/m/none", 1)
			}
			return mementos(s, w, r)
		}, true},
		{"4 without a word", func(s *oneSite) string { return link("memento", s.url("/plain")) }, func(s *oneSite, w http.ResponseWriter, r *http.Request) bool {
			if r.URL.Path != "/plain" {
				return false
			}
			_, _ = w.Write([]byte(s.data[1]))
			return true
		}, false},
	} {
		for _, noHash := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/hash %v", tt.name, !noHash), func(t *testing.T) {
				t.Parallel()
				s := newOneSite(t, style{noHash: noHash}, tt.links)
				s.handler = func(w http.ResponseWriter, r *http.Request) bool { return tt.serve(s, w, r) }
				got, r, err := s.sync(t)
				if noHash && tt.ambiguous {
					if err == nil || got != "" || len(r.Missing) != 1 {
						t.Fatalf("%v: %q, %+v", err, got, r)
					}
					return
				}
				if err != nil || got != s.data[1] || len(r.Missing) > 0 || !r.AsOf.Equal(r.At) {
					t.Fatalf("%v: %q, %+v", err, got, r)
				}
			})
		}
	}
}

// TestAtHonest has Sources whose versions are missing or have other content than
// stated: no wrong content is stored, and each missing one is reported with its cause
// (RA-DST-03, ME-RS-08).
func TestAtHonest(t *testing.T) {
	t.Parallel()
	both := func(s *oneSite) string { return link("memento", s.url("/m")) + link("timegate", s.url("/gate")) }
	for name, serve := range map[string]func(s *oneSite, w http.ResponseWriter, r *http.Request) bool{
		"not there": func(*oneSite, http.ResponseWriter, *http.Request) bool { return false },
		"forged": func(s *oneSite, w http.ResponseWriter, r *http.Request) bool {
			w.Header().Set("Memento-Datetime", memento.FormatDatetime(s.at[1]))
			_, _ = w.Write([]byte("version x"))
			return true
		},
		"the next one": func(s *oneSite, w http.ResponseWriter, r *http.Request) bool { return s.version(w, 2) },
		"in a circle": func(s *oneSite, w http.ResponseWriter, r *http.Request) bool {
			http.Redirect(w, r, s.url(r.URL.Path), http.StatusFound)
			return true
		},
		"without end": func(s *oneSite, w http.ResponseWriter, r *http.Request) bool {
			http.Redirect(w, r, s.url("/gate?"+r.URL.RawQuery+"x"), http.StatusFound)
			return true
		},
		"cut short": func(s *oneSite, w http.ResponseWriter, r *http.Request) bool {
			w.Header().Set("Content-Length", "100")
			return s.version(w, 1)
		},
		"no date": func(s *oneSite, w http.ResponseWriter, r *http.Request) bool {
			w.Header().Set("Memento-Datetime", "yesterday")
			_, _ = w.Write([]byte("version y"))
			return true
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newOneSite(t, style{}, both)
			s.handler = func(w http.ResponseWriter, r *http.Request) bool {
				return (r.URL.Path == "/m" || r.URL.Path == "/gate") && serve(s, w, r)
			}
			got, r, err := s.sync(t)
			var past *destination.PastError
			if !errors.As(err, &past) || past.Missing != 1 || !errors.Is(err, destination.ErrIncomplete) || got != "" {
				t.Fatalf("%v: %q", err, got)
			}
			if len(r.Missing) != 1 || r.Missing[0].URI != s.url(onePath) || !strings.Contains(r.Missing[0].Cause, s.url("/gate")) || r.Failed != 1 {
				t.Fatalf("%+v", r)
			}
		})
	}
}

// TestAtWithoutHash: without a hash, neither the present content of a resource nor a
// version of another datetime is accepted as its past content.
func TestAtWithoutHash(t *testing.T) {
	t.Parallel()
	for name, i := range map[string]int{"before": 0, "after": 2} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newOneSite(t, style{noHash: true}, func(s *oneSite) string { return link("timegate", s.url("/gate")) })
			s.handler = func(w http.ResponseWriter, r *http.Request) bool { return r.URL.Path == "/gate" && s.version(w, i) }
			if got, r, err := s.sync(t); err == nil || got != "" || len(r.Missing) != 1 {
				t.Fatalf("%v: %q, %+v", err, got, r)
			}
		})
	}
}

// TestAtSameSecond: where a resource had two versions in a second, and no hash, the right one
// is restored, or none: the dates of versions have no fractions.
func TestAtSameSecond(t *testing.T) {
	t.Parallel()
	const half = 400 * time.Millisecond
	early, late := [3]time.Duration{time.Hour, half, time.Hour}, [3]time.Duration{time.Hour, time.Hour, half}
	mementos := func(s *oneSite, w http.ResponseWriter, r *http.Request) bool {
		for i := range s.at {
			if r.URL.Path == fmt.Sprintf("/m/%d", i) {
				return s.version(w, i)
			}
		}
		return false
	}
	gate := func(s *oneSite, w http.ResponseWriter, r *http.Request) bool {
		return r.URL.Path == "/gate" && s.version(w, s.negotiated(r))
	}
	for _, tt := range []struct {
		name  string
		style style
		gaps  [3]time.Duration
		after time.Duration // of the second version: the requested instant
		serve func(s *oneSite, w http.ResponseWriter, r *http.Request) bool
		want  string
	}{
		{"a TimeGate", style{}, early, time.Minute, gate, "version 1"},
		{"a TimeGate, just before the next second", style{}, early, 300 * time.Millisecond, gate, ""},
		{"a TimeGate, before the next version of the second", style{}, late, 100 * time.Millisecond, gate, ""},
		{"a TimeGate that knows fractions, of whole seconds", style{seconds: true}, early, time.Minute, func(s *oneSite, w http.ResponseWriter, r *http.Request) bool {
			if at, err := memento.ParseDatetime(r.Header.Get("Accept-Datetime")); r.URL.Path != "/gate" || err != nil || at.Before(s.at[1]) {
				return r.URL.Path == "/gate" && s.version(w, 0)
			}
			return s.version(w, 1)
		}, "version 1"},
		{"a TimeMap, the last version of which does not answer", style{}, early, time.Minute, func(s *oneSite, w http.ResponseWriter, r *http.Request) bool {
			if r.URL.Path == "/map" {
				return s.list(w, "/m/0", 0, "/m/1", 1, "/m/2", 2)
			}
			return r.URL.Path != "/m/1" && mementos(s, w, r)
		}, ""},
		{"a TimeMap in another order", style{}, early, time.Minute, func(s *oneSite, w http.ResponseWriter, r *http.Request) bool {
			if r.URL.Path == "/map" {
				return s.list(w, "/m/2", 2, "/m/1", 1, "/m/0", 0)
			}
			return mementos(s, w, r)
		}, ""},
		{"a TimeMap with one version of the second", style{}, late, 2 * half, func(s *oneSite, w http.ResponseWriter, r *http.Request) bool {
			if r.URL.Path == "/map" {
				return s.list(w, "/m/0", 0, "/m/2", 2)
			}
			return mementos(s, w, r)
		}, "version 2"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			tt.style.noHash = true
			s := newOneSiteOf(t, tt.style, func(s *oneSite) string { return link("timegate", s.url("/gate")) + link("timemap", s.url("/map")) }, tt.gaps)
			s.handler = func(w http.ResponseWriter, r *http.Request) bool { return tt.serve(s, w, r) }
			if tt.style.seconds { // also lastmod
				fraction := regexp.MustCompile(`\.\d+Z`)
				s.rewrite = func(_, text string) string { return fraction.ReplaceAllString(text, "Z") }
			}
			got, r, err := s.syncAt(t, s.at[1].Add(tt.after))
			missing := len(r.Missing) == 1 && strings.Contains(r.Missing[0].Cause, "may be another version of that second")
			if got != tt.want || (tt.want == "") != missing || (err != nil) != missing {
				t.Errorf("%v: %q, %+v", err, got, r.Missing)
			}
		})
	}
}

// TestAtManyLinks: the number of requests is limited where a Source names endless links.
func TestAtManyLinks(t *testing.T) {
	t.Parallel()
	var asked atomic.Int64
	s := newOneSite(t, style{}, func(s *oneSite) string {
		var b strings.Builder
		for i := range 40 {
			b.WriteString(link([]string{"memento", "timegate", "timemap"}[i%3], s.url(fmt.Sprintf("/gate/%d", i))))
		}
		return b.String()
	})
	s.handler = func(w http.ResponseWriter, r *http.Request) bool {
		if strings.HasPrefix(r.URL.Path, "/gate/") {
			asked.Add(1)
		}
		if strings.HasPrefix(r.URL.Path, "/gate/2") { // one of the TimeMaps has no end
			fmt.Fprintf(w, `<%sx>; rel="timemap"`, r.URL.Path)
			return true
		}
		return false
	}
	if _, r, err := s.sync(t); err == nil || len(r.Missing) != 1 {
		t.Fatalf("%v: %+v", err, r)
	}
	if n := asked.Load(); n > 12+3+20 {
		t.Fatalf("asked %d times for one version", n)
	}
}

// TestAtElsewhere: versions on hosts that the Source may not name are requested
// only where a hash verifies them; dead hosts are skipped.
func TestAtElsewhere(t *testing.T) {
	t.Parallel()
	for _, noHash := range []bool{false, true} {
		var asked atomic.Int64
		var s *oneSite
		archive := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			asked.Add(1)
			s.version(w, 1)
		}))
		t.Cleanup(archive.Close)
		far := strings.Replace(archive.URL, "127.0.0.1", "localhost", 1)
		s = newOneSite(t, style{noHash: noHash}, func(s *oneSite) string { return link("memento", far+"/m/1") })
		got, r, err := s.sync(t)
		if noHash && (err == nil || asked.Load() > 0) || !noHash && (err != nil || got != s.data[1]) {
			t.Fatalf("hash %v: %v, asked %d times: %q %+v", !noHash, err, asked.Load(), got, r)
		}
	}
}
