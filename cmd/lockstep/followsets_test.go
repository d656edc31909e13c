package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// A setsSource is a Source with sets of one resource each, /SET.txt.
type setsSource struct {
	*httptest.Server

	mu   sync.Mutex                  // guards what follows
	hook map[string]http.HandlerFunc // by path: answers in place of the Source
	hits map[string]int              // requests, by path
}

func newSetsSource(t *testing.T, sets ...string) *setsSource {
	t.Helper()
	const head = `<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9" xmlns:rs="http://www.openarchives.org/rs/terms/"><rs:md capability="%s" at="2024-05-01T00:00:00Z"/>`
	s := &setsSource{hook: map[string]http.HandlerFunc{}, hits: map[string]int{}}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		hook := s.hook[r.URL.Path]
		s.hits[r.URL.Path]++
		s.mu.Unlock()
		name := strings.FieldsFunc(r.URL.Path, func(c rune) bool { return c == '/' || c == '.' })
		list := func(capability string, locs ...string) {
			w.Header().Set("Content-Type", "application/xml")
			_, _ = fmt.Fprintf(w, head, capability)
			for _, loc := range locs {
				_, _ = fmt.Fprintf(w, "<url><loc>http://%s/%s</loc>", r.Host, loc)
				if capability == "capabilitylist" {
					_, _ = fmt.Fprint(w, `<rs:md capability="resourcelist"/>`)
				}
				_, _ = fmt.Fprint(w, "</url>")
			}
			_, _ = fmt.Fprint(w, "</urlset>")
		}
		switch path := r.URL.Path; {
		case hook != nil:
			hook(w, r)
		case path == "/.well-known/resourcesync":
			var lists []string
			for _, set := range sets {
				lists = append(lists, set+"/capabilitylist.xml")
			}
			list("description", lists...)
		case strings.HasSuffix(path, "/capabilitylist.xml"):
			list("capabilitylist", name[0]+"/resourcelist.xml")
		case strings.HasSuffix(path, "/resourcelist.xml"):
			list("resourcelist", name[0]+".txt")
		case strings.HasSuffix(path, ".txt"):
			_, _ = fmt.Fprintln(w, name[0])
		default:
			http.NotFound(w, r)
		}
	}))
	t.Cleanup(s.Close)
	return s
}

// answer has h answer requests for path; nil: the Source does.
func (s *setsSource) answer(path string, h http.HandlerFunc) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.hook[path] = h; h == nil {
		delete(s.hook, path)
	}
}

// block has requests for path, /SET.txt, wait until release is called.
func (s *setsSource) block(t *testing.T, path string) (release func()) {
	t.Helper()
	done := make(chan struct{})
	release = sync.OnceFunc(func() {
		s.answer(path, nil)
		close(done)
	})
	t.Cleanup(release)
	s.answer(path, func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-done:
			_, _ = fmt.Fprintln(w, strings.TrimSuffix(path[1:], ".txt")) // as later: the set may be read again before anything is announced
		case <-r.Context().Done():
		}
	})
	return release
}

// asked reports whether path was requested.
func (s *setsSource) asked(path string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.hits[path] > 0
}

func unavailable(w http.ResponseWriter, _ *http.Request) {
	w.WriteHeader(http.StatusInternalServerError)
}

// A setsFollow is a process that follows a setsSource.
type setsFollow struct {
	t    *testing.T
	dir  string
	base string // of its pages
	cmd  *exec.Cmd
	out  *syncBuffer
}

// followSets follows into the directory mirror; args come after the others.
func followSets(t *testing.T, s *setsSource, args ...string) *setsFollow {
	t.Helper()
	f := &setsFollow{t: t, dir: t.TempDir()}
	f.follow(append([]string{s.URL + "/.well-known/resourcesync", "mirror", "--channel", "poll", "--poll", "100ms", "--retries", "0"}, args...)...)
	return f
}

