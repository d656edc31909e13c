package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"lockstep/destination/filename"
)

var (
	convergeSteps   = flag.Int("converge-steps", 80, "how many steps TestConverge takes")
	convergeRestore = flag.Bool("converge-restore", true, "restore older states of the Source too")
	convergeSeed    = flag.Uint64("converge-seed", 0, "the steps TestConverge takes; 0 for others each time")
)

// TestConverge lets a directory live any life under a Source that is killed,
// started again, and once in a while robbed of all it knew, with a mirror
// brought up to date now and then by runs of which some are killed: once all is
// quiet, one run more and the mirror is the directory.
func TestConverge(t *testing.T) {
	t.Parallel()
	testConverge(t, &savedDir{dir: filepath.Join(t.TempDir(), "state"), backup: filepath.Join(t.TempDir(), "backup")})
}

// TestConvergeDatabase does the same with the state of the Source in PostgreSQL.
func TestConvergeDatabase(t *testing.T) {
	t.Parallel()
	testConverge(t, newSavedDatabase(t))
}

func testConverge(t *testing.T, state savedState) {
	seed := *convergeSeed
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("-converge-seed %d", seed)
	l := newLife(t, seed, state)
	for l.step = range *convergeSteps {
		l.live()
		if t.Failed() {
			return
		}
	}
	l.settle()
	t.Logf("%d runs came to their end, %d were killed; the Source was killed %d times, lost its state %d times, had it restored %d times",
		l.done, l.killed, l.deaths, l.losses, l.restores)
}

// A life is a directory, its Source and its mirror.
type life struct {
	testing.TB
	*rand.Rand
	dir, mirror string
	src         *livingSource
	state       savedState
	step        int

	done, killed, deaths, losses, restores int
}

func newLife(t *testing.T, seed uint64, state savedState) *life {
	t.Helper()
	l := &life{TB: t, Rand: rand.New(rand.NewPCG(seed, 0)), dir: t.TempDir(), mirror: filepath.Join(t.TempDir(), "mirror"), state: state}
	l.must(os.WriteFile(filepath.Join(l.dir, "stays"), []byte("so that the directory is never empty"), 0o644))
	for range 10 {
		l.change()
	}
	l.src = newLivingSource(t, l.dir, state.place())
	return l
}

func (l *life) must(err error) {
	l.Helper()
	if err != nil {
		l.Fatalf("step %d: %v", l.step, err)
	}
}

// live takes one step.
func (l *life) live() {
	switch n := l.IntN(100); {
	case n < 60:
		for range 1 + l.IntN(8) {
			l.change()
		}
	case n < 72:
		time.Sleep(time.Duration(l.IntN(400)) * time.Millisecond) // time to publish
	case n < 82:
		l.sync(time.Minute)
	case n < 90:
		l.sync(time.Duration(l.IntN(120)) * time.Millisecond)
	case l.src.p == nil:
		l.src.start()
	case n < 97:
		l.deaths++
		l.src.kill()
		if l.IntN(3) == 0 {
			l.must(l.state.save())
		}
	default:
		l.src.kill()
		if *convergeRestore && l.IntN(2) == 0 && l.state.isSaved() {
			l.restores++
			l.must(l.state.restore())
		} else {
			l.losses++
			l.must(l.state.lose(l.Rand))
		}
		l.src.start()
	}
}

// sync runs a sync, which may be over or killed after d. While the directory
// changes, some files may not be what was published a moment before.
func (l *life) sync(d time.Duration) {
	l.Helper()
	code, out := l.run(d, "sync", "--max-delete", "100", "--retries", "0")
	switch {
	case code < 0:
		l.killed++
	case code == exitOK || code == exitFailed:
		l.done++
	case l.wentBack(code, out):
		// Told, and for people to decide; nothing may be lost by it.
	default:
		l.Fatalf("step %d: sync ended with %d\n%s", l.step, code, out)
	}
}

// wentBack reports whether a sync was refused because the Source had its state
// restored and, in what it tells, went back in time.
func (l *life) wentBack(code int, out string) bool {
	return code == exitRefused && l.restores > 0 && strings.Contains(out, "went back in time")
}

// run runs the program on Source and mirror; the code is -1 if it was killed
// because it took longer than d.
func (l *life) run(d time.Duration, args ...string) (code int, out string) {
	l.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), d)
	defer cancel()
	cmd := exec.CommandContext(ctx, "lockstep", append(args, l.src.base, l.mirror)...)
	var b bytes.Buffer
	cmd.Stdout, cmd.Stderr = &b, &b
	code, err := exitCodeOf(cmd.Run())
	if err != nil && ctx.Err() == nil {
		l.Fatalf("step %d: %s: %v", l.step, args[0], err)
	}
	if err != nil {
		code = -1
	}
	if strings.Contains(b.String(), "goroutine ") {
		l.Fatalf("step %d: %s:\n%s", l.step, args[0], &b)
	}
	return code, b.String()
}

