//go:build linux

package bench

import (
	"bufio"
	"bytes"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/fsnotify/fsnotify"
)

var (
	followRate        = flag.Float64("follow.rate", 14, "files written a second")
	followSeconds     = flag.Int("follow.seconds", 60, "for how long")
	followWay         = flag.String("follow.way", "hub", "how changes reach the mirror: hub, events, or poll (ten times a second)")
	followFiles       = flag.Int("follow.files", 0, "files of the Source; 0: ten seconds' worth, at least 500")
	followSize        = flag.Int("follow.size", 2048, "bytes of a file")
	followStages      = flag.Bool("follow.stages", true, "measure at the Source's events and at the hub's deliveries, too, which costs them something")
	followAggregators = flag.Int("follow.aggregators", 0, "Aggregators between the Source and the mirror, one after the other")
	followProgram     = flag.String("follow.program", "", "a lockstep that is built already")
)

// BenchmarkFollow measures the time from writing a file at the Source until its
// verified bytes have their name at the Destination: serve, hub and follow are
// separate processes. The files are written in place, like most programs do;
// the benchmark compares the content of the mirror whenever a name changes. No
// backlog may grow: the figures of the last ten seconds are reported next to
// those of the first.
func BenchmarkFollow(b *testing.B) {
	program := *followProgram
	if program == "" {
		program = filepath.Join(b.TempDir(), "lockstep")
		if out, err := exec.Command("go", "build", "-o", program, "lockstep/cmd/lockstep").CombinedOutput(); err != nil {
			b.Fatalf("%v: %s", err, out)
		}
	}
	for b.Loop() {
		w := newFollowWorld(b)
		w.start(program)
		w.watch()
		w.write()
		w.settle()
		w.report()
	}
}

// A followWorld is what BenchmarkFollow measures.
type followWorld struct {
	*testing.B
	dir       string
	names     []string
	processes []*benchProcess
	stages    []*followStage // what the writes pass, one after the other; the last is the mirror

	mu      sync.Mutex // guards what follows
	version []int      // by file: last written
	writes  []followWrite
	ofFile  [][]int // by file: its writes, in order
	begin   time.Time
}

// A followWrite is one file written.
type followWrite struct {
	file, version int
	at            time.Time
}

// A followStage is a place that changes pass.
type followStage struct {
	name    string
	passed  []int           // by file: how many of its writes have come by
	latency map[int]float64 // by write: milliseconds
}

func newFollowWorld(b *testing.B) *followWorld {
	n := *followFiles
	if n == 0 {
		n = max(500, int(*followRate*10))
	}
	w := &followWorld{B: b, dir: benchDir(b, "lockstep-follow-"), version: make([]int, n), ofFile: make([][]int, n)}
	for i := range n {
		w.names = append(w.names, fmt.Sprintf("d%02d/file %05d.txt", i%20, i))
		path := w.source(i)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			b.Fatal(err)
		}
		if err := os.WriteFile(path, followContent(i, 0), 0o644); err != nil {
			b.Fatal(err)
		}
	}
	return w
}

func (w *followWorld) source(i int) string { return filepath.Join(w.dir, "files", w.names[i]) }
func (w *followWorld) mirror(i int) string { return filepath.Join(w.dir, "mirror", w.names[i]) }

// followContent is the content of a version of a file, no two alike.
func followContent(file, version int) []byte {
	line := fmt.Appendf(nil, "%d %d\n", file, version)
	return bytes.Repeat(line, *followSize/len(line)+1)[:max(*followSize, len(line))]
}

// followVersion returns which version of which file a content is of; ok only
// if each byte of it is right.
func followVersion(content []byte) (file, version int, ok bool) {
	line, _, _ := bytes.Cut(content, []byte("\n"))
	if _, err := fmt.Sscanf(string(line), "%d %d", &file, &version); err != nil {
		return 0, 0, false
	}
	return file, version, bytes.Equal(content, followContent(file, version))
}