func (f *setsFollow) follow(args ...string) {
	f.t.Helper()
	address := freeAddress(f.t)
	f.base = "http://" + address + "/"
	f.cmd, f.out = start(f.t, f.dir, append([]string{"follow", "--listen", address}, args...)...)
}

// readyz returns the status of the readiness check; 0: the process does not answer yet.
func (f *setsFollow) readyz() int {
	status, _ := statusOf(http.Get(f.base + "-/readyz"))
	return status
}

// isQuiet checks that nothing is announced for a while, in which it could have been many
// times, and that the process is alive and not ready.
func (f *setsFollow) isQuiet(while string) {
	f.t.Helper()
	within(f.t, "the process answers", func() bool { return f.readyz() != 0 })
	for range 20 {
		if status, text := f.readyz(), f.out.String(); status != http.StatusServiceUnavailable || strings.Contains(text, "ready: ") || strings.Contains(text, "in step") {
			f.t.Fatalf("%s: readyz answers %d, and it wrote\n%s", while, status, text)
		}
		time.Sleep(20 * time.Millisecond) // the status is looked at every 50 ms
	}
}

// wrote checks what the process has written.
func (f *setsFollow) wrote(what string, want bool) {
	f.t.Helper()
	if text := f.out.String(); strings.Contains(text, what) != want {
		f.t.Errorf("that it wrote %q is %v, want %v:\n%s", what, !want, want, text)
	}
}

// end ends the process.
func (f *setsFollow) end() {
	f.t.Helper()
	if err := f.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		f.t.Fatal(err)
	}
	if code, err := exitCodeOf(f.cmd.Wait()); err != nil || code != exitOK {
		f.t.Errorf("exit code %d, %v\n%s", code, err, f.out)
	}
}

// TestFollowAwaitsEverySet: a follow is ready, and says "in step", when all sets have been
// read, not when the first one has.
func TestFollowAwaitsEverySet(t *testing.T) {
	t.Parallel()
	s := newSetsSource(t, "one", "two", "three")
	release := s.block(t, "/two.txt")
	f := followSets(t, s)
	within(t, "two is asked for", func() bool { return s.asked("/two.txt") })
	f.isQuiet("while the second of three sets is read")
	release()
	await(t, f.out, "ready: ")
	if status := f.readyz(); status != http.StatusOK {
		t.Errorf("all is in step, readyz answers %d\n%s", status, f.out)
	}
	f.wrote("not yet in step", false)
	f.wrote("in step with "+s.URL, true)
	f.wrote("  3 created, 0 updated, 0 deleted", true)
	f.end()

	// Nothing has changed: it is in step again as soon as every set was looked at.
	f.follow(s.URL+"/.well-known/resourcesync", "mirror", "--channel", "poll")
	await(t, f.out, "ready: ")
	if status := f.readyz(); status != http.StatusOK {
		t.Errorf("after a restart readyz answers %d\n%s", status, f.out)
	}
	f.wrote("not yet in step", false)
	f.end()
}

