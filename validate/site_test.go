package validate_test

import (
	"archive/zip"
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"lockstep/validate"
	"lockstep/validate/finding"
	"lockstep/validate/opener"
)

const base = "https://lib.example.net/"

var rulesDir = filepath.Join("..", "testdata", "rules")

// A site is a small Source in memory, as its texts describe it.
type site struct {
	texts   map[string]string // as written in testdata
	order   []string          // of the files in packages
	headers map[string]http.Header
	built   map[string][]byte
	sent    map[string]int // how often each was sent
	mu      sync.Mutex     // held by open
}

// goodSite returns a Source without faults.
func goodSite(t testing.TB) *site { return readSite(t, "site") }

// readSite returns the site in the file with that name.
func readSite(t testing.TB, name string) *site {
	t.Helper()
	a, err := txtar.ParseFile(filepath.Join(rulesDir, name+".txtar"))
	if err != nil {
		t.Fatal(err)
	}
	s := &site{texts: map[string]string{}, headers: map[string]http.Header{}, sent: map[string]int{}}
	for _, f := range a.Files {
		s.texts[f.Name] = string(f.Data)
		s.order = append(s.order, f.Name)
	}
	return s
}

var reference = regexp.MustCompile(`\{(sha256|length|copy):([^}\n]+)\}`)

// file returns the bytes of a file, nil if there is none.
func (s *site) file(name string) []byte {
	if b, ok := s.built[name]; ok {
		return b
	}
	text, ok := s.texts[name]
	var b []byte
	switch {
	case ok:
		b = s.fill(text)
	case strings.HasSuffix(name, ".zip"):
		b = s.pack(name + "/")
	}
	if s.built == nil {
		s.built = map[string][]byte{}
	}
	s.built[name] = b
	return b
}

func (s *site) fill(text string) []byte {
	if m := reference.FindStringSubmatch(text); m != nil && m[1] == "copy" {
		return s.file(m[2])
	}
	return reference.ReplaceAllFunc([]byte(text), func(ref []byte) []byte {
		m := reference.FindSubmatch(ref)
		b := s.file(string(m[2]))
		if string(m[1]) == "length" {
			return fmt.Append(nil, len(b))
		}
		return fmt.Appendf(nil, "%x", sha256.Sum256(b))
	})
}

// pack builds the package whose files begin with prefix.
func (s *site) pack(prefix string) []byte {
	var buf bytes.Buffer
	w := zip.NewWriter(&buf)
	files := 0
	for _, name := range s.order {
		inner, ok := strings.CutPrefix(name, prefix)
		if _, there := s.texts[name]; !ok || !there {
			continue
		}
		files++
		f, err := w.CreateHeader(&zip.FileHeader{Name: inner, Method: zip.Deflate})
		if err == nil {
			_, err = f.Write(s.file(name))
		}
		if err != nil {
			panic(err)
		}
	}
	if err := w.Close(); err != nil {
		panic(err)
	}
	if files == 0 {
		return nil
	}
	return buf.Bytes()
}