// start starts the processes, and waits until the mirror is in step.
func (w *followWorld) start(program string) {
	w.Helper()
	hub, channel := "off", []string{"--channel", *followWay}
	switch *followWay {
	case "hub":
		hub = w.run("hub", program, "hub", "--listen", "127.0.0.1:0", "--state", filepath.Join(w.dir, "hub"), "--allow-private", "--publish-open")
		channel = append(channel, "--callback", "http://127.0.0.1:0/")
	case "poll":
		channel = append(channel, "--poll", "100ms")
	}
	base := w.run("serve", program, "serve", "-q", filepath.Join(w.dir, "files"), "--listen", "127.0.0.1:0", "--state", filepath.Join(w.dir, "state"), "--hub", hub)
	origin := base
	for i := range *followAggregators {
		base = w.run(fmt.Sprint("aggregator", i+1), program, "serve", "-q", "resourcesync:"+base, "--listen", "127.0.0.1:0", "--state", filepath.Join(w.dir, fmt.Sprint("aggregator", i)), "--hub", hub)
	}
	w.run("follow", program, append([]string{"follow", "-q", base, filepath.Join(w.dir, "mirror")}, channel...)...)
	if *followStages && *followWay != "poll" {
		w.listenEvents(origin)
		if *followWay == "hub" {
			w.listenHub(hub, origin)
		}
	}
}

// run starts a process and returns the address it says it is ready at.
func (w *followWorld) run(name, program string, args ...string) string {
	w.Helper()
	p := &benchProcess{name: name, cmd: exec.Command(program, args...)}
	p.cmd.Stderr = os.Stderr
	out, err := p.cmd.StdoutPipe()
	if err == nil {
		err = p.cmd.Start()
	}
	if err != nil {
		w.Fatal(err)
	}
	w.Cleanup(func() {
		_ = p.cmd.Process.Signal(syscall.SIGTERM)
		_ = p.cmd.Wait() // says that it was interrupted
	})
	w.processes = append(w.processes, p)
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if address, ok := strings.CutPrefix(lines.Text(), "ready: "); ok {
			go func() {
				for lines.Scan() { // so that it is never held up
				}
			}()
			return address
		}
	}
	w.Fatalf("%s is not ready", name)
	return ""
}

// A benchProcess is one that runs beside the others.
type benchProcess struct {
	name  string
	cmd   *exec.Cmd
	spent time.Duration // of processor time, when the writing began
}

// processor returns the processor time the process has used.
func (p *benchProcess) processor(tb testing.TB) time.Duration {
	tb.Helper()
	return processorTimeOf(tb, p.cmd.Process.Pid)
}

// stage adds a place that changes pass.
func (w *followWorld) stage(name string) *followStage {
	s := &followStage{name: name, passed: make([]int, len(w.names)), latency: map[int]float64{}}
	w.stages = append(w.stages, s)
	return s
}

// pass books that the version of a file has come by, and with it the ones
// before; a negative one is the last there is.
func (w *followWorld) pass(s *followStage, file, version int) {
	now := time.Now()
	w.mu.Lock()
	defer w.mu.Unlock()
	for s.passed[file] < len(w.ofFile[file]) {
		i := w.ofFile[file][s.passed[file]]
		if version >= 0 && w.writes[i].version > version {
			return
		}
		s.latency[i] = float64(now.Sub(w.writes[i].at)) / 1e6
		s.passed[file]++
	}
}

// watch compares the content of a file in the mirror whenever its name is
// created or replaced.
func (w *followWorld) watch() {
	w.Helper()
	mirror := w.stage("mirror")
	watcher, err := fsnotify.NewBufferedWatcher(1 << 16)
	for i := 0; i < 20 && err == nil; i++ {
		err = watcher.Add(filepath.Join(w.dir, "mirror", fmt.Sprintf("d%02d", i)))
	}
	if err != nil {
		w.Fatal(err)
	}
	w.Cleanup(func() { _ = watcher.Close() })
	go func() {
		for e := range watcher.Events {
			if !e.Has(fsnotify.Create) {
				continue
			}
			content, err := os.ReadFile(e.Name)
			if err != nil {
				continue // already replaced
			}
			file, version, ok := followVersion(content)
			if !ok || w.mirror(file) != e.Name {
				w.Errorf("%s is wrong: %.40q", e.Name, content)
				continue
			}
			w.pass(mirror, file, version)
		}
	}()
}

