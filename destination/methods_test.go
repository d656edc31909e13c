package destination_test

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"lockstep/destination"
	"lockstep/patch"
)

// A packedSite has one resource, /a, of which the second version is in a Change
// Dump: as a patch and as a whole, and both at addresses of their own, too.
type packedSite struct {
	*site
	p *patching

	noPatch, badPatch, noVersion, badVersion, noAddressPatch, badAddressPatch, noResource bool

	patchType string
}

func newPackedSite(t *testing.T, st style) *packedSite {
	s := &packedSite{site: newSite(t, st), patchType: patch.TypeDelta}
	s.p = newPatching(s.site)
	s.put("/a", version(0))
	link := s.links
	s.links = func(e siteEvent) string {
		return strings.ReplaceAll(link(e), patch.TypeDelta, s.patchType)
	}
	s.dumps.describe = s.describeChange
	answer := s.fault
	s.setFault(func(w http.ResponseWriter, r *http.Request) bool {
		_, isPatch := s.p.files[r.URL.Path]
		if isPatch && s.noAddressPatch || r.URL.Path == "/a" && s.noResource {
			s.mu.Lock()
			s.gets["missed"]++
			s.mu.Unlock()
			http.NotFound(w, r)
			return true
		}
		return answer(w, r)
	})
	return s
}

var pathAttribute = regexp.MustCompile(` path="[^"]*"`)

// describeChange adds the patch of a change to its package.
func (s *packedSite) describeChange(e siteEvent, text string, add func(name string, data []byte)) string {
	link := s.links(e)
	if link == "" {
		return text
	}
	body := s.p.files[s.p.name(e.path, string(e.file.data))]
	name := fmt.Sprintf("patches/%x", sha256.Sum256(e.file.data))
	switch {
	case s.badPatch:
		add(name, append([]byte("x"), body[1:]...))
	case !s.noPatch:
		add(name, body)
	}
	switch {
	case s.noVersion:
		text = pathAttribute.ReplaceAllString(text, "")
	case s.badVersion:
		add("bad/1", append([]byte("x"), e.file.data[1:]...))
		text = pathAttribute.ReplaceAllString(text, ` path="/bad/1"`)
	}
	return text + strings.Replace(link, "/>", fmt.Sprintf(` path="/%s"/>`, name), 1)
}

