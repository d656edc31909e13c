package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestFollowRestarts ends all that takes part in a follow, changes files
// meanwhile, and starts it again, in every order: nothing is missed, and what
// changes then is told as before.
func TestFollowRestarts(t *testing.T) {
	t.Parallel()
	for _, way := range []string{"hub", "events", "poll"} {
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			w := newRestarts(t, way)
			for i, order := range permutations(len(w.processes)) {
				for _, p := range order {
					if code, err := w.processes[p].p.end(syscall.SIGTERM); err != nil || code != exitOK {
						t.Fatalf("%s ended with %d, %v\n%s", w.processes[p].name, code, err, w.processes[p].p.stderr)
					}
				}
				w.write(fmt.Sprintf("meanwhile/%d.txt", i), "changed.txt")
				if err := os.Remove(filepath.Join(w.dir, fmt.Sprintf("old%d.txt", i))); err != nil {
					t.Fatal(err)
				}
				var again []*tortured
				for _, p := range order {
					again = append(again, w.processes[p])
				}
				w.start(again...)
				w.settles(fmt.Sprintf("restarted in the order %d", order))
				w.write(fmt.Sprintf("then/%d.txt", i), "changed.txt")
				w.settles(fmt.Sprintf("a change after the restart in the order %d", order))
				w.followedBy(way)
			}
		})
	}
}

// A restarts is what TestFollowRestarts starts again.
type restarts struct {
	torture
	dir    string
	writes int
}

func newRestarts(t *testing.T, way string) *restarts {
	t.Helper()
	room := t.TempDir()
	w := &restarts{torture: torture{T: t, mirror: filepath.Join(room, "mirror")}, dir: filepath.Join(room, "files")}
	for i := range 6 {
		w.write(fmt.Sprintf("old%d.txt", i), "changed.txt", fmt.Sprintf("kept%d.txt", i))
	}
	w.source = newTortured("serve", "serve", w.dir, "--state", filepath.Join(room, "state"))
	follow := newTortured("follow", "follow", w.source.base, w.mirror, "--channel", way)
	switch way {
	case "hub":
		hub := newTortured("hub", "hub", "--state", filepath.Join(room, "hub"), "--allow-private", "--publish-open", "--retry-first", "50ms")
		w.source.args = append(w.source.args, "--hub", hub.base)
		follow.args = append(follow.args, "--callback", follow.base)
		w.processes = append(w.processes, hub)
	case "events":
		w.source.args = append(w.source.args, "--hub", "off")
	case "poll":
		w.source.args = append(w.source.args, "--hub", "off")
		follow.args = append(follow.args, "--poll", "100ms")
	}
	w.processes = append(w.processes, w.source, follow)
	t.Cleanup(w.kill)
	w.start(w.processes...)
	w.settles("the first sync")
	return w
}

// write writes files, each with content it never had.
func (w *restarts) write(names ...string) {
	w.Helper()
	for _, name := range names {
		w.writes++
		path := filepath.Join(w.dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			w.Fatal(err)
		}
		if err := os.WriteFile(path, fmt.Appendf(nil, "%s %d\n", name, w.writes), 0o644); err != nil {
			w.Fatal(err)
		}
	}
}

// settles waits until the mirror holds what the Source does.
func (w *restarts) settles(what string) {
	w.Helper()
	want, err := contents(w.dir)
	if err != nil {
		w.Fatal(err)
	}
	diff := ""
	for deadline := time.Now().Add(readyLimit / 2); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		if diff = difference(readMirror(w.T, w.mirror), want); diff == "" {
			return
		}
	}
	follow := w.processes[len(w.processes)-1]
	status, _ := get(follow.base + "-/api/v1/follow")
	w.Fatalf("%s: the mirror differs:\n%s\n%s\nfollow said:\n%s", what, diff, status, follow.p.stderr)
}

// followedBy waits until the set is followed in that way: a hub may have to be
// asked again.
func (w *restarts) followedBy(way string) {
	w.Helper()
	follow, status := w.processes[len(w.processes)-1], ""
	for deadline := time.Now().Add(readyLimit); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		if status, _ = get(follow.base + "-/api/v1/follow"); strings.Contains(status, fmt.Sprintf("%q:%q", "channel", way)) {
			return
		}
	}
	w.Fatalf("not followed by %s: %s", way, status)
}

// permutations returns all orders of n things.
func permutations(n int) [][]int {
	if n == 0 {
		return [][]int{{}}
	}
	var all [][]int
	for _, p := range permutations(n - 1) {
		for i := range n {
			all = append(all, append(append(append([]int{}, p[:i]...), n-1), p[i:]...))
		}
	}
	return all
}