// settle waits until everything is published, brings the mirror into step and
// compares.
func (l *life) settle() {
	l.Helper()
	if l.src.p == nil {
		l.src.start()
	}
	want, err := contents(l.dir)
	l.must(err)
	digests := make(map[string]string, len(want))
	for name, text := range want {
		digests[name] = digest(text)
	}
	l.published(digests)
	code, out := l.run(time.Minute, "sync", "--max-delete", "100")
	if l.wentBack(code, out) {
		code, out = l.run(time.Minute, "sync", "--max-delete", "100", "--baseline") // as the hint says
	}
	if code != exitOK {
		l.Fatalf("the last sync ended with %d\n%s", code, out)
	}
	if diff := difference(l.mirrored(), want); diff != "" {
		l.Errorf("the mirror differs:\n%s", diff)
	}
	if code, out := l.run(time.Minute, "audit", "--content"); code != exitOK {
		l.Errorf("audit ended with %d\n%s", code, out)
	}
	if code, out := l.run(time.Minute, "sync", "--json"); code != exitOK || !strings.Contains(out, `"mode":"none"`) {
		l.Errorf("one sync more ended with %d\n%s", code, out)
	}
	checkEmpty(l, filepath.Join(l.mirror, ".lockstep", "tmp"))
	unfinished := filepath.Join(stateDir(l, l.src.state), "documents", ".lockstep", "tmp")
	for range 100 { // the Source is running, and may be writing something now
		if left, err := os.ReadDir(unfinished); err == nil && len(left) == 0 || os.IsNotExist(err) {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
	checkEmpty(l, unfinished)
}

// published waits until the Source says of its files what they are.
func (l *life) published(want map[string]string) {
	l.Helper()
	for deadline := time.Now().Add(readyLimit); ; time.Sleep(50 * time.Millisecond) {
		c, err := crawlSource(l.src.base)
		l.must(err)
		got := make(map[string]string, len(c.state))
		for uri, digest := range c.state {
			got[rel(c.base, uri)] = digest
		}
		diff := difference(got, want)
		if diff == "" {
			return
		}
		if time.Now().After(deadline) {
			l.Fatalf("never published as it is:\n%s", diff)
		}
	}
}

// mirrored returns the files of the mirror by their names in the directory.
func (l *life) mirrored() map[string]string {
	l.Helper()
	files, err := contents(l.mirror)
	l.must(err)
	paths, err := filename.New(filename.Options{Origin: strings.TrimSuffix(l.src.base, "/")})
	l.must(err)
	named := make(map[string]string, len(files))
	for path, text := range files {
		uri, err := paths.URI(filepath.ToSlash(path))
		l.must(err)
		named[rel(l.src.base, uri)] = text
	}
	return named
}

// oddNames are what else a file may be called. Some are in each other's way.
var oddNames = []string{
	"with blank", "per%cent", "per%41cent", "q?a=b&c", "hash#1", "ünïcode", "e\u0301", "é", "new\nline", "%~", "%~.", "a%~+",
	"inv\xff\xfealid", ".hidden", "..two", "CON", "a;b,c", "_other/x", "resourcesync.xml", "d/.lockstep-not", strings.Repeat("long", 63),
	"swap", "swap/a", "swap/a/b", "swap/c", "Swap", "index.html", "d/index.html",
}

// name draws the name of a file.
func (l *life) name() string {
	if l.IntN(3) == 0 {
		return oddNames[l.IntN(len(oddNames))]
	}
	return fmt.Sprintf("d%d/%c", l.IntN(4), 'a'+rune(l.IntN(12)))
}

// change changes something about the directory.
func (l *life) change() {
	l.Helper()
	name, other := l.name(), l.name()
	path, to := filepath.Join(l.dir, name), filepath.Join(l.dir, other)
	info, err := os.Stat(path)
	isFile := isRegular(path)
	switch n := l.IntN(20); {
	case n < 4 && isFile: // same size, and the time of old
		text := bytes.Repeat([]byte{byte('a' + l.IntN(26))}, int(info.Size()))
		l.must(os.WriteFile(path, text, 0o644))
		l.must(os.Chtimes(path, time.Time{}, info.ModTime()))
	case n < 7 && err == nil:
		l.must(os.RemoveAll(path))
	case n < 10 && isFile && name != other:
		if l.room(other); isRegular(path) { // unless it stood in the way
			l.must(os.Rename(path, to))
		}
	case n < 11 && isFile && name != other:
		if l.room(other); isRegular(path) && !isRegular(to) {
			l.must(os.Link(path, to))
		}
	case n < 12:
		from, to := filepath.Join(l.dir, filepath.Dir(name)), filepath.Join(l.dir, fmt.Sprintf("d%d", l.IntN(6)))
		if _, err := os.Stat(to); from != l.dir && errors.Is(err, os.ErrNotExist) {
			_ = os.Rename(from, to) // there may be no such directory
		}
	default:
		l.room(name)
		text := fmt.Appendf(nil, "%d %d %s", l.step, l.Uint64(), strings.Repeat("x", l.IntN(5000)))
		l.must(os.WriteFile(path, text, 0o644))
	}
}

func isRegular(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

// room makes room for a file: directories above it, and nothing in its place.
func (l *life) room(name string) {
	l.Helper()
	for dir := filepath.Dir(name); dir != "."; dir = filepath.Dir(dir) {
		if info, err := os.Lstat(filepath.Join(l.dir, dir)); err == nil && !info.IsDir() {
			l.must(os.Remove(filepath.Join(l.dir, dir)))
		}
	}
	path := filepath.Join(l.dir, name)
	l.must(os.MkdirAll(filepath.Dir(path), 0o755))
	if info, err := os.Lstat(path); err == nil && (info.IsDir() || l.IntN(2) == 0) {
		l.must(os.RemoveAll(path))
	}
}
