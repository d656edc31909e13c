package validate_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"lockstep/validate"
	"lockstep/validate/finding"
	"lockstep/validate/internal/visit"
	"lockstep/validate/opener"
	"lockstep/validate/validatetest"
)

// TestReplacedWhileRead: a Source that publishes while it is read is read again.
func TestReplacedWhileRead(t *testing.T) {
	t.Parallel()
	s := goodSite(t)
	reads := 0
	open := func(ctx context.Context, r opener.Request) (*opener.Answer, error) {
		if strings.HasSuffix(r.URI, "resourcelist.xml") {
			if reads++; reads == 1 { // the parts are read next: they are of the next generation
				old := s.file("rs/maps/resourcelist.xml")
				defer func() {
					for _, name := range []string{"resourcelist.xml", "list-1.xml", "list-2.xml"} {
						name = "rs/maps/" + name
						s.texts[name] = strings.ReplaceAll(s.texts[name], "02:00:00Z", "02:30:00Z")
						delete(s.built, name)
					}
				}()
				return &opener.Answer{Size: -1, Body: io.NopCloser(bytes.NewReader(old))}, nil
			}
		}
		return s.open(ctx, r)
	}
	r, err := validate.Source(t.Context(), open, base+"rs/maps/list-1.xml", validate.Options{TempDir: t.TempDir()})
	if err != nil || reads < 2 {
		t.Fatalf("read %d times, error %v", reads, err)
	}
	for _, f := range r.Findings {
		t.Error(f)
	}
	if r.Documents != 24 || r.Packages != 2 {
		t.Errorf("%d documents, %d packages", r.Documents, r.Packages)
	}
}

// TestChangedResource: a resource that differs from its description is no
// finding if the Change List has the change, even a moment later; otherwise it
// is.
func TestChangedResource(t *testing.T) {
	t.Parallel()
	event := `<url><loc>https://lib.example.net/maps/2.txt</loc><rs:md change="updated" datetime="2024-05-03T00:00:00Z" hash="sha-256:{sha256:maps/new.txt}" length="3" type="text/plain"/></url>` + "\n"
	deletion := `<url><loc>https://lib.example.net/maps/2.txt</loc><rs:md change="deleted" datetime="2024-05-03T00:00:00Z"/></url>` + "\n"
	for _, tt := range []struct {
		name, content, event string
		rule                 string
	}{
		{"told later", "new", event, ""},
		{"not told", "new", "", "RS-LEN-01"},
		{"told otherwise", "NEW", event, "RS-HASH-05"},
		{"deleted and told", "", deletion, ""},
		{"deleted and not told", "", "", "RS-RL-08"},
		{"told as deleted, but there", "new", deletion, "RS-RL-08"},
		{"told of once more", "NEW", event + "AGAIN", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := goodSite(t)
			s.texts["maps/new.txt"] = "new"
			s.file("rs/maps/dump-1.zip") // packed with the previous content
			s.file("rs/maps/list-1.xml")
			s.texts["maps/2.txt"] = tt.content
			if tt.content == "" {
				delete(s.texts, "maps/2.txt")
			}
			delete(s.built, "maps/2.txt")
			var mu sync.Mutex
			asked := 0
			open := func(ctx context.Context, r opener.Request) (*opener.Answer, error) {
				mu.Lock()
				defer mu.Unlock()
				if strings.HasSuffix(r.URI, "changes-2.xml") {
					first, again := strings.CutSuffix(tt.event, "AGAIN")
					if asked++; asked == 4 && again { // it changes faster than it can be checked
						first = strings.Replace(first, "05-03", "05-04", 1)
					}
					if asked == 3 || asked == 4 && again {
						s.texts["rs/maps/changes-2.xml"] = strings.Replace(s.texts["rs/maps/changes-2.xml"], "</urlset>", first+"</urlset>", 1)
						delete(s.built, "rs/maps/changes-2.xml")
					}
				}
				return s.open(ctx, r)
			}
			r, err := validate.Source(t.Context(), open, base+".well-known/resourcesync", validate.Options{Sample: validate.SampleAll, Settle: time.Millisecond, TempDir: t.TempDir()})
			if err != nil {
				t.Fatal(err)
			}
			var rules []string
			for _, f := range r.Findings {
				rules = append(rules, f.Rule)
			}
			if got := strings.Join(rules, " "); got != tt.rule {
				t.Errorf("rules %q, want %q: %v", got, tt.rule, r.Findings)
			}
		})
	}
}

