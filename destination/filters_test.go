package destination_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"lockstep/destination"
)

// wantContent checks the content of a file of the mirror.
func wantContent(t *testing.T, m *mirror, path, want string) {
	t.Helper()
	if got := m.files()[path]; got != want {
		t.Errorf("%s has %q, want %q", path, got, want)
	}
}

// advance moves the clock of the Source.
func (s *site) advance(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now = s.now.Add(d)
}

// TestFilters: the first filter that matches decides, beside Include and Exclude; a change
// of them counts as one of the selection.
func TestFilters(t *testing.T) {
	t.Parallel()
	s, m := selectedSite(t, style{})
	m.opts.Filters = []destination.Filter{{Include: true, Glob: "*/old3*"}, {Glob: "*/old*"}, {Include: true, Glob: "*/old4*"}}
	wantFiles(t, m, "without the old ones", slices.Concat(newFiles, []string{"old3"})...)
	s.put("/d/old4.txt", "changed")
	s.put("/d/old3.txt", "changed")
	wantFiles(t, m, "changes", slices.Concat(newFiles, []string{"old3"})...)
	wantContent(t, m, "d/old3.txt", "changed")
	m.opts.Exclude = []string{"*3.txt"}
	wantFiles(t, m, "Exclude prevails", "new0", "new1", "new2", "new4", "new5")
	m.opts.Exclude, m.opts.Include = nil, []string{"*0.txt", "*3.txt"}
	wantFiles(t, m, "both select", "new0", "new3", "old3")
	m.opts.Include = nil
	wantFiles(t, m, "as before", slices.Concat(newFiles, []string{"old3"})...)
	m.opts.Filters = []destination.Filter{{Include: true, Glob: "*/old*"}, {Glob: "*"}}
	if _, err := m.sync(); !errors.Is(err, destination.ErrRefused) || !strings.Contains(err.Error(), "6 because the selection shrank") {
		t.Fatalf("the others: %v, want a refusal", err)
	}
	m.opts.MaxDelete = 100
	wantFiles(t, m, "the others, with consent", oldFiles...)
	m.opts.Filters = []destination.Filter{{Glob: "*"}}
	if _, err := m.sync(); err == nil || !strings.Contains(err.Error(), "0 of 12") {
		t.Errorf("nothing: %v, want an error that says that nothing is selected", err)
	}
	if got := len(m.files()); got != len(oldFiles) {
		t.Errorf("nothing: %d files, want those of before", got)
	}
	m.opts.Filters = []destination.Filter{{Include: true, Glob: "*/old*"}, {Glob: "*"}}
	wantFiles(t, m, "corrected", oldFiles...)
}

// TestSizes selects by the stated length, back and forth; what has no stated length is
// selected. A resource that grows out of the selection is removed like one that leaves it
// otherwise.
func TestSizes(t *testing.T) {
	t.Parallel()
	s := newSite(t, style{})
	for i := range 12 {
		s.put(fmt.Sprintf("/d/%02d.txt", i), strings.Repeat("x", i))
	}
	m := newMirror(t, s)
	m.opts.MinSize, m.opts.MaxSize = 4, 10
	wantFiles(t, m, "of a size", "04", "05", "06", "07", "08", "09", "10")
	s.put("/d/05.txt", strings.Repeat("x", 11))
	s.put("/d/01.txt", strings.Repeat("x", 4))
	wantFiles(t, m, "sizes changed", "01", "04", "06", "07", "08", "09", "10")
	m.opts.MinSize, m.opts.MaxSize = 0, 10
	wantFiles(t, m, "small", "00", "01", "02", "03", "04", "06", "07", "08", "09", "10")
	m.opts.MaxSize = 2
	if _, err := m.sync(); !errors.Is(err, destination.ErrRefused) || !strings.Contains(err.Error(), "selection shrank") {
		t.Fatalf("smaller: %v, want a refusal", err)
	}
	m.opts.Delete = destination.DeleteKeep
	wantFiles(t, m, "smaller, and none deleted", "00", "01", "02", "03", "04", "06", "07", "08", "09", "10")

	s = newSite(t, style{noLength: true})
	s.put("/d/large.txt", strings.Repeat("x", 1000))
	m = newMirror(t, s)
	m.opts.MaxSize = 10
	wantFiles(t, m, "no length is stated", "large")
	m.opts.Baseline = true
	wantFiles(t, m, "no length is stated, but known", "large")
}

// An aging mirror is one whose clock is that of its Source, or as much ahead as later says.
type aging struct {
	*mirror
	later time.Duration
}