// TestFollowAnnouncesFailedSets: sets that cannot be read do not keep a follow from saying
// how the first sync ended, but from being ready. Sets that fail later do not.
func TestFollowAnnouncesFailedSets(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ path, line string }{
		"Capability List of the first set": {"/one/capabilitylist.xml", "  not in step yet: "},
		"Capability List of the last set":  {"/three/capabilitylist.xml", "  not in step yet: "},
		"first set":                        {"/one/resourcelist.xml", "  not in step yet: one: "},
		"last set":                         {"/three/resourcelist.xml", "  not in step yet: three: "},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSetsSource(t, "one", "two", "three")
			s.answer(tt.path, unavailable)
			f := followSets(t, s)
			await(t, f.out, "ready: ")
			f.wrote("not yet in step with "+s.URL, true)
			f.wrote("\nin step with ", false)
			f.wrote("  2 created, 0 updated, 0 deleted", true)
			f.wrote(tt.line, true)
			if status := f.readyz(); status != http.StatusServiceUnavailable {
				t.Errorf("a set has not been read, readyz answers %d", status)
			}
			s.answer(tt.path, nil)
			within(t, "ready", func() bool { return f.readyz() == http.StatusOK })
			await(t, f.out, "in step again, after ")
			if _, err := os.Stat(filepath.Join(f.dir, "mirror", strings.Split(tt.path, "/")[1]+".txt")); err != nil {
				t.Error(err)
			}
			warnings := strings.Count(f.out.String(), "warning: ")
			s.answer(tt.path, unavailable)
			within(t, "the failure is reported", func() bool { return strings.Count(f.out.String(), "warning: ") > warnings })
			if status := f.readyz(); status != http.StatusOK {
				t.Errorf("a set fails that was in step once, readyz answers %d", status)
			}
			f.end()
		})
	}
}

// TestFollowAnnouncesAllFailed: a follow says how the first sync ended if no set can be
// read, and is ready as soon as all can.
func TestFollowAnnouncesAllFailed(t *testing.T) {
	t.Parallel()
	s := newSetsSource(t, "one", "two")
	s.answer("/one/resourcelist.xml", unavailable)
	s.answer("/two/resourcelist.xml", unavailable)
	f := followSets(t, s)
	await(t, f.out, "ready: ")
	f.wrote("not yet in step with "+s.URL, true)
	f.wrote("\nin step with ", false)
	if status := f.readyz(); status != http.StatusServiceUnavailable {
		t.Errorf("no set has been read, readyz answers %d", status)
	}
	s.answer("/one/resourcelist.xml", nil)
	within(t, "a set is read", func() bool {
		_, err := os.Stat(filepath.Join(f.dir, "mirror", "one.txt"))
		return err == nil
	})
	if status := f.readyz(); status != http.StatusServiceUnavailable {
		t.Errorf("one of two sets has been read, readyz answers %d", status)
	}
	s.answer("/two/resourcelist.xml", nil)
	within(t, "ready", func() bool { return f.readyz() == http.StatusOK })
	f.end()
}

// TestFollowReadyWithFailedResource: a resource that fails keeps a follow from saying "in
// step", and not from being ready: it is tried again for as long as the Source lists it.
func TestFollowReadyWithFailedResource(t *testing.T) {
	t.Parallel()
	s := newSetsSource(t, "one", "two")
	s.answer("/one.txt", http.NotFound)
	f := followSets(t, s)
	await(t, f.out, "ready: ")
	if status := f.readyz(); status != http.StatusOK {
		t.Errorf("all sets have been read, readyz answers %d\n%s", status, f.out)
	}
	f.wrote("not yet in step with "+s.URL, true)
	f.wrote("  not in step yet: one: ", true)
	f.wrote("  not in step yet: two: ", false)
	f.end()
}