// write writes files at the agreed pace.
func (w *followWorld) write() {
	w.Helper()
	for _, p := range w.processes {
		p.spent = p.processor(w)
	}
	w.begin = time.Now()
	n := int(*followRate * float64(*followSeconds))
	for i := range n {
		time.Sleep(time.Until(w.begin.Add(time.Duration(float64(i) / *followRate * 1e9))))
		file := rand.IntN(len(w.names))
		w.mu.Lock()
		w.version[file]++
		version := w.version[file]
		w.ofFile[file] = append(w.ofFile[file], len(w.writes))
		w.writes = append(w.writes, followWrite{file, version, time.Now()})
		w.mu.Unlock()
		if err := os.WriteFile(w.source(file), followContent(file, version), 0o644); err != nil {
			w.Fatal(err)
		}
	}
}

// settle waits until the mirror is in step, and compares all of it.
func (w *followWorld) settle() {
	w.Helper()
	last := time.Now()
	mirror := w.stages[len(w.stages)-1]
	for {
		w.mu.Lock()
		left := len(w.writes) - len(mirror.latency)
		w.mu.Unlock()
		if left == 0 {
			break
		}
		if time.Since(last) > time.Minute {
			w.Errorf("%d writes have not reached the mirror", left)
			break
		}
		time.Sleep(time.Millisecond)
	}
	w.ReportMetric(time.Since(last).Seconds()*1000, "ms-to-in-step")
	for i := range w.names {
		content, err := os.ReadFile(w.mirror(i))
		if err != nil || !bytes.Equal(content, followContent(i, w.version[i])) {
			w.Errorf("%s differs at the end: %v", w.names[i], err)
		}
	}
}

// report reports the figures.
func (w *followWorld) report() {
	w.Helper()
	took := time.Since(w.begin).Seconds()
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, s := range w.stages {
		all, first, lastTen := []float64{}, []float64{}, []float64{}
		for i, write := range w.writes {
			ms, ok := s.latency[i]
			if !ok {
				continue
			}
			all = append(all, ms)
			if at := write.at.Sub(w.begin).Seconds(); at < 10 {
				first = append(first, ms)
			} else if at >= float64(*followSeconds)-10 {
				lastTen = append(lastTen, ms)
			}
		}
		for _, part := range []struct {
			name string
			ms   []float64
		}{{"", all}, {"-first-10s", first}, {"-last-10s", lastTen}} {
			if slices.Sort(part.ms); len(part.ms) > 0 {
				w.Logf("%-8s%-10s  p50 %6.1f ms  p90 %6.1f ms  p99 %6.1f ms  most %6.1f ms  of %d", s.name, part.name,
					quantile(part.ms, 0.5), quantile(part.ms, 0.9), quantile(part.ms, 0.99), part.ms[len(part.ms)-1], len(part.ms))
			}
		}
		if s.name == "mirror" && len(all) > 0 {
			w.ReportMetric(quantile(all, 0.5), "p50-ms")
			w.ReportMetric(quantile(all, 0.99), "p99-ms")
			w.ReportMetric(all[len(all)-1], "most-ms")
			if len(first) > 0 && len(lastTen) > 0 {
				w.ReportMetric(quantile(first, 0.5), "p50-first-10s-ms")
				w.ReportMetric(quantile(lastTen, 0.5), "p50-last-10s-ms")
			}
		}
	}
	for _, p := range w.processes {
		w.ReportMetric((p.processor(w)-p.spent).Seconds()/took*100, p.name+"-%-of-a-core")
	}
	w.ReportMetric(0, "ns/op")
}
