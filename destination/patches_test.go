package destination_test

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"lockstep/patch"
)

// patching has a site announce patches: deltas from each version of a resource
// to the next, or what more makes of them.
type patching struct {
	files map[string][]byte // the patches, by path
	types map[string]string
	link  func(e siteEvent, link string) string // may change a link; nil: it stays
	gets  int

	deltas patch.Deltas
}

func newPatching(s *site) *patching {
	p := &patching{files: map[string][]byte{}, types: map[string]string{}}
	s.links = func(e siteEvent) string {
		name := p.name(e.path, string(e.file.data))
		body, ok := p.files[name]
		if e.change != "updated" || !ok {
			return ""
		}
		link := fmt.Sprintf(`<rs:ln rel="http://www.openarchives.org/rs/terms/patch" href="%s" type="%s" hash="sha-256:%x" length="%d"/>`,
			s.url(name), p.types[name], sha256.Sum256(body), len(body))
		if p.link != nil {
			link = p.link(e, link)
		}
		return link
	}
	s.setFault(func(w http.ResponseWriter, r *http.Request) bool {
		body, ok := p.files[r.URL.Path]
		if ok {
			s.mu.Lock()
			p.gets++
			s.mu.Unlock()
			_, _ = w.Write(body) // the client finds out
		}
		return ok
	})
	return p
}

// asked returns how many patches were asked for.
func (p *patching) asked(s *site) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return p.gets
}

// name is the path of the patch that makes data of path.
func (p *patching) name(path, data string) string {
	sum := sha256.Sum256([]byte(path + data))
	return fmt.Sprintf("/rs/patch-%x", sum[:6])
}

// put changes a resource and announces a delta.
func (p *patching) put(t *testing.T, s *site, path, data string) {
	t.Helper()
	d, err := p.deltas.Make(s.file(path).data, []byte(data))
	if err != nil {
		t.Fatal(err)
	}
	p.add(path, data, patch.TypeDelta, d)
	s.put(path, data)
}

func (p *patching) add(path, data, mediaType string, body []byte) {
	name := p.name(path, data)
	p.files[name], p.types[name] = body, mediaType
}

func version(n int) string {
	return strings.Repeat("a line of some length, and then the next\n", 500) + fmt.Sprintf("version %d\n", n) +
		strings.Repeat("and more of the same\n", 500)
}

// TestPatches changes resources a little, and counts the bytes transferred.
func TestPatches(t *testing.T) {
	t.Parallel()
	s := newSite(t, style{})
	p := newPatching(s)
	for _, name := range []string{"/a", "/b", "/c"} {
		s.put(name, version(0))
	}
	m := newMirror(t, s)
	if r := m.mustSync(); r.By.Request != 3 {
		t.Fatalf("by %+v, want 3 by request", r.By)
	}
	p.put(t, s, "/a", version(1)) // one step
	for n := range 3 {            // three
		p.put(t, s, "/b", version(n+1))
	}
	p.put(t, s, "/c", version(1)) // one is missing
	s.put("/c", version(2))
	p.put(t, s, "/c", version(3))
	r := m.mustSync()
	if r.By.Patch != 2 || r.By.Request != 1 || s.resourceGets() != 1 || p.asked(s) != 4 || s.got("/c") != 1 {
		t.Errorf("by %+v with %d requests and %d for patches; want 2 by patch and 1 by request", r.By, s.resourceGets(), p.asked(s))
	}
	p.put(t, s, "/c", version(4))
	if r := m.mustSync(); r.By.Patch != 1 || r.Bytes > 8<<10 || !strings.Contains(fmt.Sprint(r.Plan), "1 by patches (") {
		t.Errorf("by %+v, %d bytes, %q, want a patch", r.By, r.Bytes, r.Plan)
	}
	s.del("/c")
	s.put("/c", version(5))
	p.put(t, s, "/c", version(6))
	if r := m.mustSync(); r.By.Patch != 0 {
		t.Errorf("by %+v: what was deleted in between was patched", r.By)
	}
}

// TestPatchesLate: the mirror has a version in the middle of the chain.
func TestPatchesLate(t *testing.T) {
	t.Parallel()
	s := newSite(t, style{})
	p := newPatching(s)
	s.put("/a", version(0))
	for n := range 3 {
		p.put(t, s, "/a", version(n+1))
	}
	m := newMirror(t, s)
	m.mustSync()
	for n := range 3 {
		p.put(t, s, "/a", version(n+4))
	}
	m.opts.Baseline = true // the list first, then all changes
	if r := m.mustSync(); r.Updated != 1 {
		t.Errorf("%+v", r)
	}
	s.put("/b", version(0))
	for n := range 80 { // more than are kept
		p.put(t, s, "/b", version(n+1))
	}
	m.opts.Baseline = false
	m.mustSync()
	for n := range 80 {
		p.put(t, s, "/b", version(n+100))
	}
	if r := m.mustSync(); r.By.Patch != 0 || r.By.Request != 1 {
		t.Errorf("by %+v, want the whole", r.By)
	}
}