// open is an Opener for the site.
func (s *site) open(_ context.Context, r opener.Request) (*opener.Answer, error) {
	name, ok := strings.CutPrefix(r.URI, base)
	if !ok {
		return nil, opener.ErrUnseen
	}
	if strings.HasPrefix(name, "oai?") {
		name, _ = url.QueryUnescape(name)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	b := s.file(name)
	if b == nil {
		return nil, fs.ErrNotExist
	}
	h := http.Header{"Etag": {`"1"`}, "Last-Modified": {"Wed, 01 May 2024 03:00:00 GMT"}, "Content-Type": {"text/plain"}}
	if strings.HasSuffix(name, ".xml") || strings.HasSuffix(name, "resourcesync") {
		h.Set("Content-Type", "application/xml")
	}
	switch filepath.Ext(name) {
	case ".atom":
		h.Set("Content-Type", "application/atom+xml")
	case ".rdf":
		h.Set("Content-Type", "application/rdf+xml; charset=utf-8")
	}
	if strings.HasPrefix(name, "oai?") {
		h.Set("Content-Type", "text/xml; charset=utf-8")
	}
	for k, v := range s.headers[name] {
		h[k] = v
		if v[0] == "" {
			delete(h, k)
		}
	}
	if old, fresh, ok := strings.Cut(h.Get("X-Then"), " "); ok && s.sent[name] > 0 {
		h.Set("Etag", `"2"`)
		b = bytes.Replace(b, []byte(old), []byte(fresh), 1)
	}
	wanted := r.IfNoneMatch == "" && (r.IfModifiedSince == "" || r.IfModifiedSince != h.Get("Last-Modified") || h.Get("X-Timeless") != "") ||
		r.IfNoneMatch != "" && (r.IfNoneMatch != h.Get("Etag") || h.Get("X-Unconditional") != "")
	if !wanted || r.IfModifiedSince != "" && h.Get("X-Tagless") != "" {
		return nil, opener.ErrNotModified
	}
	s.sent[name]++
	a := &opener.Answer{Header: h, Size: int64(len(b))}
	if r.Ranged() {
		a.Partial, b = true, b[r.First:min(r.Last+1, a.Size)]
	}
	a.Body = io.NopCloser(bytes.NewReader(b))
	return a, nil
}

// A fault is a file next to the site that describes how to break one rule.
type fault struct {
	rule  string
	level finding.Level
	title string
	start string
	alone bool
	also  string // consequences
	site  *site
}

// readFault applies the file at path to a good site. testdata/rules/README.md
// describes the format.
func readFault(t testing.TB, path string) *fault {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	name := strings.Split(filepath.Base(path), ".")
	f := &fault{rule: name[0], level: finding.Level(name[1]), start: ".well-known/resourcesync"}
	switch f.rule[:2] {
	case "AP":
		f.start, f.site = "pmh/feed.atom", readSite(t, "feeds")
	case "OA":
		f.start, f.site = "oai", readSite(t, "repository")
	default:
		f.site = goodSite(t)
	}
	lines := strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
	f.title = lines[0]
	file, old, fresh := "", "", ""
	flush := func() {
		if old == "" && fresh == "" {
			return
		}
		have := f.site.texts[file]
		if old != "" && strings.Count(have, old) != 1 {
			t.Fatalf("%s: %s has %q %d times, want once", path, file, old, strings.Count(have, old))
		}
		if old == "" {
			f.site.texts[file] = have + fresh + "\n"
		} else {
			f.site.texts[file] = strings.Replace(have, old, fresh, 1)
		}
		old, fresh = "", ""
	}
	for _, line := range lines[1:] {
		word, rest, _ := strings.Cut(line, " ")
		if word != "-" && word != "+" || word == "-" && fresh != "" {
			flush()
		}
		switch word {
		case "in:":
			file = rest
		case "new:":
			file = rest
			f.site.texts[file] = ""
			if !slices.Contains(f.site.order, file) {
				f.site.order = append(f.site.order, file)
			}
		case "remove:":
			delete(f.site.texts, rest)
		case "move:":
			from, to, _ := strings.Cut(rest, " ")
			f.site.texts[to] = f.site.texts[from]
			delete(f.site.texts, from)
			f.site.order[slices.Index(f.site.order, from)] = to
		case "header:":
			name, header, _ := strings.Cut(rest, " ")
			key, value, _ := strings.Cut(header, ":")
			if f.site.headers[name] == nil {
				f.site.headers[name] = http.Header{}
			}
			f.site.headers[name].Set(key, strings.TrimSpace(value))
		case "last:": // of its package
			i := slices.Index(f.site.order, rest)
			f.site.order = append(slices.Delete(f.site.order, i, i+1), rest)
		case "many:": // a Resource List with that many entries
			name, n, _ := strings.Cut(rest, " ")
			f.site.texts[name] = manyEntries(n)
		case "start:":
			f.start = rest
		case "alone:":
			f.start, f.alone = rest, true
		case "also:":
			f.also = rest
		case "-":
			old = join(old, rest)
		case "+":
			fresh = join(fresh, rest)
		default:
			t.Fatalf("%s: line %q is not understood", path, line)
		}
	}
	flush()
	return f
}

// manyEntries returns a Resource List.
func manyEntries(count string) string {
	var b strings.Builder
	n, _ := strconv.Atoi(count) // digits in testdata
	b.WriteString(`<?xml version="1.0" encoding="UTF-8"?>
<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9" xmlns:rs="http://www.openarchives.org/rs/terms/">
<rs:ln rel="up" href="` + base + `rs/maps/capabilitylist.xml"/><rs:md capability="resourcelist" at="2024-05-01T02:00:00Z"/>
`)
	for i := range n {
		fmt.Fprintf(&b, "<url><loc>%smaps/%d</loc></url>\n", base, i)
	}
	b.WriteString("</urlset>\n")
	return b.String()
}

func join(text, line string) string {
	if text == "" {
		return line
	}
	return text + "\n" + line
}

// check validates the site of a fault.
func (f *fault) check(t testing.TB) *finding.Report {
	t.Helper()
	o := validate.Options{Advice: true, Sample: validate.SampleAll, Single: f.alone, Settle: 1, TempDir: t.TempDir()}
	check := validate.Source
	if strings.HasPrefix(f.rule, "OAI") {
		check = validate.Repository
	}
	r, err := check(t.Context(), f.site.open, base+f.start, o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// faults returns the paths of all faults.
func faults(t testing.TB) []string {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(rulesDir, "[A-Z]*-*-*.*"))
	if err != nil || len(paths) == 0 {
		t.Fatalf("no faults: %v", err)
	}
	return paths
}

// TestGoodSite: a Source without faults has no findings.
func TestGoodSite(t *testing.T) {
	t.Parallel()
	s := goodSite(t)
	for _, start := range []string{".well-known/resourcesync", "rs/maps/capabilitylist.xml", "rs/maps/changes-1.xml", "rs/maps/list-2.xml", "rs/maps/resourcedump.xml", "rs/maps/old/lists.xml", "rs/maps/old/changes-2024.xml"} {
		r := (&fault{start: start, site: s}).check(t)
		for _, f := range r.Findings {
			t.Errorf("from %s: %s", start, f)
		}
		if r.Documents != 24 || r.Packages != 2 || r.Resources != 8 || r.Entries != 41 || r.Unseen != 0 {
			t.Errorf("from %s: %+v", start, *r)
		}
	}
}

// TestPrivateList: robots.txt need not name a Resource List that is for one client.
func TestPrivateList(t *testing.T) {
	t.Parallel()
	for control, advice := range map[string]int{"": 1, "no-cache": 1, "no-cache, Private": 0} {
		f := readFault(t, filepath.Join(rulesDir, "RS-DISC-07.advice"))
		f.site.headers["rs/maps/resourcelist.xml"] = http.Header{"Cache-Control": {control}}
		if r := f.check(t); r.Advice != advice {
			t.Errorf("Cache-Control %q: %v", control, r.Findings)
		}
	}
}

// TestRules: each rule has a fault that violates it and no other rule, and each
// fault belongs to a rule.
func TestRules(t *testing.T) {
	t.Parallel()
	want := map[string]bool{}
	for _, r := range finding.Rules() {
		want[r.ID+"."+string(r.Level)] = true
	}
	known := maps.Clone(want)
	for _, path := range faults(t) {
		name := filepath.Base(path)
		words := strings.SplitN(name, ".", 3)
		if !known[words[0]+"."+words[1]] {
			t.Errorf("%s is of no rule", name)
		}
		delete(want, name)
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := readFault(t, path)
			found := false
			for _, finding := range f.check(t).Findings {
				if f.also == finding.Rule+"."+string(finding.Level) {
					continue
				}
				if finding.Rule != f.rule || finding.Level != f.level {
					t.Errorf("%s: also %s", f.title, finding)
					continue
				}
				found = true
			}
			if !found {
				t.Errorf("%s: not found", f.title)
			}
		})
	}
	delete(want, "RS-ZIP-06.advice") // it takes a package of GBs, which the tests of internal/dump build
	for _, name := range slices.Sorted(maps.Keys(want)) {
		t.Errorf("no fault breaks %s", name)
	}
}
