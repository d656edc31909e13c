package destination_test

import (
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"lockstep/destination"
)

// TestInTheWay has resources come back after their files went, as a run that is
// killed between removing a file and recording it leaves them, when others need
// their places: in one run all of them are there, and stay.
func TestInTheWay(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		held, then []string
		gone, dirs []string // files that went, and directories that came
	}{
		"a directory is there": {[]string{"/c"}, []string{"/c", "/c/d"}, []string{"c"}, []string{"c"}},
		"others come below":    {[]string{"/c"}, []string{"/c", "/c/d", "/c/e"}, []string{"c"}, nil},
		"only others":          {[]string{"/c"}, []string{"/c/d"}, []string{"c"}, nil},
		"a file comes above":   {[]string{"/c/d"}, []string{"/c", "/c/d"}, []string{"c"}, nil},
		"only a file":          {[]string{"/c/d"}, []string{"/c"}, []string{"c"}, nil},
	} {
		for _, keeps := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				s := newSite(t, style{})
				m := newMirror(t, s)
				if keeps {
					m = newKeeping(t, s, destination.Keep{All: true}).mirror
				}
				s.put("/x", "x")
				for _, path := range tt.held {
					s.put(path, "held "+path)
				}
				m.mustSync()
				for _, path := range tt.gone {
					if err := os.RemoveAll(filepath.Join(m.dir, path)); err != nil {
						t.Fatal(err)
					}
				}
				for _, path := range tt.dirs {
					if err := os.Mkdir(filepath.Join(m.dir, path), 0o755); err != nil {
						t.Fatal(err)
					}
				}
				for _, path := range tt.held {
					s.del(path)
				}
				for _, path := range tt.then {
					s.put(path, "then "+path)
				}
				m.opts.MaxDelete, m.opts.Baseline = 100, true
				m.mustSync()
				if m.opts.Baseline = false; m.mustSync().Updated > 0 {
					t.Error("the second run found something to do")
				}
			})
		}
	}
}

// TestPendingFile removes a file while its resource fails: until it is there again,
// no run reports that the mirror is in step.
func TestPendingFile(t *testing.T) {
	t.Parallel()
	s := newSite(t, style{})
	m := newMirror(t, s)
	s.put("/c", "c")
	s.put("/x", "x")
	m.mustSync()
	if err := os.Remove(filepath.Join(m.dir, "c")); err != nil {
		t.Fatal(err)
	}
	down := func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path == "/c" {
			http.NotFound(w, r)
			return true
		}
		return false
	}
	s.setFault(down)
	m.opts.Baseline = true
	if _, err := m.sync(); err == nil {
		t.Fatal("a run that could not fetch a file succeeded")
	}
	m.opts.Baseline = false
	if _, err := m.sync(); err == nil {
		t.Error("the run after it succeeded, too")
	}
	s.setFault(nil)
	m.mustSync()
}
