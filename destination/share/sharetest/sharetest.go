// Package sharetest is the conformance suite of [share.Table].
package sharetest

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"lockstep/destination/share"
)

// Run tests a table. open returns a new one, without a coordinator.
func Run(t *testing.T, open func(*testing.T) share.Table) {
	t.Run("processes", func(t *testing.T) { processes(t, open(t)) })
	t.Run("messages", func(t *testing.T) { messages(t, open(t)) })
}

const lease = time.Minute

func processes(t *testing.T, table share.Table) {
	ctx := t.Context()
	renew := func(p share.Process, lease time.Duration) share.View {
		t.Helper()
		v, err := table.Renew(ctx, p, lease)
		if err != nil {
			t.Fatal(err)
		}
		for i := range v.Alive {
			for host, left := range v.Alive[i].Pauses {
				v.Alive[i].Pauses[host] = left.Round(time.Minute)
			}
		}
		return v
	}
	one := share.Process{ID: "1", Name: "the first \xff", Run: 3, Divisor: 2, Open: 7, Pauses: map[string]time.Duration{"example.org": time.Hour, "past.example.org": -1}}
	v := renew(one, lease)
	one.Pauses = map[string]time.Duration{"example.org": time.Hour}
	if diff := cmp.Diff([]share.Process{one}, v.Alive); diff != "" || v.Present {
		t.Errorf("one process: %s, coordinator %v", diff, v.Present)
	}
	two := share.Process{ID: "2", Divisor: 1, Pauses: map[string]time.Duration{}}
	v = renew(two, 50*time.Millisecond)
	if diff := cmp.Diff([]share.Process{one, two}, v.Alive); diff != "" {
		t.Errorf("two processes: %s", diff)
	}
	renew(share.Process{ID: "3"}, lease)
	renew(share.Process{ID: "3"}, time.Millisecond) // it may count on the longer one: the answer may get lost
	time.Sleep(100 * time.Millisecond)
	if v = renew(one, lease); len(v.Alive) != 2 || v.Alive[1].ID != "3" {
		t.Errorf("a lease was shortened: %v", v.Alive)
	}
	if err := table.Leave(ctx, "3"); err != nil {
		t.Fatal(err)
	}
	one.Run, one.Open = 4, 0
	v = renew(one, lease)
	if diff := cmp.Diff([]share.Process{one}, v.Alive); diff != "" {
		t.Errorf("after the end of a lease: %s", diff)
	}
	renew(two, lease) // late, but there
	for range 2 {
		if err := table.Leave(ctx, "1"); err != nil {
			t.Fatal(err)
		}
	}
	if v = renew(two, lease); len(v.Alive) != 1 {
		t.Errorf("after one has left: %v", v.Alive)
	}
}

func messages(t *testing.T, table share.Table) {
	ctx := t.Context()
	all := []share.Message{
		{To: "a", From: "c", Number: 1, Run: 1, Kind: share.ToFetch, Body: []byte("\x00\xff")},
		{To: "a", From: "c", Number: 2, Run: 2, Kind: share.ToCommit, Body: []byte("x")},
		{To: "b", From: "c", Number: 3, Run: 2, Kind: share.ToDrop, Body: []byte("y")},
		{To: "a", From: "d", Number: 1, Run: 2, Kind: share.Fetched, Body: []byte("z")},
		{To: "e", From: "d", Number: 2, Run: 3, Kind: share.ToFetch, Body: []byte("w")}, // of a successor
	}
	send := func(ms ...share.Message) {
		t.Helper()
		if err := table.Send(ctx, ms); err != nil {
			t.Fatal(err)
		}
	}
	receive := func(to string, received, want []share.Message) {
		t.Helper()
		got, err := table.Receive(ctx, to, received)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("messages to %s: %s", to, diff)
		}
	}
	send(all[3], all[1], all[0], all[4])
	send(all[2], all[0]) // once more
	send()
	forA := []share.Message{all[0], all[1], all[3]}
	receive("a", nil, forA)
	receive("a", nil, forA) // they may have got lost on the way
	receive("a", all[1:2], []share.Message{all[0], all[3]})
	receive("a", all[1:2], []share.Message{all[0], all[3]})
	if err := table.Clear(ctx, 2); err != nil {
		t.Fatal(err)
	}
	receive("a", nil, all[3:4])
	receive("b", nil, all[2:3])
	receive("e", nil, all[4:])
	receive("c", nil, nil)
}
