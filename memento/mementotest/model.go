package mementotest

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"lockstep/memento"
)

// A model is a simple implementation of a store, without regard to speed.
type model struct {
	versions map[key]memento.Version
	dropped  map[key]time.Time // At of the key is zero
	known    map[string]bool   // URIs
}

type key struct {
	set, uri string
	at       time.Time
}

func (m *model) append(set string, vs []memento.Version) {
	for _, v := range vs {
		k := key{set, v.URI, v.At}
		m.known[v.URI] = true
		if _, there := m.versions[k]; !there && v.At.After(m.dropped[key{set: set, uri: v.URI}]) {
			m.versions[k] = v
		}
	}
}

func (m *model) drop(set string, vs []memento.Version) {
	for _, v := range vs {
		k := key{set, v.URI, v.At}
		if _, there := m.versions[k]; !there {
			continue
		}
		delete(m.versions, k)
		if all := (key{set: set, uri: v.URI}); v.At.After(m.dropped[all]) {
			m.dropped[all] = v.At
		}
	}
}

// walk returns the versions that keep selects, by URI and At; of equal ones in
// several sets it prefers one that is not gone.
func (m *model) walk(keep func(key) bool) []memento.Version {
	var vs []memento.Version
	for k, v := range m.versions {
		if keep(k) {
			vs = append(vs, v)
		}
	}
	slices.SortFunc(vs, func(a, b memento.Version) int {
		if c := strings.Compare(a.URI, b.URI); c != 0 {
			return c
		}
		if c := a.At.Compare(b.At); c != 0 || a.Gone == b.Gone {
			return c
		}
		if a.Gone {
			return 1
		}
		return -1
	})
	return vs
}

func (m *model) list(uri string) []memento.Version {
	vs := m.walk(func(k key) bool { return k.uri == uri })
	return slices.CompactFunc(vs, func(a, b memento.Version) bool { return a.At.Equal(b.At) })
}

func (m *model) around(sets []string, uri string, at time.Time) memento.Around {
	a := memento.Around{Known: m.known[uri]}
	for _, set := range sets {
		if d := m.dropped[key{set: set, uri: uri}]; d.After(a.Dropped) {
			a.Dropped = d
		}
		var here memento.Version
		for _, v := range m.walk(func(k key) bool { return k.set == set && k.uri == uri }) {
			if !v.At.Truncate(time.Second).After(at) {
				here = v
			}
		}
		better := a.Selected.IsZero() || a.Selected.Gone && !here.Gone || a.Selected.Gone == here.Gone && here.At.After(a.Selected.At)
		if !here.IsZero() && better {
			a.Selected = here
		}
	}
	for _, v := range m.list(uri) {
		if v.Gone {
			continue
		}
		if a.First.IsZero() {
			a.First = v
		}
		if v.At.Before(a.Selected.At) {
			a.Prev = v
		}
		if v.At.After(a.Selected.At) && a.Next.IsZero() {
			a.Next = v
		}
		a.Last = v
	}
	return a
}

// testModel applies the same random operations to the store and to a model.
func testModel(t *testing.T, s memento.Store) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	m := &model{make(map[key]memento.Version), make(map[key]time.Time), make(map[string]bool)}
	sets := []string{setA, setB, "third"}
	random := func() memento.Version {
		uri, micros := fmt.Sprint("u", r.IntN(6)), r.Int64N(12)*seconds/4
		if r.IntN(3) == 0 {
			return gone(uri, micros)
		}
		return version(uri, micros)
	}
	for range 120 {
		set := sets[r.IntN(len(sets))]
		var vs []memento.Version
		for range r.IntN(7) {
			vs = append(vs, random())
		}
		if r.IntN(3) > 0 {
			appendTo(t, s, set, vs...)
			m.append(set, vs)
		} else {
			drop(t, s, set, vs...)
			m.drop(set, vs)
		}
		v := random()
		same(t, "Walk", walk(t, s, set, v.URI), m.walk(func(k key) bool { return k.set == set && k.uri >= v.URI }))
		same(t, "List", list(t, s, v.URI), m.list(v.URI))
		if diff := cmp.Diff(m.around(sets, v.URI, v.At), around(t, s, v.URI, v.At)); diff != "" {
			t.Fatalf("Around(%s, %v) (-want +got):\n%s", v.URI, v.At, diff)
		}
		newest := memento.Version{}
		for _, w := range m.walk(func(k key) bool { return k.set == set && k.uri == v.URI }) {
			newest = w
		}
		if d := m.dropped[key{set: set, uri: v.URI}]; d.After(newest.At) {
			newest = memento.Version{URI: v.URI, At: d, Gone: true, Event: d}
		}
		same(t, "Last", last(t, s, set, v.URI), []memento.Version{newest})
	}
}

// testConcurrent writes from several goroutines while others read, and checks
// that no transaction is seen partially.
func testConcurrent(t *testing.T, s memento.Store) {
	const writers, rounds = 4, 15
	pair := func(i, n int64) []memento.Version {
		return []memento.Version{version("left", n*writers+i), version("right", n*writers+i)}
	}
	var g sync.WaitGroup
	done := make(chan struct{})
	for i := range int64(writers) {
		g.Go(func() {
			for n := range int64(rounds) {
				if err := s.Append(t.Context(), setA, n+1, pair(i, n)); err != nil {
					t.Error(err)
				}
				if err := s.Append(t.Context(), fmt.Sprint("set ", i), n+1, pair(i, n)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	var readers sync.WaitGroup
	for range 2 {
		readers.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				vs, err := s.Last(t.Context(), setA, []string{"left", "right"})
				if err != nil || vs[0].At != vs[1].At {
					t.Errorf("Last = %v, %v: an Append is there by half", vs, err)
					return
				}
			}
		})
	}
	g.Wait()
	close(done)
	readers.Wait()
	seen := make(map[string]int)
	for _, v := range walk(t, s, setA, "") {
		seen[v.URI]++
	}
	if want := map[string]int{"left": writers * rounds, "right": writers * rounds}; !maps.Equal(seen, want) {
		t.Errorf("versions %v, want %v", seen, want)
	}
	if c, err := s.Cursor(t.Context(), setA); c != rounds || err != nil {
		t.Errorf("Cursor = %d, %v, want %d", c, err, rounds)
	}
}
