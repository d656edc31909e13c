package main

import (
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// tortureKills is what a release is tested with a larger number of.
var tortureKills = flag.Int("torture", 6, "how often TestTorture kills a Source, a hub, a Destination, or some of them at once")

// TestTorture kills serve, hub and follow at random moments while files change,
// and starts them again in any order. In the end the mirror is exact, and every
// notification that the hub accepted has come to another subscriber, who takes
// some at the second try only: at least once, and in order.
func TestTorture(t *testing.T) {
	t.Parallel()
	w := newTorture(t)
	stop := make(chan struct{})
	var busy sync.WaitGroup
	busy.Go(func() { w.files.change(3*time.Millisecond*time.Duration(1+*tortureKills/16), stop) })
	rest := sync.OnceFunc(func() { close(stop); busy.Wait() })
	defer rest()
	kills := 0
	for kills < *tortureKills {
		time.Sleep(time.Duration(rand.IntN(400)) * time.Millisecond)
		victims := slices.Clone(w.processes)
		rand.Shuffle(len(victims), func(i, j int) { victims[i], victims[j] = victims[j], victims[i] })
		victims = victims[:min(1+rand.IntN(2)*rand.IntN(3), *tortureKills-kills)] // mostly one
		for _, v := range victims {
			v.p.kill()
			kills++
		}
		time.Sleep(time.Duration(rand.IntN(100)) * time.Millisecond)
		rand.Shuffle(len(victims), func(i, j int) { victims[i], victims[j] = victims[j], victims[i] })
		w.start(victims...)
	}
	if rest(); t.Failed() {
		return
	}
	w.checkMirror()
	w.checkDelivered()
	hub, follow := w.processes[0], w.processes[2]
	w.end(follow)
	// What a kill has left is removed by the next run that completes: follow may have been ended before.
	if out, err := exec.Command("lockstep", "sync", w.source.base, w.mirror, "--max-delete", "100").CombinedOutput(); err != nil {
		t.Errorf("sync after follow: %v\n%s", err, out)
	}
	checkNoLitter(t, w.mirror)
	w.checkMirror()
	w.end(hub)
	w.end(w.source)
	if out, err := exec.Command("lockstep", "sync", w.source.base, w.mirror).CombinedOutput(); err == nil {
		t.Errorf("the Source has ended, yet: %s", out)
	}
	t.Logf("%d changes, %d notifications accepted, %d deliveries", w.files.count, len(w.gate.accepted), w.witness.count())
}

// A torture is what TestTorture tortures.
type torture struct {
	*testing.T
	files     *restlessFiles
	gate      *hubGate
	witness   *witness
	mirror    string
	source    *tortured
	processes []*tortured
}

// A tortured is a process that is killed and started again, at one address.
type tortured struct {
	name string
	base string
	args []string
	p    *process
}

func newTorture(t *testing.T) *torture {
	t.Helper()
	room := t.TempDir()
	w := &torture{T: t, files: newRestlessFiles(t, 200), mirror: filepath.Join(room, "mirror")}
	hub := newTortured("hub", "hub", "--state", filepath.Join(room, "hub"), "--allow-private", "--publish-open", "--retry-first", "50ms")
	w.gate = newHubGate(t, hub)
	hub.args = append(hub.args, "--public-url", w.gate.URL+"/")
	w.source = newTortured("serve", "serve", w.files.dir, "--state", filepath.Join(room, "state"), "--hub", w.gate.URL+"/")
	follow := newTortured("follow", "follow", w.source.base, w.mirror, "--max-delete", "100")
	follow.args = append(follow.args, "--callback", follow.base)
	w.processes = []*tortured{hub, w.source, follow}
	t.Cleanup(w.kill)
	w.start(w.processes...)
	w.witness = newWitness(t)
	w.witness.subscribe(w.gate.URL+"/", w.source.base+"resourcesync/main/changes")
	for deadline := time.Now().Add(readyLimit); ; time.Sleep(20 * time.Millisecond) {
		status, err := get(hub.p.address + "-/api/v1/hub/subscriptions")
		if strings.Contains(status, w.witness.server.URL) {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("the hub has not recorded the subscription: %v, %s", err, status)
		}
	}
	w.gate.mu.Lock()
	w.gate.accepted = nil // what came before is not for who subscribes now
	w.gate.mu.Unlock()
	return w
}

// newTortured returns a process that will listen at an address of its own: one
// of the many of this machine itself, so that nobody takes it while it is down.
func newTortured(name string, args ...string) *tortured {
	address := fmt.Sprintf("127.%d.%d.%d:%d", 1+rand.IntN(250), rand.IntN(250), 1+rand.IntN(250), 20_000+rand.IntN(10_000))
	return &tortured{name: name, base: "http://" + address + "/", args: append(args, "--listen", address)}
}

// start starts processes, each as soon as the one before is under way, and
// waits until all are ready.
func (w *torture) start(victims ...*tortured) {
	w.Helper()
	var all sync.WaitGroup
	for _, v := range victims {
		all.Go(func() {
			p, err := startReady(exec.Command("lockstep", v.args...))
			if v.p = p; err != nil {
				w.Error(err)
			}
		})
		time.Sleep(time.Duration(rand.IntN(20)) * time.Millisecond)
	}
	if all.Wait(); w.Failed() {
		w.FailNow()
	}
}

// end ends a process, which is expected to succeed.
func (w *torture) end(v *tortured) {
	w.Helper()
	if code, err := v.p.end(syscall.SIGTERM); err != nil || code != exitOK {
		w.Errorf("%s ended with %d, %v\n%s", v.name, code, err, v.p.stderr)
	}
}

// kill kills what runs.
func (w *torture) kill() {
	for _, v := range w.processes {
		if v.p != nil {
			v.p.kill()
		}
	}
}

// checkMirror waits until the mirror holds what the Source does, byte by byte: at the
// latest after the attempt that follows a failed one, more than a minute later.
func (w *torture) checkMirror() {
	w.Helper()
	w.files.mu.Lock()
	want := maps.Clone(w.files.now)
	w.files.mu.Unlock()
	maps.DeleteFunc(want, func(_, digest string) bool { return digest == "" })
	diff := ""
	for deadline := time.Now().Add(3 * readyLimit); ; time.Sleep(20 * time.Millisecond) {
		got := map[string]string{}
		for name, text := range readMirror(w.T, w.mirror) {
			got[name] = digest(text)
		}
		if diff = difference(got, want); diff == "" {
			return
		}
		if time.Now().After(deadline) {
			break
		}
	}
	status, _ := get(w.processes[2].base + "-/api/v1/follow")
	w.Fatalf("the mirror differs:\n%s\n%s\nfollow said:\n%s", diff, status, w.processes[2].p.stderr)
}

// checkDelivered waits until what the hub has accepted was delivered.
func (w *torture) checkDelivered() {
	w.Helper()
	w.gate.mu.Lock()
	accepted := slices.Clone(w.gate.accepted)
	w.gate.mu.Unlock()
	if len(accepted) == 0 {
		w.Fatal("the hub has accepted nothing")
	}
	missing := 0
	for deadline := time.Now().Add(readyLimit); ; time.Sleep(20 * time.Millisecond) {
		if missing = w.witness.missing(accepted); missing == 0 {
			break
		}
		if time.Now().After(deadline) {
			status, _ := get(w.processes[0].p.address + "-/api/v1/hub/subscriptions")
			w.Fatalf("%d of %d notifications were never delivered, of %d deliveries\n%s\nthe hub said:\n%s", missing, len(accepted), w.witness.count(), status, w.processes[0].p.stderr)
		}
	}
	if before, after, ok := w.witness.inOrder(accepted); !ok {
		w.Errorf("delivered out of order:\n%s\ncame after\n%s", before, after)
	}
}

// A hubGate stands before a hub and notes what it accepts.
type hubGate struct {
	*gateServer
	mu       sync.Mutex // guards accepted
	accepted []string   // bodies, in order
}

func newHubGate(t *testing.T, hub *tortured) *hubGate {
	t.Helper()
	g := &hubGate{}
	g.gateServer = newGateServer(t, hub.base, func(r *http.Request, body string, status int) {
		form := strings.HasPrefix(r.Header.Get("Content-Type"), "application/x-www-form-urlencoded")
		if r.Method == http.MethodPost && !form && status/100 == 2 {
			g.mu.Lock()
			defer g.mu.Unlock()
			g.accepted = append(g.accepted, body)
		}
	})
	return g
}