// TestFollowMirrorsAwaitSets: a process that follows several mirrors is ready when each set
// of each was read, or could not be.
func TestFollowMirrorsAwaitSets(t *testing.T) {
	t.Parallel()
	s, whole := newSetsSource(t, "one", "two", "three"), newSetsSource(t, "four", "five")
	s.answer("/one/resourcelist.xml", unavailable)
	release := s.block(t, "/two.txt")
	f := &setsFollow{t: t, dir: t.TempDir()}
	config := fmt.Sprintf("state: state\npoll: 100ms\nchannel: poll\nretries: 0\nmirrors:\n- {source: '%s/.well-known/resourcesync', dest: part}\n- {source: '%s/.well-known/resourcesync', dest: whole}\n", s.URL, whole.URL)
	writeFile(t, filepath.Join(f.dir, "m.yaml"), config)
	f.follow("--config", "m.yaml")
	within(t, "two is asked for", func() bool { return s.asked("/two.txt") })
	await(t, f.out, "whole: in step with ")
	for range 20 {
		if status, text := f.readyz(), f.out.String(); status == http.StatusOK || strings.Contains(text, "ready: ") || strings.Contains(text, "part: in step with") || strings.Contains(text, "part: not yet in step with") {
			t.Fatalf("while a set is read: readyz answers %d, and it wrote\n%s", status, text)
		}
		time.Sleep(20 * time.Millisecond)
	}
	release()
	await(t, f.out, "ready: ")
	f.wrote("part: not yet in step with ", true)
	f.wrote("part:   not in step yet: one: ", true)
	f.wrote("  not in step yet: part: ", true)
	f.wrote("  not in step yet: whole: ", false)
	if status, text := statusOf(http.Get(f.base + "-/readyz")); status != http.StatusOK || !strings.Contains(text, "1 of 2 mirrors not in step yet") {
		t.Errorf("readyz answers %d %s, want 200 and that one mirror is not in step", status, text)
	}
	s.answer("/one/resourcelist.xml", nil)
	within(t, "all are in step", func() bool {
		status, text := statusOf(http.Get(f.base + "-/readyz"))
		return status == http.StatusOK && !strings.Contains(text, "not in step")
	})
	f.end()
}

// TestFollowMirrorsThatCannotBeFollowed: a mirror that cannot be followed is shown as failing, with the
// reason, wherever its state is shown.
func TestFollowMirrorsThatCannotBeFollowed(t *testing.T) {
	t.Parallel()
	s := newSetsSource(t, "one")
	f := &setsFollow{t: t, dir: t.TempDir()}
	writeFile(t, filepath.Join(f.dir, "file"), "not a directory")
	config := "state: state\npoll: 100ms\nchannel: poll\nretries: 0\nmirrors:\n"
	for _, m := range []string{"dest: whole", "dest: none, set: none", "dest: file/dest, name: file", "dest: held"} {
		config += fmt.Sprintf("- {source: '%s/.well-known/resourcesync', %s}\n", s.URL, m)
	}
	writeFile(t, filepath.Join(f.dir, "m.yaml"), config)
	holder, out := start(t, f.dir, "follow", s.URL+"/.well-known/resourcesync", "held", "--channel", "poll")
	await(t, out, "ready: ")
	f.follow("--config", "m.yaml")
	await(t, f.out, "ready: ")
	ask := func(path string) string {
		token, err := os.ReadFile(filepath.Join(f.dir, "state/follow/admin-token"))
		if err != nil {
			t.Fatal(err)
		}
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, f.base+"-/"+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(token)))
		_, text := statusOf(http.DefaultClient.Do(r))
		return text
	}
	reasons := map[string]string{"none": `the Source offers one`, "file": `not a directory`, "held": `is in use by process`}
	for name, reason := range reasons {
		within(t, name+" is failing", func() bool {
			figures := ask("metrics")
			state := ask("api/v1/follow")
			rows := ask("upstreams")
			_, row, _ := strings.Cut(rows, `"mirror":"`+name+`"`)
			row, _, _ = strings.Cut(row, "\n")
			return strings.Contains(figures, `lockstep_follow_failing{mirror="`+name+`"} 1`) && strings.Contains(state, reason) &&
				strings.Contains(row, `"state":"failing"`) && strings.Contains(row, reason)
		})
	}
	within(t, "readyz names the number", func() bool {
		_, text := statusOf(http.Get(f.base + "-/readyz"))
		return strings.Contains(text, "3 of 4 mirrors not in step yet")
	})
	if err := holder.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = holder.Wait() // it was killed
	within(t, "held is followed", func() bool {
		figures := ask("metrics")
		return strings.Contains(figures, `lockstep_follow_failing{mirror="held"} 0`) && strings.Contains(figures, `lockstep_follow_ready{mirror="held"} 1`)
	})
	f.end()
}
