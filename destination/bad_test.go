package destination_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"lockstep/destination"
	"lockstep/destination/lock"
)

// seeded returns a Source of ten resources and its mirror, in step.
func seeded(t *testing.T, st style) (*site, *mirror) {
	t.Helper()
	s := newSite(t, st)
	for i := range 10 {
		s.put(fmt.Sprintf("/d/f%d", i), fmt.Sprintf("content %d", i))
	}
	m := newMirror(t, s)
	m.mustSync()
	return s, m
}

// wantErr checks the error of a run, and that the report has one clear sentence for
// each of the texts, with the address in it.
func wantErr(t *testing.T, r destination.Report, err, want error, texts ...string) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Fatalf("error %v, want %v\n%+v", err, want, r)
	}
	for _, text := range texts {
		found := strings.Contains(err.Error(), text)
		for _, f := range r.Failures {
			found = found || strings.Contains(f.Cause, text) && strings.Contains(f.Cause, "127.0.0.1")
		}
		if !found {
			t.Errorf("no failure with address and %q in %v\n%+v", text, err, r.Failures)
		}
	}
	for _, f := range r.Failures {
		if strings.ContainsAny(f.Cause, "\n\x1b") {
			t.Errorf("cause %q", f.Cause)
		}
	}
}

// TestBadResource breaks one resource in each way: it is reported, its stored content
// stays, all others are fetched, and it is fetched once it is repaired.
func TestBadResource(t *testing.T) {
	t.Parallel()
	answer := func(status int, header, body string) func(http.ResponseWriter) {
		return func(w http.ResponseWriter) {
			for line := range strings.SplitSeq(header, "\n") {
				if k, v, ok := strings.Cut(line, ": "); ok {
					w.Header().Set(k, v)
				}
			}
			w.WriteHeader(status)
			_, _ = w.Write([]byte(body)) // too little, in some
		}
	}
	tests := []struct {
		name  string
		style style
		bad   func(http.ResponseWriter)
		want  string
	}{
		{"wrong hash", style{}, answer(200, "", "contenX 3 new"), "hash sha-256"},
		{"wrong length", style{noHash: true}, answer(200, "", "short"), "length is 5"},
		{"not found", style{}, answer(404, "", ""), "status 404 Not Found"},
		{"gone", style{}, answer(410, "", ""), "status 410 Gone"},
		{"unauthorized", style{}, answer(401, "", ""), "status 401"},
		{"forbidden", style{}, answer(403, "", ""), "status 403"},
		{"server error", style{}, answer(500, "", ""), "status 500"},
		{"early end", style{}, answer(200, "Content-Length: 100", "content 3"), "body ended early"},
		{"redirect loop", style{}, answer(302, "Location: /d/f3", ""), "redirect"},
		{"unasked 206", style{}, answer(206, "Content-Range: bytes 0-1/9", "co"), "206"},
		{"unasked 304", style{}, answer(304, "", ""), "304"},
		{"coding", style{}, answer(200, "Content-Encoding: br", "xx"), "content coding br"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s, m := seeded(t, tt.style)
			s.put("/d/f3", "content 3 new")
			s.put("/d/new", "new")
			s.setFault(func(w http.ResponseWriter, r *http.Request) bool {
				if r.URL.Path != "/d/f3" {
					return false
				}
				tt.bad(w)
				return true
			})
			for range 2 { // it stays pending
				r, err := m.sync()
				wantErr(t, r, err, destination.ErrIncomplete, tt.want)
				if r.Failed != 1 {
					t.Errorf("failed %d, want 1", r.Failed)
				}
			}
			if f := m.files(); f["d/f3"] != "content 3" || f["d/new"] != "new" {
				t.Errorf("files %v", f)
			}
			s.setFault(nil)
			m.mustSync()
		})
	}
}

