package destination_test

import (
	"fmt"
	"net/http"
	"testing"

	"pgregory.net/rapid"

	"lockstep/destination"
)

// TestConvergence runs random histories of a Source with any style of documents, and
// checks after each run that the mirror is the same.
func TestConvergence(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		b := func(name string) bool { return rapid.Bool().Draw(rt, name) }
		st := style{
			noHash: b("noHash"), noLength: b("noLength"), noLastmod: b("noLastmod"), noDatetime: b("noDatetime"),
			noTimes: b("noTimes") && b("noTimes2"), noAt: b("noAt") && b("noAt2"), newestFirst: b("newestFirst") && b("newestFirst2"), seconds: b("seconds"),
			noChanges: b("noChanges") && b("noChanges2"), noETag: b("noETag"),
			parts: rapid.SampledFrom([]int{0, 0, 3, 7}).Draw(rt, "parts"), listParts: rapid.SampledFrom([]int{0, 4}).Draw(rt, "listParts"),
		}
		switch rapid.IntRange(0, 3).Draw(rt, "dumps") {
		case 0:
			st.dumpStyle = dumpStyle{
				dump: b("dump"), changeDump: b("changeDump"), demand: b("demand"), copies: b("copies"), noRanges: b("noRanges") && b("noRanges2"),
				noPaths: b("noPaths"), each: rapid.IntRange(1, 6).Draw(rt, "each"),
			}
			st.noList, st.noChangeList = st.dump && b("noList"), st.changeDump && b("noChangeList")
			st.noChanges = st.noChanges && !st.noChangeList
		}
		st.noETag = st.noETag && !st.noHash // else only the date distinguishes versions
		if st.noDatetime || st.noChanges && st.noHash {
			st.noLastmod = false // something must distinguish versions
		}
		if st.noTimes {
			st.noDatetime, st.parts = true, 0
		}
		if st.noTimes || st.seconds {
			st.newestFirst = false // nothing would show the order
		}
		live(t, rt, st)
	})
}

func live(t *testing.T, rt *rapid.T, st style) {
	s := newSite(t, st)
	defer s.srv.Close()
	m := newMirror(t, s)
	m.t = fataler{t, rt}
	m.opts.MaxDelete = 100
	m.opts.Via = rapid.SampledFrom([]string{"", destination.ViaList, destination.ViaDump}).Draw(rt, "via")
	m.opts.AllVersions = rapid.IntRange(0, 3).Draw(rt, "all versions") == 0
	path := rapid.SampledFrom([]string{"/a", "/a/b", "/b", "/c/d/e", "/c/d", "/x%20y", "/q?r=1", "/z0", "/z1", "/z2", "/z3"})
	n := 0
	for range rapid.IntRange(1, 5).Draw(rt, "runs") {
		for range rapid.IntRange(0, 9).Draw(rt, "changes") {
			switch rapid.IntRange(0, 3).Draw(rt, "change") {
			case 0:
				s.del(path.Draw(rt, "del"))
			default:
				n++
				s.put(path.Draw(rt, "put"), fmt.Sprintf("version %d%s", n, rapid.SampledFrom([]string{"", " longer"}).Draw(rt, "more")))
			}
		}
		if rapid.IntRange(0, 4).Draw(rt, "forget") == 0 {
			s.forget(rapid.IntRange(1, 9).Draw(rt, "forgotten"))
			s.makeDump() // it must not be older than what follows it
		} else if st.noChanges || rapid.Bool().Draw(rt, "dumped") {
			s.makeDump()
		}
		if rapid.IntRange(0, 2).Draw(rt, "trouble") == 0 {
			k := rapid.IntRange(1, 4).Draw(rt, "each")
			c := 0
			kind := rapid.IntRange(0, 2).Draw(rt, "kind")
			s.setFault(func(w http.ResponseWriter, r *http.Request) bool {
				s.mu.Lock()
				c++
				path := r.URL.EscapedPath()
				bad := c%k == 0 && (s.files[path].data != nil || s.dumps.files[path] != nil)
				s.mu.Unlock()
				if !bad {
					return false
				}
				switch kind {
				case 0:
					http.Error(w, "no", http.StatusInternalServerError)
				case 1:
					w.Header().Set("Content-Length", "100")
					_, _ = w.Write([]byte("cut"))
				default:
					http.NotFound(w, r)
				}
				return true
			})
			if r, err := m.sync(); err == nil && r.Failed > 0 {
				rt.Fatalf("no error, but %+v", r)
			}
			s.setFault(nil)
		}
		m.mustSync()
	}
	if !st.noHash {
		if a := m.audit(); !a.InSync {
			rt.Fatalf("audit: %+v", a)
		}
	}
}

// A fataler fails the property; all other methods are those of a TB.
type fataler struct {
	testing.TB
	rt *rapid.T
}

func (f fataler) Fatal(args ...any)                 { f.rt.Helper(); f.rt.Fatal(args...) }
func (f fataler) Fatalf(format string, args ...any) { f.rt.Helper(); f.rt.Fatalf(format, args...) }
