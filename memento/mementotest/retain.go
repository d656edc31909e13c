package mementotest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"lockstep/memento"
)

// stay returns the versions of one resource that a policy keeps, by a literal
// implementation of its definition.
func stay(vs []memento.Version, p memento.Policy, now time.Time) []memento.Version {
	var kept []memento.Version
	remembered := false // a memento is kept: its deletion is kept too
	for i, v := range vs {
		after := 0 // mementos
		for _, w := range vs[i+1:] {
			if !w.Gone {
				after++
			}
		}
		stays := p.All || v.Seq > p.FloorSeq
		if i+1 == len(vs) {
			stays = stays || !v.Gone // the current one
		} else {
			next := vs[i+1]
			stays = stays || p.Age > 0 && (next.At.After(now.Add(-p.Age)) || next.Event.After(now.Add(-p.Age)))
			for _, q := range p.SnapshotSeqs {
				stays = stays || !v.Gone && v.Seq <= q && (q < next.Seq || v.Seq == next.Seq)
			}
		}
		stays = stays || !v.Gone && after < p.Count || v.Gone && remembered
		if stays {
			remembered = remembered || !v.Gone
			kept = append(kept, v)
		}
	}
	return kept
}

// testRetain generates random histories and policies, and checks that the kept
// versions are those of the policy, including all that published documents name
// (ME-RET-01).
func testRetain(t *testing.T, s memento.Store) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	for round := range 40 {
		set := fmt.Sprint("set ", round)
		var lives [][]memento.Version
		seq := int64(0)
		for i := range 1 + r.IntN(6) {
			var vs []memento.Version
			for at := range int64(r.IntN(14)) {
				if r.IntN(5) > 0 {
					seq++ // or the resource was added again
				}
				v := version(fmt.Sprintf("%d/%d", round, i), at*seconds)
				if r.IntN(4) == 0 {
					v = gone(v.URI, at*seconds)
				}
				v.Seq, v.Event = seq, v.At.Add(time.Duration(r.IntN(3))*time.Second)
				vs = append(vs, v)
			}
			appendTo(t, s, set, vs...)
			lives = append(lives, vs)
		}
		p, now := memento.Policy{FloorSeq: seq - r.Int64N(4), All: r.IntN(8) == 0}, at(20*seconds)
		if r.IntN(2) == 0 {
			p.Count = r.IntN(5)
		}
		if r.IntN(2) == 0 {
			p.Age = time.Duration(r.IntN(16)) * time.Second
		}
		for range r.IntN(4) {
			p.SnapshotSeqs = append(p.SnapshotSeqs, r.Int64N(seq+2))
		}
		retain(t, s, set, p, now, lives)
	}
}

// retain compares the remaining versions with the expected ones, twice: a walk
// may be canceled and repeated, and the second may drop what the first kept
// because of an adjacent version.
func retain(t *testing.T, s memento.Store, set string, p memento.Policy, now time.Time, lives [][]memento.Version) {
	t.Helper()
	for range 2 {
		var want []memento.Version
		var counts memento.Retained
		for i, vs := range lives {
			lives[i] = stay(vs, p, now)
			want = append(want, lives[i]...)
			for _, v := range vs {
				switch {
				case v.Gone:
				case slices.Contains(lives[i], v):
					counts.Kept++
					counts.Bytes += v.Length
					if counts.Oldest.IsZero() || v.At.Before(counts.Oldest) {
						counts.Oldest = v.At
					}
				default:
					counts.Dropped++
				}
			}
		}
		got, err := memento.Retain(t.Context(), s, set, p, now)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(counts, got); diff != "" {
			t.Errorf("Retain(%+v) (-want +got):\n%s", p, diff)
		}
		same(t, fmt.Sprintf("kept by %+v", p), walk(t, s, set, ""), want)
	}
}