// TestBadDocument breaks the documents: nothing is deleted, the watermark stays, and
// the run reports the cause. Where the Change List is not one, a fresh Resource List
// is used at once.
func TestBadDocument(t *testing.T) {
	t.Parallel()
	bomb := `<?xml version="1.0"?><!DOCTYPE x [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;&a;">]><urlset>&b;</urlset>`
	tests := []struct{ name, path, text, want string }{
		{"not XML", "/rs/changelist.xml", "hello", ""},
		{"login page", "/rs/changelist.xml", "<!DOCTYPE html><html><body>Log in</body></html>", ""},
		{"wrong root", "/rs/changelist.xml", `<?xml version="1.0"?><feed xmlns="http://www.w3.org/2005/Atom"/>`, ""},
		{"bomb", "/rs/changelist.xml", bomb, ""},
		{"deep", "/rs/changelist.xml", strings.Repeat("<a>", 1_000_000), ""},
		{"empty", "/rs/changelist.xml", "", ""},
		{"wrong capability", "/rs/changelist.xml", doc("urlset", `<rs:md capability="resourcelist" at="2024-05-01T00:00:00Z"/>`, ""), "not a changelist"},
		{"circle", "/rs/changelist.xml", doc("sitemapindex", `<rs:md capability="changelist" from="2024-05-01T00:00:00Z"/>`,
			"<sitemap><loc>{base}/rs/changelist.xml</loc></sitemap>"), "listed below itself"},
		{"missing part", "/rs/changelist.xml", doc("sitemapindex", `<rs:md capability="changelist" from="2024-05-01T00:00:00Z"/>`,
			"<sitemap><loc>{base}/rs/none.xml</loc></sitemap>"), "404"},
	}
	for _, tt := range tests {
		for _, path := range []string{tt.path, "/rs/resourcelist.xml"} {
			t.Run(tt.name+path, func(t *testing.T) {
				t.Parallel()
				s, m := seeded(t, style{})
				m.opts.Baseline = path != tt.path
				before := m.files()
				text := strings.ReplaceAll(tt.text, "{base}", s.srv.URL)
				if path != tt.path {
					text = strings.NewReplacer("changelist", "resourcelist", "resourcelist", "changelist", "from=", "at=", "at=", "from=").Replace(text)
				}
				s.del("/d/f1")
				s.replace(path, text)
				if path == tt.path && tt.name != "circle" {
					r := m.mustSync()
					if len(r.Fallbacks) != 1 || r.Fallbacks[0].Missing != "changelist" || !strings.Contains(r.Fallbacks[0].Cause, tt.want) || r.Deleted != 1 {
						t.Errorf("%s, fallbacks %+v", counts(r), r.Fallbacks)
					}
					s.mu.Lock()
					delete(s.doc, path)
					s.mu.Unlock()
					m.mustSync()
					return
				}
				r, err := m.sync()
				wantErr(t, r, err, destination.ErrIncomplete, strings.Replace(tt.want, "changelist", strings.TrimSuffix(path[4:], ".xml"), 1))
				if len(r.Failures) != 1 {
					t.Errorf("failures %+v, want one", r.Failures)
				}
				if d := fmt.Sprint(m.files()); d != fmt.Sprint(before) {
					t.Errorf("files %v", d)
				}
				s.mu.Lock()
				delete(s.doc, path)
				s.mu.Unlock()
				m.mustSync()
			})
		}
	}
}

// TestTruncatedList fetches the entries that could be read, and deletes nothing.
//
// Requirements: RS-DST-04.
func TestTruncatedList(t *testing.T) {
	t.Parallel()
	s, m := seeded(t, style{noChanges: true})
	s.put("/a/new", "new")
	s.del("/d/f1")
	s.mu.Lock()
	whole, _ := s.document("/rs/resourcelist.xml")
	s.mu.Unlock()
	s.replace("/rs/resourcelist.xml", whole[:len(whole)/2])
	r, err := m.sync()
	wantErr(t, r, err, destination.ErrIncomplete, "resourcelist.xml")
	if f := m.files(); f["a/new"] != "new" || f["d/f1"] == "" {
		t.Errorf("files %v", f)
	}
	s.mu.Lock()
	delete(s.doc, "/rs/resourcelist.xml")
	s.mu.Unlock()
	m.mustSync()
}

