package mementotest

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os/exec"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"lockstep/memento"
)

// RunReopen tests that a persistent store has the same content after it was
// closed and opened again. open returns the same store each time, at first
// empty; shut closes what open returned last.
func RunReopen(t *testing.T, open func() memento.Store, shut func()) {
	type state struct {
		Walk   []memento.Version
		Last   []memento.Version
		Around memento.Around
		Cursor int64
	}
	read := func(s memento.Store) state {
		c, err := s.Cursor(t.Context(), setA)
		if err != nil {
			t.Fatal(err)
		}
		return state{walk(t, s, setA, ""), last(t, s, setA, uri, "other"), around(t, s, uri, at(20*seconds)), c}
	}
	want := state{Last: make([]memento.Version, 2)}
	steps := []func(memento.Store){
		func(s memento.Store) { appendTo(t, s, setA, life[:3]...) },
		func(s memento.Store) { appendTo(t, s, setB, life[3]) },
		func(s memento.Store) {
			if err := s.Append(t.Context(), setA, 7, []memento.Version{version("other", 1)}); err != nil {
				t.Fatal(err)
			}
		},
		func(s memento.Store) { drop(t, s, setA, life[0], version("other", 1)) },
	}
	for i, step := range append(steps, func(memento.Store) {}) {
		s := open()
		if diff := cmp.Diff(want, read(s)); diff != "" {
			t.Errorf("opened the %d. time (-want +got):\n%s", i+1, diff)
		}
		step(s)
		want = read(s)
		shut()
	}
	if a := want.Around; a.Dropped != life[0].At || a.Selected != life[1] || a.Next != life[3] || want.Cursor != 7 {
		t.Errorf("in the end there is %+v", want)
	}
}

// killURIs get one version each in every Append of a [Victim].
var killURIs = []string{"https://example.org/1", "https://example.org/2", "https://example.org/3"}

// killKeep is how many versions of each URI a Victim keeps.
const killKeep = 5

// Victim writes to s until it is killed, and reports completed writes on w. It
// returns the error that stopped it.
func Victim(ctx context.Context, s memento.Store, w io.Writer) error {
	cursor, err := s.Cursor(ctx, setA)
	if err != nil {
		return err
	}
	for {
		cursor++
		var vs []memento.Version
		for _, uri := range killURIs {
			vs = append(vs, version(uri, cursor))
		}
		if err := s.Append(ctx, setA, cursor, vs); err != nil {
			return err
		}
		fmt.Fprintln(w, cursor)
		if cursor%8 == 0 {
			p := memento.Policy{Count: killKeep, FloorSeq: cursor + 1}
			if _, err := memento.Retain(ctx, s, setA, p, time.Now()); err != nil {
				return err
			}
		}
	}
}

// RunKill starts the command, which runs a [Victim] on a store, and kills it,
// repeatedly. Every reported write must be in the store, and none partially.
// Open opens the store, shut closes it.
func RunKill(t *testing.T, rounds int, command func() *exec.Cmd, open func() memento.Store, shut func()) {
	for range rounds {
		said := kill(t, command())
		s := open()
		cursor, err := s.Cursor(t.Context(), setA)
		if err != nil {
			t.Fatal(err)
		}
		if cursor < said {
			t.Errorf("the cursor is %d after %d was reported", cursor, said)
		}
		lives := make(map[string][]memento.Version)
		for _, v := range walk(t, s, setA, "") {
			lives[v.URI] = append(lives[v.URI], v)
		}
		for _, uri := range killURIs {
			vs := lives[uri]
			if len(vs) < min(killKeep, int(cursor)) {
				t.Fatalf("%s has %d versions after change %d", uri, len(vs), cursor)
			}
			for i, v := range vs {
				if n := cursor - int64(len(vs)-1-i); v != version(uri, n) {
					t.Errorf("version %d of %s is %+v", n, uri, v)
				}
			}
			if !slices.Equal(list(t, s, uri), vs) {
				t.Errorf("List of %s is not what Walk says", uri)
			}
		}
		shut()
	}
}

// kill runs a Victim and kills it. It returns the last write that the Victim
// reported.
func kill(t *testing.T, cmd *exec.Cmd) (cursor int64) {
	t.Helper()
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if cursor == 0 { // it has begun
			time.AfterFunc(rand.N(40*time.Millisecond), func() { _ = cmd.Process.Kill() }) // it may have exited by itself
		}
		if _, err := fmt.Sscan(lines.Text(), &cursor); err != nil {
			t.Errorf("victim: %s", lines.Text())
			break
		}
	}
	if err := cmd.Wait(); err == nil || cursor == 0 {
		t.Fatalf("victim ended by itself after %d: %v", cursor, err)
	}
	return cursor
}