// TestListGone: if a list cannot be read again, its resources are not compared, and the report says that.
func TestListGone(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		again  func(a *opener.Answer, err error) (*opener.Answer, error)
		rules  string
		unseen int
	}{
		{"gone", func(*opener.Answer, error) (*opener.Answer, error) { return nil, fs.ErrNotExist }, "RS-IDX-06", 0},
		{"cut", func(a *opener.Answer, err error) (*opener.Answer, error) {
			a.Body = io.NopCloser(io.LimitReader(a.Body, 300))
			return a, err
		}, "RS-IDX-06", 0},
		{"unseen", func(*opener.Answer, error) (*opener.Answer, error) { return nil, opener.ErrUnseen }, "", 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := goodSite(t)
			var mu sync.Mutex
			read := false
			open := func(ctx context.Context, r opener.Request) (*opener.Answer, error) {
				a, err := s.open(ctx, r)
				mu.Lock()
				defer mu.Unlock()
				if !strings.HasSuffix(r.URI, "/list-1.xml") {
					return a, err
				}
				if !read {
					read = true
					return a, err
				}
				return tt.again(a, err)
			}
			r, err := validate.Source(t.Context(), open, base+".well-known/resourcesync", validate.Options{Sample: validate.SampleAll, Settle: time.Millisecond, TempDir: t.TempDir()})
			if err != nil {
				t.Fatal(err)
			}
			var rules []string
			for _, f := range r.Findings {
				rules = append(rules, f.Rule)
			}
			if got := strings.Join(rules, " "); got != tt.rules || r.Unseen != tt.unseen {
				t.Errorf("rules %q, %d unseen, want %q, %d: %v", got, r.Unseen, tt.rules, tt.unseen, r.Findings)
			}
		})
	}
}

// TestManyDoubts: resources that differ, and that are too many to look for their changes, are not said to be compared.
func TestManyDoubts(t *testing.T) {
	t.Parallel()
	const more = 5
	s := goodSite(t)
	s.texts["rs/maps/resourcelist.xml"] = manyEntries(strconv.Itoa(visit.MaxDoubts + more))
	open := func(ctx context.Context, r opener.Request) (*opener.Answer, error) {
		if r.Resource || strings.HasSuffix(r.URI, "capabilitylist.xml") {
			return nil, fs.ErrNotExist
		}
		return s.open(ctx, r)
	}
	r, err := validate.Source(t.Context(), open, base+"rs/maps/resourcelist.xml", validate.Options{Sample: validate.SampleAll, TempDir: t.TempDir()})
	if err != nil || r.Resources != visit.MaxDoubts || r.Unseen != more || r.Errors != visit.MaxDoubts+1 {
		t.Errorf("%d compared, %d unseen, %d errors, %v", r.Resources, r.Unseen, r.Errors, err)
	}
}

// TestSample: of many resources the requested number is checked, and the same
// ones for the same seed.
func TestSample(t *testing.T) {
	t.Parallel()
	s := goodSite(t)
	s.texts["rs/maps/resourcelist.xml"] = manyEntries("1000")
	choose := func(seed uint64) string {
		var mu sync.Mutex
		var chosen []string
		open := func(ctx context.Context, r opener.Request) (*opener.Answer, error) {
			if r.Resource {
				mu.Lock()
				chosen = append(chosen, r.URI)
				mu.Unlock()
				return nil, opener.ErrUnseen
			}
			if strings.HasSuffix(r.URI, "capabilitylist.xml") {
				return nil, fs.ErrNotExist
			}
			return s.open(ctx, r)
		}
		r, err := validate.Source(t.Context(), open, base+"rs/maps/resourcelist.xml", validate.Options{Sample: 10, Seed: seed, Jobs: 1, TempDir: t.TempDir()})
		if err != nil || len(chosen) != 10 || r.Unseen != 10 || r.Resources != 0 || seed != 0 && r.Seed != seed || r.Seed == 0 {
			t.Fatalf("%d chosen, error %v, report %+v", len(chosen), err, *r)
		}
		return strings.Join(chosen, " ")
	}
	if a, b := choose(7), choose(7); a != b {
		t.Errorf("seed 7 chooses %s, then %s", a, b)
	}
	if first := choose(0); choose(7) == choose(8) || first == choose(0) {
		t.Error("other seeds choose the same")
	}
}

