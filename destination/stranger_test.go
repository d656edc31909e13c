package destination_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestStrangerDuringRun has another program put files into the mirror while the run
// fetches the resources that belong there: into a directory that did not exist before,
// and into one that did. Neither is replaced.
func TestStrangerDuringRun(t *testing.T) {
	t.Parallel()
	for _, dir := range []string{"new", "old"} {
		t.Run(dir, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, style{})
			m := newMirror(t, s)
			s.put("/old/0", "0")
			m.mustSync()
			for i := range 30 {
				s.put(fmt.Sprintf("/%s/f%02d", dir, i), "from the Source")
			}
			theirs := filepath.Join(m.dir, dir, "f20")
			s.setFault(func(_ http.ResponseWriter, r *http.Request) bool {
				if r.URL.Path == "/"+dir+"/f20" {
					if err := os.MkdirAll(filepath.Dir(theirs), 0o777); err != nil {
						t.Error(err)
					}
					if err := os.WriteFile(theirs, []byte("not from here"), 0o666); err != nil {
						t.Error(err)
					}
				}
				return false
			})
			rep, err := m.sync()
			if err == nil || rep.Failed != 1 || !strings.Contains(fmt.Sprint(rep.Failures), "which sync did not create and was left alone") {
				t.Errorf("the run reports %v: %d failures: %v", err, rep.Failed, rep.Failures)
			}
			if b, err := os.ReadFile(theirs); string(b) != "not from here" || err != nil {
				t.Errorf("another program's file has %q, %v", b, err)
			}
			if b, err := os.ReadFile(filepath.Join(m.dir, dir, "f21")); string(b) != "from the Source" || err != nil {
				t.Errorf("the file beside it has %q, %v", b, err)
			}
		})
	}
}