// TestBadEntries uses the good entries of a list that also has bad ones.
func TestBadEntries(t *testing.T) {
	t.Parallel()
	s := newSite(t, style{})
	s.put("/good", "good")
	m := newMirror(t, s)
	list := doc("urlset", `<rs:md capability="resourcelist" at="2024-05-01T02:00:00Z"/>`, `
<url></url><url><loc></loc></url>
<url><loc>`+s.url("/good")+`</loc><lastmod>yesterday</lastmod><rs:md hash="md5:xyz sha-999:00" length="-4"/></url>
<url><loc>http://other.example/x</loc></url>
<url><loc>ftp://127.0.0.1/x</loc></url>
<url><loc>`+s.url("/missing")+`</loc></url>`)
	s.replace("/rs/resourcelist.xml", list)
	s.mu.Lock()
	s.log = nil
	s.mu.Unlock()
	r, err := m.sync()
	wantErr(t, r, err, destination.ErrIncomplete, "404")
	if r.Created != 1 || r.Failed != 1 || r.Refused != 2 || m.files()["good"] != "good" {
		t.Errorf("%s\n%+v", counts(r), r)
	}
}

// TestHostilePaths keeps every resource inside the mirror.
//
// Requirements: RS-SEC-03.
func TestHostilePaths(t *testing.T) {
	t.Parallel()
	s := newSite(t, style{})
	for i, path := range []string{"/../../etc/passwd", "/a/../../b", "/%2e%2e/c", "/%2E%2E/%2E%2E/d", "/.lockstep/state.db",
		"/.LOCKSTEP/lock", "/_other/x/y", "/a%2F..%2F..%2Fe", "/a%00b", "//", "/a//b", "/a%5C..%5Cb", "/%7E~", "/" + strings.Repeat("x", 300), "/?q=../../x", "/CON", "/a.", "/x/"} {
		s.put(path, fmt.Sprint("hostile ", i))
	}
	s.setFault(func(w http.ResponseWriter, r *http.Request) bool {
		f, ok := s.files[r.RequestURI]
		if ok {
			s.serve(w, r, f)
		}
		return ok
	})
	m := newMirror(t, s)
	m.mustSync()
	outside, err := os.ReadDir(filepath.Dir(m.dir))
	if err != nil || len(outside) != 1 {
		t.Errorf("beside the mirror: %v, %v", outside, err)
	}
	if a := m.audit(); !a.InSync || a.Foreign > 0 {
		t.Errorf("audit %+v", a)
	}
}