// TestStrict: with Strict, warnings count as errors.
func TestStrict(t *testing.T) {
	t.Parallel()
	f := readFault(t, filepath.Join(rulesDir, "RS-SD-07.warning"))
	r, err := validate.Source(t.Context(), f.site.open, base+f.start, validate.Options{Single: true, Strict: true, TempDir: t.TempDir()})
	if err != nil || r.Errors != 1 || r.Warnings != 0 || !errors.Is(r.Findings.Err(), finding.ErrFindings) {
		t.Errorf("%d errors, %d warnings, %v, %v", r.Errors, r.Warnings, r.Findings.Err(), err)
	}
}

// write writes the site into a directory.
func (s *site) write(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	for name := range s.texts {
		if i := strings.Index(name, ".zip/"); i > 0 {
			name = name[:i+4]
		}
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, s.file(name), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// TestDir: a directory can be checked like a Source; resources that are not in
// it are unseen.
func TestDir(t *testing.T) {
	t.Parallel()
	s := goodSite(t)
	dir := s.write(t)
	at, err := opener.DirBase(dir)
	if err != nil || at != base {
		t.Fatalf("DirBase = %q, %v, want %q", at, err, base)
	}
	r := validatetest.NoFindings(t, opener.Dir(at, dir), at+".well-known/resourcesync")
	if r.Documents != 24 || r.Packages != 2 || r.Resources != 8 || r.Unseen != 0 {
		t.Errorf("%+v", *r)
	}
	if err := os.RemoveAll(filepath.Join(dir, "maps")); err != nil {
		t.Fatal(err)
	}
	if r = validatetest.NoFindings(t, opener.Dir(at, dir), at+".well-known/resourcesync"); r.Unseen != 3 {
		t.Errorf("%d unseen, want the three resources", r.Unseen)
	}
	if _, err := opener.DirBase(t.TempDir()); !errors.Is(err, opener.ErrBase) {
		t.Errorf("DirBase of an empty directory: %v", err)
	}
	if err := os.Remove(filepath.Join(dir, "rs", "maps", "list-2.xml")); err != nil {
		t.Fatal(err)
	}
	bad, err := validate.Source(t.Context(), opener.Dir(at, dir), at+".well-known/resourcesync", validate.Options{})
	if err != nil || len(bad.Findings) != 1 || bad.Findings[0].Rule != "RS-IDX-06" {
		t.Errorf("without a part: %v, %v", bad.Findings, err)
	}
}

// TestHTTP: over a real connection, with and without ranges.
func TestHTTP(t *testing.T) {
	t.Parallel()
	for _, ranges := range []bool{true, false} {
		s := goodSite(t)
		var server *httptest.Server
		var mu sync.Mutex
		parts := 0
		server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			mu.Lock()
			defer mu.Unlock()
			b := s.file(strings.TrimPrefix(r.URL.Path, "/"))
			if b == nil {
				http.NotFound(w, r)
				return
			}
			if r.Header.Get("Range") != "" {
				parts++
			}
			if !ranges {
				r.Header.Del("Range")
			}
			w.Header().Set("ETag", `"x"`)
			w.Header().Set("Content-Type", "text/plain")
			if strings.HasPrefix(string(b), "<?xml") {
				w.Header().Set("Content-Type", "application/xml; charset=utf-8")
			}
			http.ServeContent(w, r, "", time.Date(2024, 5, 1, 3, 0, 0, 0, time.UTC), bytes.NewReader(b))
		}))
		t.Cleanup(server.Close)
		for name, text := range s.texts {
			s.texts[name] = strings.ReplaceAll(text, base, server.URL+"/")
		}
		r := validatetest.NoFindings(t, validatetest.HTTP(server.Client()), server.URL+"/.well-known/resourcesync")
		if r.Documents != 24 || r.Packages != 2 || r.Resources != 8 || parts < 2 {
			t.Errorf("ranges %v: %+v, %d parts", ranges, *r, parts)
		}
	}
}