// TestPatchesRefused: an unusable patch costs no more than its own transfer.
func TestPatchesRefused(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(s *site, m *mirror, p *patching, file string){
		"damaged here": func(_ *site, m *mirror, _ *patching, _ string) {
			data := []byte(version(0))
			data[7] ^= 1
			if err := os.WriteFile(filepath.Join(m.dir, "a"), data, 0o644); err != nil {
				m.t.Fatal(err)
			}
		},
		"gone here": func(_ *site, m *mirror, _ *patching, _ string) {
			if err := os.Remove(filepath.Join(m.dir, "a")); err != nil {
				m.t.Fatal(err)
			}
		},
		"not there": func(_ *site, _ *mirror, p *patching, file string) { delete(p.files, file); p.files["/x"] = nil },
		"other hash": func(_ *site, _ *mirror, p *patching, file string) {
			p.replace(fmt.Sprintf("%x", sha256.Sum256(p.files[file])), strings.Repeat("0", 64))
		},
		"damaged": func(_ *site, _ *mirror, p *patching, file string) {
			p.files[file] = bytes.Clone(p.files[file])
			p.files[file][len(p.files[file])-3] ^= 1
		},
		"of other bytes": func(_ *site, _ *mirror, p *patching, file string) {
			var deltas patch.Deltas
			p.files[file], _ = deltas.Make([]byte("something else"), []byte(version(1)))
		},
		"yields other bytes": func(_ *site, _ *mirror, p *patching, file string) {
			var deltas patch.Deltas
			p.files[file], _ = deltas.Make([]byte(version(0)), []byte(version(2)))
		},
		"unknown type":    func(_ *site, _ *mirror, p *patching, _ string) { p.replace(patch.TypeDelta, "application/x-other") },
		"another's type":  func(_ *site, _ *mirror, p *patching, _ string) { p.replace(patch.TypeDelta, patch.TypeJSON) },
		"no length":       func(_ *site, _ *mirror, p *patching, _ string) { p.replace("length=", "size=") },
		"too long":        func(_ *site, _ *mirror, p *patching, _ string) { p.replace(`length="`, `length="99`) },
		"no hash of what": func(s *site, _ *mirror, _ *patching, _ string) { s.style.noHash = true },
		"elsewhere":       func(s *site, _ *mirror, p *patching, _ string) { p.replace("127.0.0.1", "127.0.0.2") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, style{})
			p := newPatching(s)
			s.put("/a", version(0))
			m := newMirror(t, s)
			m.mustSync()
			p.put(t, s, "/a", version(1))
			spoil(s, m, p, p.name("/a", version(1)))
			if r := m.mustSync(); r.By.Request != 1 || r.Failed != 0 || s.got("/a") != 1 {
				t.Errorf("by %+v with %d requests, want one for the whole", r.By, s.got("/a"))
			}
		})
	}
}

func (p *patching) replace(old, with string) {
	p.link = func(_ siteEvent, link string) string { return strings.ReplaceAll(link, old, with) }
}

// TestPatchTrouble: a patch whose transfer breaks off is requested again, and from a
// Source whose patches are unusable only a few are requested.
func TestPatchTrouble(t *testing.T) {
	t.Parallel()
	s := newSite(t, style{})
	p := newPatching(s)
	for i := range 12 {
		s.put(fmt.Sprintf("/f%d", i), version(i))
	}
	m := newMirror(t, s)
	m.opts.Jobs = 1
	m.mustSync()
	for i := range 12 {
		p.put(t, s, fmt.Sprintf("/f%d", i), version(i+100))
	}
	for name := range p.files {
		p.files[name] = []byte(strings.Repeat("x", len(p.files[name])))
	}
	r := m.mustSync()
	if r.By.Request != 12 || p.asked(s) > 3 {
		t.Errorf("by %+v, %d patches were asked for", r.By, p.asked(s))
	}
	p.put(t, s, "/f0", version(1000))
	serve := s.fault
	var broken atomic.Bool // the next request may come before the handler of this one has returned
	s.setFault(func(w http.ResponseWriter, r *http.Request) bool {
		if body, ok := p.files[r.URL.Path]; ok && broken.CompareAndSwap(false, true) {
			breakOff(w, "", string(body), len(body)/2)
			return true
		}
		return serve(w, r)
	})
	if r, err := m.syncAgain(2); err != nil || r.By.Patch != 1 {
		t.Errorf("%v, by %+v, want the patch", err, r.By)
	}
}

// TestPatchTypes applies what other Sources announce.
func TestPatchTypes(t *testing.T) {
	t.Parallel()
	json := func(n int) string {
		return fmt.Sprintf(`{"n":%d,"text":"%s"}`, n, strings.Repeat("abc ", 1000))
	}
	xml := func(n int) string {
		return fmt.Sprintf("<record xmlns='urn:r'>\n  <n>%d</n>\n  <text>%s</text>\n</record>\n", n, strings.Repeat("abc ", 1000))
	}
	for mediaType, body := range map[string]string{
		patch.TypeXML:                     `<p:patch xmlns:p="urn:ietf:rfc:7351" xmlns="urn:r"><p:replace sel="record/n/text()">1</p:replace></p:patch>`,
		"application/patch-ops-error+xml": `<diff xmlns:r="urn:r"><replace sel="r:record/r:n/text()">1</replace></diff>`,
		patch.TypeJSON:                    `[{"op":"replace","path":"/n","value":1}]`,
		"application/json-patch":          `[{"op":"test","path":"/n","value":0},{"op":"replace","path":"/n","value":1}]`,
		patch.TypeMerge:                   `{"n":1}`,
	} {
		version := json
		if strings.HasSuffix(mediaType, "+xml") {
			version = xml
		}
		s := newSite(t, style{})
		p := newPatching(s)
		s.put("/a", version(0))
		m := newMirror(t, s)
		m.mustSync()
		s.put("/a", version(1))
		p.add("/a", version(1), mediaType, []byte(body))
		if r := m.mustSync(); r.By.Patch != 1 || s.resourceGets() != 0 {
			t.Errorf("%s: by %+v with %d requests, want a patch", mediaType, r.By, s.resourceGets())
		}
	}
}