func (m *aging) want(what string, want ...string) {
	m.t.Helper()
	d := m.destination()
	d.SetClock(func() time.Time {
		m.site.mu.Lock()
		defer m.site.mu.Unlock()
		return m.site.now.Add(m.later)
	})
	r, err := d.Sync(m.t.Context(), m.address())
	var got []string
	for name := range m.files() {
		got = append(got, strings.TrimSuffix(strings.TrimPrefix(name, "d/"), ".txt"))
	}
	slices.Sort(got)
	if err != nil || !slices.Equal(got, want) || r.Failed > 0 {
		m.t.Fatalf("%s: %v, files %q, want %q", what, err, got, want)
	}
}

// TestMaxAge: a resource is taken only while it is young enough, and stays when it is not.
func TestMaxAge(t *testing.T) {
	t.Parallel()
	for name, st := range map[string]style{"both lists": {}, "no Change List": {noChanges: true}, "Sitemap": {sitemap: true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, plain := selectedSite(t, st)
			m := &aging{mirror: plain}
			m.opts.MaxAge = 30 * 24 * time.Hour
			m.want("young ones", newFiles...)
			m.later = 60 * 24 * time.Hour
			m.want("grown older", newFiles...)
			m.opts.Baseline = true
			m.want("grown older, all compared", newFiles...)
			m.opts.Baseline = false
			s.put("/d/old2.txt", "changed")
			s.put("/d/new2.txt", "changed")
			m.later = 0
			m.want("one that is young again", slices.Concat(newFiles, []string{"old2"})...)
			wantContent(t, plain, "d/old2.txt", "changed")
			wantContent(t, plain, "d/new2.txt", "changed")
			m.opts.MaxAge = time.Second
			m.later = 60 * 24 * time.Hour
			m.want("another age deletes nothing", slices.Concat(newFiles, []string{"old2"})...)
			m.opts.MaxAge = 0
			m.want("any age", allFiles...)
		})
	}
}

// TestMinAge: a resource is taken once it is old enough, also by runs that read only changes,
// and however often others change; changes of what the mirror has are not delayed.
func TestMinAge(t *testing.T) {
	t.Parallel()
	for name, st := range map[string]style{
		"both lists": {}, "no Change List": {noChanges: true}, "Sitemap": {sitemap: true}, "no datetime": {noDatetime: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, plain := selectedSite(t, st)
			m := &aging{mirror: plain}
			m.opts.MinAge = time.Hour
			m.want("old ones", oldFiles...)
			m.want("nothing new", oldFiles...)
			s.put("/d/old1.txt", "changed")
			s.put("/d/later.txt", "created")
			m.later = 30 * time.Minute
			m.want("too young", oldFiles...)
			wantContent(t, plain, "d/old1.txt", "changed")
			s.advance(50 * time.Minute)
			m.later = 0
			s.put("/d/busy.txt", "created")
			m.want("others are created", oldFiles...)
			m.later = 20 * time.Minute
			m.want("old enough", slices.Concat([]string{"later"}, allFiles)...)
			m.later = 3 * time.Hour
			m.want("all", slices.Concat([]string{"busy", "later"}, allFiles)...)
			m.same()
		})
	}
}

// TestMinAgeWithoutList: it works for a Source that has nothing but a Change List.
func TestMinAgeWithoutList(t *testing.T) {
	t.Parallel()
	s, plain := selectedSite(t, style{})
	s.replace("/rs/capabilitylist.xml", doc("urlset", `<rs:md capability="capabilitylist"/>`,
		`<url><loc>`+s.url("/rs/changelist.xml")+`</loc><rs:md capability="changelist"/></url>`))
	m := &aging{mirror: plain}
	m.opts.MinAge = time.Hour
	m.want("old ones", oldFiles...)
	s.put("/d/later.txt", "created")
	m.want("too young", oldFiles...)
	m.later = 2 * time.Hour
	m.want("old enough", slices.Concat([]string{"later"}, allFiles)...)
}

// TestAuditOfAges: what a mirror does not take at its age is not missing.
func TestAuditOfAges(t *testing.T) {
	t.Parallel()
	_, plain := selectedSite(t, style{})
	m := &aging{mirror: plain}
	m.opts.MinAge = time.Hour
	m.want("old ones", oldFiles...)
	d := m.destination()
	d.SetClock(func() time.Time { return m.site.now })
	r, err := d.Audit(t.Context(), m.address(), destination.AuditOptions{Content: true})
	if err != nil || !r.InSync || r.Verified != int64(len(oldFiles)) {
		t.Errorf("audit: %v, in sync %t, %d verified; want in sync, %d verified", err, r.InSync, r.Verified, len(oldFiles))
	}
}