// TestSnapshots: the entries of a list and a dump must be the result of the
// changes before them; later changes may be included or not.
func TestSnapshots(t *testing.T) {
	t.Parallel()
	event := func(at, change, name, of string) string {
		e := `<url><loc>https://lib.example.net/maps/` + name + `.txt</loc><rs:md change="` + change + `" datetime="` + at + `"`
		if change != "deleted" {
			e += ` hash="sha-256:{sha256:maps/` + of + `.txt}" length="6" type="text/plain"`
		}
		return e + "/></url>\n"
	}
	const before, within, after = "2024-05-01T00:30:00Z", "2024-05-01T02:30:00Z", "2024-05-03T00:00:00Z"
	tests := []struct {
		name, event, completed string
		want                   string // messages, in the order of documents
	}{
		{"told as it is", event(before, "updated", "2", "2"), "", ""},
		{"deleted before, but listed", event(before, "deleted", "2", ""), "", "Resource Dump although it was deleted|Resource List although it was deleted"},
		{"created before, but not listed", event(before, "created", "8", "1"), "", "not in the Resource Dump|not in the Resource List"},
		{"updated before, but listed as it was", event(before, "updated", "2", "1"), "", "hash or length is not that since the change|hash or length is not that since the change"},
		{"deleted after", event(after, "deleted", "2", ""), "", ""},
		{"deleted after, list completed before", event(after, "deleted", "2", ""), "2024-05-01T02:10:00Z", ""},
		{"deleted before, created while the list was taken", event(before, "deleted", "2", "") + event(within, "created", "2", "2"), "2024-05-01T03:00:00Z", ""},
		{"deleted before, created after it was taken", event(before, "deleted", "2", "") + event(after, "created", "2", "2"), "2024-05-01T03:00:00Z",
			"Resource Dump although it was deleted|Resource List although it was deleted"},
		{"updated before and while the list was taken, but listed as neither", event(before, "updated", "2", "5") + event(within, "updated", "2", "1"), "2024-05-01T03:00:00Z",
			"hash or length is not that since the change|hash or length is not that since the change"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := goodSite(t)
			const changes = "rs/maps/changes-2.xml"
			first, rest, _ := strings.Cut(s.texts[changes], "<url>")
			earlier, later, both := tt.event, "", strings.Split(strings.TrimSuffix(tt.event, "\n"), "\n")
			if len(both) == 2 {
				earlier, later = both[0]+"\n", both[1]+"\n"
			}
			if strings.Contains(earlier, after) {
				earlier, later = "", earlier
			}
			last := ""
			rest, last, _ = strings.Cut(rest, "<url>") // the change of May 1, and that of May 2
			if strings.Contains(later, within) {
				last = "\n" + later + "<url>" + last
			} else {
				last = "<url>" + strings.Replace(last, "</urlset>", later+"</urlset>", 1)
			}
			s.texts[changes] = first + earlier + "<url>" + rest + last
			if tt.completed != "" {
				for name, text := range s.texts {
					s.texts[name] = strings.ReplaceAll(text, `at="2024-05-01T02:00:00Z"`, `at="2024-05-01T02:00:00Z" completed="`+tt.completed+`"`)
				}
			}
			r, err := validate.Source(t.Context(), s.open, base+".well-known/resourcesync", validate.Options{TempDir: t.TempDir()})
			if err != nil {
				t.Fatal(err)
			}
			var want []string
			if tt.want != "" {
				want = strings.Split(tt.want, "|")
			}
			if len(r.Findings) != len(want) {
				t.Fatalf("findings %v, want %q", r.Findings, want)
			}
			for _, w := range want {
				found := false
				for _, f := range r.Findings {
					found = found || f.Rule == "RS-CL-03" && strings.Contains(f.Message, w)
				}
				if !found {
					t.Errorf("findings %v, want %q", r.Findings, w)
				}
			}
		})
	}
}
