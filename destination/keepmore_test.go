package destination_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"lockstep/blob"
	"lockstep/destination"
	"lockstep/destination/journal"
	"lockstep/internal/fetch"
)

// TestKeepSets restores what each set contained: a resource that leaves one of two
// sets was in both before.
func TestKeepSets(t *testing.T) {
	t.Parallel()
	s := newSite(t, style{})
	for _, p := range []string{"/x", "/y", "/z"} {
		s.put(p, "content of "+p)
	}
	md := func(c string) string { return `<rs:md capability="` + c + `"/>` }
	entry := func(path, c string) string { return "<url><loc>" + s.url(path) + "</loc>" + md(c) + "</url>" }
	s.replace("/.well-known/resourcesync", doc("urlset", md("description"), entry("/one/capabilitylist.xml", "capabilitylist")+entry("/two/capabilitylist.xml", "capabilitylist")))
	at := 0
	sets := func(one, two string) {
		at++
		for name, paths := range map[string]string{"one": one, "two": two} {
			s.replace("/"+name+"/capabilitylist.xml", doc("urlset", md("capabilitylist"), entry("/"+name+"/list.xml", "resourcelist")))
			body := ""
			for _, p := range strings.Fields(paths) {
				f := s.file(p)
				body += "<url><loc>" + s.url(p) + "</loc>" + s.describe(f, f.mod, "") + "</url>"
			}
			s.replace("/"+name+"/list.xml", doc("urlset", fmt.Sprintf(`<rs:md capability="resourcelist" at="2024-05-01T%02d:00:00Z"/>`, at), body))
		}
	}
	k := newKeeping(t, s, destination.Keep{All: true})
	steps := []struct{ one, two string }{{"/x /y", "/y /z"}, {"/x", "/y /z"}, {"/x /z", "/z"}, {"/x", "/x /z"}, {"/y", "/x"}}
	var when []time.Time
	for _, step := range steps {
		sets(step.one, step.two)
		if r, err := k.at(); err != nil {
			t.Fatalf("%v: %+v", err, r)
		}
		when = append(when, time.Now())
	}
	for i, step := range steps {
		for n, want := range []string{step.one, step.two} {
			olds, _, err := k.destination().Past(t.Context(), when[i], n+1)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, o := range olds {
				path := strings.TrimPrefix(o.URI, s.srv.URL)
				if got = append(got, path); o.Err != nil || o.Content != "content of "+path {
					t.Errorf("after step %d: %s is %q: %v", i, path, o.Content, o.Err)
				}
			}
			if strings.Join(got, " ") != want {
				t.Errorf("after step %d set %d held %q, want %q", i, n+1, got, want)
			}
		}
	}
}

// TestKeepAdopted restores states from before an adopted file belonged to the mirror.
func TestKeepAdopted(t *testing.T) {
	t.Parallel()
	s := newSite(t, style{})
	k := newKeeping(t, s, destination.Keep{All: true})
	s.put("/a", "one")
	t1, was1 := k.run()
	s.put("/b", "two")
	writeFile(t, filepath.Join(k.dir, "b"), "two")
	k.opts.Adopt = true
	t2, was2 := k.run()
	k.was(t1, was1)
	k.was(t2, was2)
}

// TestKeepGone finds a missing file that it cannot replace at once: its past content
// is restored from a stored version with the same content.
func TestKeepGone(t *testing.T) {
	t.Parallel()
	s := newSite(t, style{})
	k := newKeeping(t, s, destination.Keep{All: true})
	for _, data := range []string{"one", "two", "one"} {
		s.put("/a", data)
		s.put("/b", "b of "+data)
		k.run()
	}
	then, was := time.Now(), k.resources()
	if err := os.Remove(filepath.Join(k.dir, "a")); err != nil {
		t.Fatal(err)
	}
	s.put("/a", "four")
	s.setFault(func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path == "/a" {
			w.WriteHeader(http.StatusForbidden)
		}
		return r.URL.Path == "/a"
	})
	k.opts.Baseline = true
	if r, err := k.at(); !errors.Is(err, destination.ErrIncomplete) {
		t.Fatalf("%v, want %v: %+v", err, destination.ErrIncomplete, r)
	}
	s.setFault(nil)
	k.opts.Baseline = false
	last, is := k.run()
	k.was(then, was)
	k.was(last, is)
}