// TestForeign never touches foreign files, unless it is configured to adopt those
// that are right.
func TestForeign(t *testing.T) {
	t.Parallel()
	s := newSite(t, style{})
	s.put("/a/mine", "the Source's")
	s.put("/a/same", "equal")
	s.put("/b/linked", "through a link")
	s.put("/c/good", "good")
	m := newMirror(t, s)
	outside := t.TempDir()
	for path, data := range map[string]string{"a/mine": "the user's", "a/same": "equal", "notes.txt": "note"} {
		if err := os.MkdirAll(filepath.Join(m.dir, filepath.Dir(path)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(m.dir, path), []byte(data), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(outside, filepath.Join(m.dir, "b")); err != nil {
		t.Fatal(err)
	}
	r, err := m.sync()
	wantErr(t, r, err, destination.ErrIncomplete, "left alone; sync --adopt", `"a/mine"`)
	if r.Failed > 3 || r.Failed < 2 || r.Created < 1 {
		t.Errorf("%s", counts(r))
	}
	m.opts.Adopt = true
	r, err = m.sync()
	wantErr(t, r, err, destination.ErrIncomplete, `"a/mine"`)
	if a := m.audit(); a.Foreign == 0 || a.InSync {
		t.Errorf("audit %+v", a)
	}
	s.del("/a/mine")
	s.del("/b/linked")
	if r, err = m.sync(); err != nil {
		t.Errorf("%v %+v", err, r)
	}
	left, _ := os.ReadDir(outside)
	f := m.files()
	if f["a/mine"] != "the user's" || f["notes.txt"] != "note" || f["a/same"] != "equal" || len(left) > 0 {
		t.Errorf("files %v, outside %v", f, left)
	}
	if a := m.audit(); !a.InSync || a.Foreign == 0 {
		t.Errorf("audit %+v", a)
	}
}

// TestGuard refuses to delete many resources, from lists and changes alike.
//
// Requirements: RS-DST-04.
func TestGuard(t *testing.T) {
	t.Parallel()
	for _, st := range []style{{}, {noChanges: true}, {sitemap: true}} {
		s, m := seeded(t, st)
		m.opts.Delete = destination.DeleteApply
		for i := range 9 {
			s.del(fmt.Sprintf("/d/f%d", i))
		}
		r, err := m.sync()
		wantErr(t, r, err, destination.ErrRefused, "would delete 90% of the mirror (9 of 10 resources)")
		var refused *destination.RefusedError
		if !errors.As(err, &refused) || !strings.Contains(refused.Hint, "--max-delete 90") {
			t.Errorf("hint %+v", refused)
		}
		if len(m.files()) != 10 {
			t.Errorf("files %v", m.files())
		}
		m.opts.DryRun, m.opts.MaxDelete = true, 90
		if r, err := m.sync(); err != nil || r.Deleted != 9 || len(m.files()) != 10 {
			t.Errorf("dry run: %v %+v", err, r)
		}
		m.opts.DryRun = false
		m.mustSync()
		s.del("/d/f9")
		r, err = m.sync()
		wantErr(t, r, err, destination.ErrRefused, "would delete 100%")
		m.opts.MaxDelete = 100
		m.mustSync()
	}
}

// TestBackInTime notices a Source that was restored, and keeps what is newer.
func TestBackInTime(t *testing.T) {
	t.Parallel()
	for _, st := range []style{{}, {parts: 3}, {seconds: true}, {noChanges: true}} {
		s, m := seeded(t, st)
		s.mu.Lock()
		log, now := s.log, s.now
		files := map[string]siteFile{}
		for k, v := range s.files {
			files[k] = v
		}
		s.now = s.now.Add(time.Hour)
		s.mu.Unlock()
		s.put("/d/f1", "newer")
		s.put("/d/f20", "created later")
		m.mustSync()
		s.mu.Lock()
		s.files, s.log, s.now = files, log, now
		s.mu.Unlock()
		r, err := m.sync()
		wantErr(t, r, err, destination.ErrRefused, "went back in time")
		if f := m.files(); f["d/f1"] != "newer" || f["d/f20"] == "" {
			t.Errorf("files %v", f)
		}
		m.opts.Baseline = true
		m.mustSync()
	}
}

// TestBackInTimeIsSaidInWords names times and numbers, also where there is no time and one
// resource.
func TestBackInTimeIsSaidInWords(t *testing.T) {
	t.Parallel()
	s, m := seeded(t, style{})
	log := s.log
	s.put("/d/f1", "newer")
	m.mustSync()
	s.mu.Lock()
	seen, now := s.log[len(s.log)-1].at, s.now
	s.log, s.now = nil, log[len(log)-1].at
	s.mu.Unlock()
	r, err := m.sync()
	wantErr(t, r, err, destination.ErrRefused, "went back in time: it has no changes, those applied here end at "+seen.UTC().Format(time.RFC3339Nano))

	s.mu.Lock()
	s.log, s.now = log, now.Add(time.Hour)
	s.from = s.from.Add(-time.Hour)
	delete(s.files, "/d/f2")
	s.mu.Unlock()
	s.put("/d/f3", "after a rewritten history")
	r, err = m.sync()
	wantErr(t, r, err, destination.ErrRefused, "went back in time: its history was rewritten, and 1 resource is gone without a recorded deletion")
}

// TestHistoryReachesBack notices a restored Source also where its history had
// been emptied meanwhile: no event is missed in it, but it begins earlier.
func TestHistoryReachesBack(t *testing.T) {
	t.Parallel()
	s, m := seeded(t, style{})
	s.mu.Lock()
	log, now, from := s.log, s.now, s.from
	files := maps.Clone(s.files)
	s.now = s.now.Add(time.Hour)
	s.mu.Unlock()
	s.put("/d/f1", "newer")
	s.forget(1 << 30)
	m.mustSync()
	s.mu.Lock()
	s.files, s.log, s.now, s.from = files, log, now, from
	s.mu.Unlock()
	r, err := m.sync()
	wantErr(t, r, err, destination.ErrRefused, "went back in time")
	if f := m.files(); f["d/f1"] != "newer" {
		t.Errorf("files %v", f)
	}
}

// TestOtherSource refuses to make one mirror of two Sources.
func TestOtherSource(t *testing.T) {
	t.Parallel()
	_, m := seeded(t, style{})
	other := newSite(t, style{})
	other.put("/x", "x")
	mine := m.site
	m.site = other
	r, err := m.sync()
	wantErr(t, r, err, destination.ErrRefused, "another Source")
	m.site = mine
	m.mustSync()
}

func TestNoSource(t *testing.T) {
	t.Parallel()
	m := newMirror(t, newSite(t, style{}))
	empty := httptest.NewServer(http.NotFoundHandler())
	defer empty.Close()
	for _, address := range []string{empty.URL + "/nothing/here", "http://127.0.0.1:1/", ""} {
		_, err := m.destination().Sync(context.Background(), address)
		if err == nil || strings.Contains(err.Error(), "\n") {
			t.Errorf("Sync(%q) = %v", address, err)
		}
	}
}

func TestInUse(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	l, err := lock.Acquire(dir)
	if err != nil {
		t.Fatal(err)
	}
	_, err = lock.Acquire(dir)
	var inUse *lock.InUseError
	if !errors.As(err, &inUse) || inUse.Holder.PID != os.Getpid() || !strings.Contains(err.Error(), fmt.Sprint(os.Getpid())) {
		t.Fatalf("second lock: %v", err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if l, err = lock.Acquire(dir); err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestInterrupt cancels a run halfway: finished work stays.
func TestInterrupt(t *testing.T) {
	t.Parallel()
	s := newSite(t, style{})
	for i := range 200 {
		s.put(fmt.Sprintf("/d/f%03d", i), fmt.Sprint("content ", i))
	}
	m := newMirror(t, s)
	m.opts.Jobs = 16 // that so many are lost may depend on nothing else
	ctx, cancel := context.WithCancel(context.Background())
	n := 0
	var interrupted time.Time
	s.setFault(func(w http.ResponseWriter, r *http.Request) bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		if strings.HasPrefix(r.URL.Path, "/d/") {
			n++
		}
		if n == 100 && interrupted.IsZero() {
			interrupted = time.Now()
			cancel()
		}
		return false
	})
	_, err := m.destination().Sync(ctx, m.address())
	s.mu.Lock()
	took := time.Since(interrupted)
	s.mu.Unlock()
	if !errors.Is(err, context.Canceled) || took > 30*time.Second {
		t.Fatalf("interrupted: %v after %v", err, took)
	}
	if n := len(m.files()); n < 80 {
		t.Errorf("%d files were kept", n)
	}
	s.setFault(nil)
	m.mustSync()
	if n := s.resourceGets(); n > 120 {
		t.Errorf("%d resources were asked for again", n)
	}
}
