package planner

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	"lockstep/destination/internal/desired"
	"lockstep/destination/internal/plan"
	"lockstep/destination/internal/selection"
	"lockstep/destination/internal/stage"
	"lockstep/destination/journal"
	"lockstep/resourcesync"
)

// TestJoin plans for random desired states and random rows, and compares the result
// with one computed row by row.
func TestJoin(t *testing.T) {
	t.Parallel()
	for seed := range uint64(12) {
		r := rand.New(rand.NewPCG(seed, 1))
		j := &journal.Mem{}
		sizes := []int{0, 1, 50, 5000}
		n, all := 1+sizes[r.IntN(len(sizes))], r.IntN(2) == 0
		uri := func() string { return fmt.Sprintf("http://a/%05d", r.IntN(2*n)) }
		p := &Planner{Journal: j, Selects: &selection.Selection{}, Set: 1, Prune: all}
		s := stage.New(j)
		s.Sorter.Memory, s.Sorter.Merge = 3000, 4
		wants, held := map[string]desired.Resource{}, map[string]journal.Held{}
		s.AddDocument()
		for i := range sizes[r.IntN(len(sizes))] {
			w := desired.Resource{URI: uri(), Length: int64(r.IntN(3)), Lastmod: resourcesync.NewDatetime(time.Unix(int64(1e9+r.IntN(3)), 0)), Rank: desired.Rank{Class: desired.Listed, Pos: int64(i)}}
			if was, ok := wants[w.URI]; !ok || was.Lastmod.Compare(w.Lastmod) <= 0 {
				wants[w.URI] = w
			}
			if err := s.Add(t.Context(), w); err != nil {
				t.Fatal(err)
			}
		}
		for range sizes[r.IntN(len(sizes))] {
			h := journal.Held{URI: uri(), Path: "p", Length: int64(r.IntN(3)), Lastmod: time.Unix(int64(1e9+r.IntN(3)), 0).UTC(), Sets: []int{1 + r.IntN(2)},
				Hashes: resourcesync.Hashes{{Algorithm: resourcesync.MD5, Digest: "0123456789abcdef"}}}
			held[h.URI] = h
		}
		b := journal.Batch{}
		for _, h := range held {
			b.Put = append(b.Put, h)
		}
		if err := j.Record(t.Context(), b); err != nil {
			t.Fatal(err)
		}
		compareJoin(t, p, s, wants, held)
		if err := s.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}
}

func compareJoin(t *testing.T, p *Planner, s *stage.Stage, wants map[string]desired.Resource, held map[string]journal.Held) {
	t.Helper()
	var uris []string
	for uri := range wants {
		uris = append(uris, uri)
	}
	for uri := range held {
		if _, both := wants[uri]; p.Prune && !both {
			uris = append(uris, uri)
		}
	}
	slices.Sort(uris)
	var sum Tally
	i := 0
	for a, err := range p.Actions(t.Context(), s) {
		if err != nil || i == len(uris) || a.URI != uris[i] {
			t.Fatalf("action %d: %v %v", i, a.URI, err)
		}
		var w *desired.Resource
		if said, ok := wants[a.URI]; ok {
			w = &said
		}
		want, _ := p.Decide(t.Context(), w, held[a.URI])
		if a.Verb != want.Verb || a.Pos != want.Pos || a.Held.URI != want.Held.URI || a.Conditional != want.Conditional {
			t.Errorf("%s: %+v, want %+v", a.URI, a, want)
		}
		sum.add(&a)
		i++
	}
	if i != len(uris) {
		t.Errorf("%d actions, want %d", i, len(uris))
	}
	last, seen := "", int64(0)
	got, err := p.Count(t.Context(), s, func(a *plan.Action) {
		if a.URI <= last || a.Verb == plan.InStep {
			t.Errorf("counted %s after %s, verb %d", a.URI, last, a.Verb)
		}
		last = a.URI
		seen++
	})
	if err != nil || !reflect.DeepEqual(got, sum) || seen != sum.Todo() {
		t.Errorf("count: %+v, %v, %d seen, want %+v", got, err, seen, sum)
	}
}

// brokenJournal fails to read its records.
type brokenJournal struct{ journal.Mem }

var errBroken = errors.New("broken")

func (j *brokenJournal) Lookup(context.Context, []string) ([]journal.Held, error) {
	return nil, errBroken
}

// TestJoinEnds ends a plan halfway: by its reader, its context, and an error of its
// Journal.
func TestJoinEnds(t *testing.T) {
	t.Parallel()
	fill := func(j journal.Journal) (*Planner, *stage.Stage) {
		s := stage.New(j)
		s.AddDocument()
		for i := range 20_000 {
			if err := s.Add(t.Context(), desired.Resource{URI: fmt.Sprintf("http://a/%05d", i), Rank: desired.Rank{Class: desired.Listed}}); err != nil {
				t.Fatal(err)
			}
		}
		return &Planner{Journal: j, Selects: &selection.Selection{}, Set: 1}, s
	}
	p, s := fill(&journal.Mem{})
	n := 0
	for range p.Actions(t.Context(), s) {
		if n++; n == 3000 {
			break
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	n = 0
	var last error
	for _, err := range p.Actions(ctx, s) {
		if n++; n == 3000 {
			cancel()
		}
		last = err
	}
	if !errors.Is(last, context.Canceled) || n >= 20_000 {
		t.Errorf("canceled after 3000: %v after %d", last, n)
	}
	p, s = fill(&brokenJournal{})
	if _, err := p.Count(t.Context(), s, nil); !errors.Is(err, errBroken) {
		t.Errorf("count: %v, want %v", err, errBroken)
	}
	for _, err := range p.Actions(t.Context(), s) {
		last = err
	}
	if !errors.Is(last, errBroken) {
		t.Errorf("actions: %v, want %v", last, errBroken)
	}
}