// TestKeepMended repairs what an audit finds damaged, without losing the past states
// of the mirror.
func TestKeepMended(t *testing.T) {
	t.Parallel()
	s := newSite(t, style{})
	k := newKeeping(t, s, destination.Keep{All: true})
	s.put("/a", "one")
	s.put("/b", "one too")
	t1, was1 := k.run()
	writeFile(t, filepath.Join(k.dir, "a"), "eno")
	r, err := k.destination().Audit(t.Context(), k.address(), destination.AuditOptions{Content: true, Fix: true})
	if err != nil || !r.InSync || len(r.Warnings) > 0 {
		t.Fatalf("%v, %+v", err, r)
	}
	k.was(t1, was1)
	s.put("/a", "two")
	t2, was2 := k.run()
	k.was(t1, was1)
	k.was(t2, was2)
}

// TestKeepClock sets the clock of the mirror back: instants keep rising.
func TestKeepClock(t *testing.T) {
	t.Parallel()
	s := newSite(t, style{})
	k := newKeeping(t, s, destination.Keep{All: true})
	day := time.Date(2024, 5, 5, 0, 0, 0, 0, time.UTC)
	k.clock = func() time.Time { return day }
	s.put("/a", "one")
	_, was1 := k.run()
	for i := range 3 {
		day = day.AddDate(0, 0, -1)
		s.put("/a", fmt.Sprint("again ", i))
		k.run()
	}
	k.was(time.Date(2024, 5, 5, 0, 0, 0, 0, time.UTC), was1)
	k.was(time.Date(2024, 5, 6, 0, 0, 0, 0, time.UTC), k.resources())
}

// TestKeepDown: the files cannot be read for a while. They may be readable later, so
// they are not replaced.
func TestKeepDown(t *testing.T) {
	t.Parallel()
	s := newSite(t, style{})
	k := newKeeping(t, s, destination.Keep{All: true})
	s.put("/a", "one")
	t1, was1 := k.run()
	s.put("/a", "two")
	files := k.store
	k.store = &unreadable{files}
	r, err := k.at()
	if !errors.Is(err, destination.ErrIncomplete) || r.Failed != 1 || r.NotKept != 0 {
		t.Fatalf("%v, %+v: want a failure", err, r)
	}
	k.store = files
	t2, was2 := k.run()
	k.was(t1, was1)
	k.was(t2, was2)
}

// unreadable is a store that cannot be read for a while.
type unreadable struct{ blob.Store }

func (u *unreadable) Open(context.Context, string) (blob.Reader, error) {
	return nil, fmt.Errorf("open: %w", blob.ErrUnavailable)
}

// TestKeepMany drops versions of many resources by number, in more than one
// batch, and their bytes with them.
func TestKeepMany(t *testing.T) {
	t.Parallel()
	s := newSite(t, style{})
	k := newKeeping(t, s, destination.Keep{All: true})
	k.opts.Versions = &blob.Mem{}
	const files, rounds = 110, 13
	var when []time.Time
	var were []map[string]string
	for round := range rounds {
		for i := range files {
			s.put(fmt.Sprintf("/d/f%03d", i), fmt.Sprintf("%d of %d", round, i))
		}
		at, was := k.run()
		when, were = append(when, at), append(were, was)
	}
	all := k.kept()
	k.opts.Keep = destination.Keep{Count: 2}
	r, err := k.at()
	if err != nil || r.Kept.Versions != 2*files {
		t.Errorf("%+v, %v; want %d versions", r.Kept, err, 2*files)
	}
	for round := range rounds {
		got, unknown, err := k.past(when[round])
		switch {
		case err != nil:
			t.Fatal(err)
		case round < rounds-3 && (len(unknown) != files || len(got) != 0):
			t.Errorf("of round %d %d are known, and that of %d nothing is; want none", round, len(got), len(unknown))
		case round >= rounds-3 && !maps.Equal(got, were[round]):
			t.Errorf("of round %d: (-want +got)\n%.500s", round, cmp.Diff(were[round], got))
		}
	}
	if left := k.kept(); left > all*2/12+all/20 {
		t.Errorf("%d bytes are left of %d, want those of two versions in twelve", left, all)
	}
	n := 0
	for _, err := range k.journal.Past(t.Context(), "", "", 0) {
		if n++; err != nil {
			t.Fatal(err)
		}
	}
	if n != 3*files {
		t.Errorf("%d rows are left, want three of each resource: two versions, and that there were more", n)
	}
}

