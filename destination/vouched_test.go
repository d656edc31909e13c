package destination_test

import (
	"archive/zip"
	"bytes"
	"crypto/md5"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"lockstep/destination"
)

// tamper returns a package of the same length with other bytes in the members
// that hold before, and a manifest with the hashes of those. Deleted has the
// manifest say that they were deleted.
func tamper(t testing.TB, pack []byte, before, after string, deleted bool) []byte {
	t.Helper()
	if len(before) != len(after) {
		t.Fatalf("%q is not as long as %q", after, before)
	}
	z, err := zip.NewReader(bytes.NewReader(pack), int64(len(pack)))
	if err != nil {
		t.Fatal(err)
	}
	contents, hashes := map[string][]byte{}, []string{}
	for _, f := range z.File {
		r, err := f.Open()
		if err != nil {
			t.Fatal(err)
		}
		was, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		is := bytes.ReplaceAll(was, []byte(before), []byte(after))
		if f.Name != "manifest.xml" && !bytes.Equal(was, is) {
			hashes = append(hashes, fmt.Sprintf("%x", md5.Sum(was)), fmt.Sprintf("%x", md5.Sum(is)),
				fmt.Sprintf("%x", sha256.Sum256(was)), fmt.Sprintf("%x", sha256.Sum256(is)))
			contents[f.Name] = is
			continue
		}
		contents[f.Name] = was
	}
	manifest := strings.NewReplacer(hashes...).Replace(string(contents["manifest.xml"]))
	if deleted {
		manifest = strings.ReplaceAll(manifest, `change="updated"`, `change="deleted"`)
	}
	contents["manifest.xml"] = []byte(manifest)
	var buf bytes.Buffer
	w := zip.NewWriter(&buf)
	for _, f := range z.File {
		out, err := w.CreateHeader(&zip.FileHeader{Name: f.Name, Method: zip.Store})
		if err == nil {
			_, err = out.Write(contents[f.Name])
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

// serveTampered has the site send packages with other bytes than it published.
func (s *site) serveTampered(before, after string, deleted bool) {
	s.setFault(func(w http.ResponseWriter, r *http.Request) bool {
		s.mu.Lock()
		pack, ok := s.dumps.files[r.URL.Path]
		noRanges := s.style.noRanges
		s.mu.Unlock()
		if !ok || !isZip(r) {
			return false
		}
		if noRanges {
			r.Header.Del("Range")
		}
		w.Header().Set("ETag", `"the-same"`)
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(tamper(s.t, pack, before, after, deleted)))
		return true
	})
}

// TestUnverifiedPackage: nothing in a package that is not what its dump states is
// believed, though its manifest has the hashes of what is in it: whether it is
// read whole or by ranges, and whether its members are small, or streamed.
func TestUnverifiedPackage(t *testing.T) {
	t.Parallel()
	large := strings.Repeat("large and right. ", 30_000) // is streamed
	right, wrong := "right", "wrong"
	tests := []struct {
		name  string
		style style
		ok    bool // everything is available from another source
	}{
		{"Resource Dump beside a list", style{dumpStyle: dumpStyle{dump: true}}, true},
		{"Resource Dump beside a list without hashes", style{noHash: true, dumpStyle: dumpStyle{dump: true}}, true},
		{"Resource Dump alone", style{noChanges: true, dumpStyle: dumpStyle{dump: true, noList: true}}, false},
		{"Resource Dump alone, with copies", style{noChanges: true, dumpStyle: dumpStyle{dump: true, noList: true, copies: true}}, true},
		{"Change Dump beside a Change List", style{dumpStyle: dumpStyle{changeDump: true}}, true},
		{"Change Dump beside a Resource List", style{dumpStyle: dumpStyle{changeDump: true, noChangeList: true}}, true},
		{"Change Dump alone", style{dumpStyle: dumpStyle{changeDump: true, noChangeList: true, noList: true}}, false},
		{"Change Dump alone, with copies", style{dumpStyle: dumpStyle{changeDump: true, noChangeList: true, noList: true, copies: true}}, true},
	}
	for _, tt := range tests {
		for _, noRanges := range []bool{false, true} {
			for _, deleted := range []bool{false, true} {
				name := tt.name
				if noRanges {
					name += ", read whole"
				}
				if deleted {
					name += ", with deletions"
				}
				if deleted && !tt.style.changeDump {
					continue
				}
				t.Run(name, func(t *testing.T) {
					t.Parallel()
					style := tt.style // its own: subtests run side by side
					style.each, style.stored, style.noRanges = 40, true, noRanges
					s := newSite(t, style)
					m := newMirror(t, s)
					m.opts.Via = destination.ViaDump
					for i := range 12 {
						s.put(fmt.Sprintf("/d/%03d", i), "version 1")
					}
					if style.changeDump {
						m.mustSync()
						s.mu.Lock()
						s.now = s.now.Add(time.Minute)
						s.mu.Unlock()
					}
					for i := range 12 {
						s.put(fmt.Sprintf("/d/%03d", i), fmt.Sprintf("version 2 of %d, the right one", i))
					}
					s.put("/d/000", large)
					s.makeDump()
					s.serveTampered(right, wrong, deleted)
					held := len(m.files())
					r, err := m.sync()
					if (err == nil) != tt.ok || err != nil && !errors.Is(err, destination.ErrIncomplete) {
						t.Errorf("Sync = %v, %s; want success: %v", err, counts(r), tt.ok)
					}
					for name, data := range m.files() {
						if strings.Contains(data, wrong) {
							t.Fatalf("%s holds what only the package vouches for", name)
						}
					}
					if r.Deleted > 0 || len(m.files()) < held {
						t.Errorf("%s: deletions on the word of the package", counts(r))
					}
					said := strings.Join(r.Warnings, "\n")
					for _, f := range r.Failures {
						said += "\n" + f.Cause
					}
					if !strings.Contains(said, ".zip") {
						t.Errorf("the package is not named: %q", said)
					}
					if tt.ok {
						m.same()
					}
					s.setFault(nil)
					m.mustSync()
				})
			}
		}
	}
}

// TestManifestCopyOfAnotherHash: a copy of a manifest that is not what its link
// states is not believed; the manifest in the verified package is.
func TestManifestCopyOfAnotherHash(t *testing.T) {
	t.Parallel()
	s := newSite(t, style{noChanges: true, dumpStyle: dumpStyle{dump: true, noList: true, copies: true, each: 40}})
	fill(s, 20)
	s.makeDump()
	s.mu.Lock()
	for path, data := range s.dumps.files {
		if strings.HasSuffix(path, ".xml") {
			link := fmt.Sprintf(`href="%s"`, s.url(path))
			s.dumps.current = strings.ReplaceAll(s.dumps.current, link, fmt.Sprintf(`%s hash="sha-256:%x"`, link, sha256.Sum256(data)))
			s.dumps.files[path] = bytes.ReplaceAll(data, []byte("/d/"), []byte("/x/"))
		}
	}
	s.mu.Unlock()
	m := newMirror(t, s)
	r := m.mustSync()
	if r.By.Package != 20 || !strings.Contains(strings.Join(r.Warnings, "\n"), "the copy of the manifest is not used") {
		t.Errorf("by %+v, warnings %q", r.By, r.Warnings)
	}
}