// TestPackedPatchOrVersion: what is in a package of a Change Dump comes by the
// method that costs least, and each method that fails is followed by the next,
// until one is left (RS-CDM-06, RS-CDM-07).
func TestPackedPatchOrVersion(t *testing.T) {
	t.Parallel()
	byRequest := func(b destination.By) bool { return b.Request == 1 }
	byPatch := func(b destination.By) bool { return b.Patch == 1 }
	byPackage := func(b destination.By) bool { return b.Package == 1 }
	tests := []struct {
		name  string
		set   func(s *packedSite)
		by    func(b destination.By) bool
		alone bool // nothing but the package was asked for
	}{
		{"all is well", func(s *packedSite) {}, byPatch, true},
		{"only the package is left", func(s *packedSite) { s.noAddressPatch, s.noResource = true, true }, byPatch, true},
		{"no member for the patch", func(s *packedSite) { s.noPatch, s.noAddressPatch, s.noResource = true, true, true }, byPackage, false},
		{"bad patch in the package", func(s *packedSite) { s.badPatch, s.noAddressPatch, s.noResource = true, true, true }, byPackage, false},
		{"bad patch, and another at its address", func(s *packedSite) { s.badPatch, s.badVersion, s.noResource = true, true, true }, byPatch, false},
		{"no version in the package", func(s *packedSite) { s.noVersion, s.noAddressPatch, s.noResource = true, true, true }, byPatch, true},
		{"bad version in the package", func(s *packedSite) { s.badVersion, s.noPatch = true, true }, byPatch, false},
		{"nothing but the resource", func(s *packedSite) { s.badVersion, s.noPatch, s.noAddressPatch = true, true, true }, byRequest, false},
		{"bad patches everywhere", func(s *packedSite) {
			s.badPatch, s.noVersion, s.badAddressPatch = true, true, true
		}, byRequest, false},
		{"patch of unknown type", func(s *packedSite) {
			s.patchType, s.noAddressPatch, s.noResource = "application/x-unheard-of", true, true
		}, byPackage, true},
		{"unknown type and no version", func(s *packedSite) { s.patchType, s.noVersion = "application/x-unheard-of", true }, byRequest, false},
	}
	for _, tt := range tests {
		for name, st := range map[string]dumpStyle{
			"alone":                 {changeDump: true, noChangeList: true, each: 50},
			"alone, copies":         {changeDump: true, noChangeList: true, each: 50, copies: true},
			"alone, without ranges": {changeDump: true, noChangeList: true, each: 50, noRanges: true},
			"beside a Change List":  {changeDump: true, each: 50},
		} {
			t.Run(tt.name+"/"+name, func(t *testing.T) {
				t.Parallel()
				s := newPackedSite(t, style{dumpStyle: st})
				m := newMirror(t, s.site)
				m.opts.Via = destination.ViaDump
				m.mustSync()
				s.mu.Lock()
				s.now = s.now.Add(time.Minute)
				s.mu.Unlock()
				tt.set(s)
				s.p.put(t, s.site, "/a", version(1))
				if s.badAddressPatch {
					for name, body := range s.p.files {
						s.p.files[name] = append([]byte("x"), body[1:]...)
					}
				}
				r := m.mustSync()
				if !tt.by(r.By) {
					t.Errorf("by %+v; %q", r.By, r.Warnings)
				}
				if tt.alone && (s.got("/a") > 0 || s.got("missed") > 0 || s.p.gets > 0) {
					t.Errorf("%d requests for the resource, %d for patches", s.got("/a"), s.p.gets)
				}
				if said := strings.Join(r.Warnings, "; "); strings.Contains(said, "does not name") {
					t.Errorf("the manifest names all files of the package: %s", said)
				}
			})
		}
	}
}

// TestPackedPatchOfAnotherBase: a patch does not fit what is held, so the package
// has the version itself.
func TestPackedPatchOfAnotherBase(t *testing.T) {
	t.Parallel()
	s := newPackedSite(t, style{dumpStyle: dumpStyle{changeDump: true, noChangeList: true, each: 50}})
	m := newMirror(t, s.site)
	m.mustSync()
	s.noAddressPatch, s.noResource = true, true
	file := filepath.Join(m.dir, "a")
	if err := os.WriteFile(file, bytes.Repeat([]byte("x"), len(version(0))), 0o600); err != nil {
		t.Fatal(err)
	}
	s.p.put(t, s.site, "/a", version(1))
	if r := m.mustSync(); r.By.Package != 1 {
		t.Errorf("by %+v; %q", r.By, r.Warnings)
	}
}

// TestPackedPatchesOfManyPackages: a chain of patches is in several packages, and
// nowhere else.
func TestPackedPatchesOfManyPackages(t *testing.T) {
	t.Parallel()
	s := newPackedSite(t, style{dumpStyle: dumpStyle{changeDump: true, noChangeList: true, each: 1}})
	m := newMirror(t, s.site)
	m.mustSync()
	s.noVersion, s.noAddressPatch, s.noResource = true, true, true
	for n := range 5 {
		s.p.put(t, s.site, "/a", version(n+1))
	}
	if r := m.mustSync(); r.By.Patch != 1 {
		t.Errorf("by %+v; %q", r.By, r.Warnings)
	}
}

// TestPackedPatchThatDoesNotPay: a patch that is larger than the version is
// applied if nothing else is left.
func TestPackedPatchThatDoesNotPay(t *testing.T) {
	t.Parallel()
	s := newPackedSite(t, style{dumpStyle: dumpStyle{changeDump: true, noChangeList: true, each: 50}})
	s.put("/a", "short")
	m := newMirror(t, s.site)
	m.mustSync()
	s.noVersion, s.noAddressPatch, s.noResource = true, true, true
	s.p.put(t, s.site, "/a", "other")
	if r := m.mustSync(); r.By.Patch != 1 {
		t.Errorf("by %+v; %q", r.By, r.Warnings)
	}
}