// TestKeepAge drops versions that are too old, and restores no earlier state.
func TestKeepAge(t *testing.T) {
	t.Parallel()
	s := newSite(t, style{})
	k := newKeeping(t, s, destination.Keep{Age: 10 * time.Hour})
	now := time.Date(2024, 5, 1, 0, 0, 0, 0, time.UTC)
	k.clock = func() time.Time { return now }
	var were []map[string]string
	begin := now
	for i := range 24 {
		s.put(fmt.Sprintf("/f%d", i%3), fmt.Sprintf("content %d", i))
		_, was := k.run()
		were = append(were, was)
		now = now.Add(time.Hour)
	}
	now = now.Add(-time.Hour) // that of the last
	for i, was := range were {
		at := begin.Add(time.Duration(i) * time.Hour)
		if i >= 13 {
			k.was(at, was)
		} else if _, since, err := k.destination().Past(t.Context(), at, 1); !errors.Is(err, destination.ErrNoPast) || !since.Equal(begin.Add(13*time.Hour)) {
			t.Errorf("after %d hours: since %s, %v", i, since, err)
		}
	}
	n := 0
	for _, err := range k.journal.Past(t.Context(), "", "", 0) {
		if n++; err != nil {
			t.Fatal(err)
		}
	}
	if n != 10 {
		t.Errorf("%d rows are kept, want those of 10 hours", n)
	}
}

// TestKeepFollowing keeps what a Follower replaces; each pass is an instant.
func TestKeepFollowing(t *testing.T) {
	t.Parallel()
	s := newSite(t, style{})
	s.put("/a", "one")
	k := newKeeping(t, s, destination.Keep{All: true})
	f, err := k.destination().Follow(k.address(), destination.FollowOptions{Poll: 5 * time.Millisecond, Pause: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- f.Run(ctx) }()
	var when []time.Time
	for i := range 4 {
		content := fmt.Sprint("content ", i)
		s.put("/a", content)
		eventually(t, func() bool {
			b, _ := os.ReadFile(filepath.Join(k.dir, "a"))
			return string(b) == content
		})
		n := f.Status().Sets[0].Pulls
		eventually(t, func() bool { return f.Status().Sets[0].Pulls > n })
		when = append(when, time.Now())
	}
	stop()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	k.same()
	for i, at := range when {
		k.was(at, map[string]string{"a": fmt.Sprint("content ", i)})
	}
}

// TestKeepPushed keeps what notifications replace.
func TestKeepPushed(t *testing.T) {
	t.Parallel()
	s := newSite(t, style{})
	s.put("/a", "one")
	p := newPress(t, s, false, true)
	g := newFollowing(t, s, false)
	k := &keeping{mirror: g.mirror, clock: time.Now}
	g.opts.Keep, g.opts.Versions = destination.Keep{All: true}, &blob.Mem{}
	g.start(destination.FollowOptions{})
	g.live(destination.ChannelEvents)
	var when []time.Time
	for i := range 3 {
		s.put("/a", fmt.Sprint("content ", i))
		p.notify()
		g.becomes("/a", fmt.Sprint("content ", i))
		eventually(t, func() bool { return g.status().Waiting == 0 })
		when = append(when, time.Now())
	}
	g.end()
	for i, at := range when {
		k.was(at, map[string]string{"a": fmt.Sprint("content ", i)})
	}
}

// TestKeepOptions rejects invalid combinations with a clear error.
func TestKeepOptions(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		keep  destination.Keep
		store blob.Store
		want  string
	}{
		{destination.Keep{All: true}, nil, "no version store is configured"},
		{destination.Keep{All: true, Count: 1}, &blob.Mem{}, "want all, a number"},
		{destination.Keep{Count: -1}, &blob.Mem{}, "want all, a number"},
		{destination.Keep{Age: -1}, &blob.Mem{}, "want all, a number"},
		{destination.Keep{None: true}, nil, ""},
	} {
		_, err := destination.New(&blob.Mem{}, &journal.Mem{}, testClient(t), destination.Options{Keep: tt.keep, Versions: tt.store})
		if text := fmt.Sprint(err); tt.want == "" && err != nil || !strings.Contains(text, tt.want) {
			t.Errorf("%+v: %v, want %q", tt.keep, err, tt.want)
		}
	}
	if _, err := destination.New(destination.NewSinkStore(nil, destination.SinkOptions{}), &journal.Mem{}, testClient(t), destination.Options{Keep: destination.Keep{All: true}, Versions: &blob.Mem{}}); err == nil {
		t.Error("a mirror without files keeps versions")
	}
	s := newSite(t, style{})
	s.put("/a", "one")
	k := newKeeping(t, s, destination.Keep{All: true})
	k.run()
	k.opts.Keep, k.opts.Versions = destination.Keep{}, nil
	if _, err := k.at(); err == nil || !strings.Contains(err.Error(), "Options.Versions") {
		t.Errorf("a mirror that keeps versions, without a place for them: %v", err)
	}
}

func testClient(t testing.TB) *fetch.Client {
	t.Helper()
	c, err := fetch.New(fetch.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}
