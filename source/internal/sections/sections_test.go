package sections_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"lockstep/catalog"
	"lockstep/resourcesync"
	"lockstep/source/internal/sections"
)

var limits = sections.Limits{Entries: 100, Bytes: 100_000}

// list returns sections of the given sizes, each with URIs that begin with its
// index, and 100 bytes an entry.
func list(sizes ...int) []sections.Section {
	var all []sections.Section
	for i, n := range sizes {
		s := sections.Section{Name: fmt.Sprint("part", i), First: sections.Bound(fmt.Sprint(i)), At: time.Unix(1, 0), Entries: n, Bytes: int64(n) * 100}
		if i == 0 {
			s.First = ""
		}
		all = append(all, s)
	}
	return all
}

func describe(runs []sections.Run) string {
	var words []string
	for _, r := range runs {
		switch {
		case r.Keep != nil:
			words = append(words, r.Keep.Name)
		default:
			words = append(words, fmt.Sprintf("[%s,%s)%dx%d", r.Range.From, r.Range.To, r.Pieces, r.Each))
		}
	}
	return strings.Join(words, " ")
}

func TestRuns(t *testing.T) {
	t.Parallel()
	created, updated, deleted := resourcesync.Created, resourcesync.Updated, resourcesync.Deleted
	many := func(uri string, c resourcesync.Change, n int) map[string]resourcesync.Change {
		all := make(map[string]resourcesync.Change)
		for i := range n {
			all[fmt.Sprintf("%s/%d", uri, i)] = c
		}
		return all
	}
	for _, tt := range []struct {
		name    string
		sizes   []int
		changes map[string]resourcesync.Change
		want    string
	}{
		{"nothing", []int{100, 100, 100}, nil, "part0 part1 part2"},
		{"one resource", []int{100, 100, 100}, many("1", updated, 1), "part0 [1,2)1x100 part2"},
		{"before the first bound", []int{100, 100}, many("", updated, 1), "[,1)1x100 part1"},
		{"at a bound", []int{100, 100}, map[string]resourcesync.Change{"1": updated}, "part0 [1,)1x100"},
		{"halved", []int{100, 100, 100}, many("1", created, 1), "part0 [1,2)2x51 part2"},
		{"in three", []int{100, 100, 100}, many("1", created, 150), "part0 [1,2)3x84 part2"},
		{"appended", []int{100, 100}, many("1", created, 5), "part0 [1,)2x100"},
		{"small, no neighbor has room", []int{100, 100, 100}, many("1", deleted, 80), "part0 [1,2)1x100 part2"},
		{"joined to the one before", []int{50, 100, 100}, many("1", deleted, 80), "[,2)1x100 part2"},
		{"joined to the one after", []int{100, 100, 50}, many("1", deleted, 80), "part0 [1,)1x100"},
		{"empty", []int{100, 100, 100}, many("1", deleted, 100), "part0 [1,2)1x100 part2"},
		{"more deleted than there was", []int{100, 100}, many("0", deleted, 110), "[,1)1x100 part1"},
	} {
		tally := sections.NewTally(list(tt.sizes...))
		for uri, c := range tt.changes {
			tally.Change(uri, c)
		}
		if got := describe(tally.Runs(limits)); got != tt.want {
			t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
		}
	}
}

func TestRunsHalveByBytes(t *testing.T) {
	t.Parallel()
	tally := sections.NewTally(list(60, 60))
	tally.Change("0", resourcesync.Created)
	if got, want := describe(tally.Runs(sections.Limits{Entries: 100, Bytes: 6000})), "[,1)2x31 part1"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// TestBoundariesAreStable plays random changes of a set: sections cover it without
// gap or overlap, hold no more than the limit, are few, and are written again only
// where something changed.
func TestBoundariesAreStable(t *testing.T) {
	t.Parallel()
	for seed := range uint64(20) {
		random := rand.New(rand.NewPCG(seed, 3))
		set := make(map[string]bool)
		for i := range 2000 {
			set[fmt.Sprintf("r%06d", i*50)] = true
		}
		var all []sections.Section
		write := func(runs []sections.Run) (written int) {
			var next []sections.Section
			uris := make([]string, 0, len(set))
			for uri := range set {
				uris = append(uris, uri)
			}
			slices.Sort(uris)
			for _, r := range runs {
				if r.Keep != nil {
					next = append(next, *r.Keep)
					continue
				}
				from, _ := slices.BinarySearch(uris, r.Range.From)
				to := len(uris)
				if r.Range.To != "" {
					to, _ = slices.BinarySearch(uris, r.Range.To)
				}
				first := r.Range.From
				for n := 0; from < to; n++ {
					end := to
					if n < r.Pieces-1 {
						end = min(to, from+r.Each)
					}
					if end-from > limits.Entries {
						t.Fatalf("seed %d: a piece of %d entries", seed, end-from)
					}
					next = append(next, sections.Section{Name: "x", First: sections.Bound(first), At: time.Unix(1, 0), Entries: end - from, Bytes: int64(end-from) * 100})
					written++
					if from = end; from < to {
						first = uris[from]
					}
				}
			}
			next[0].First = ""
			if !sections.Sound(next) {
				t.Fatalf("seed %d: %+v", seed, next)
			}
			all = next
			return written
		}
		var bounds []string
		for i := limits.Entries; i < 2000; i += limits.Entries {
			bounds = append(bounds, fmt.Sprintf("r%06d", i*50))
		}
		write(sections.Whole(bounds, limits))
		for round := range 200 {
			tally := sections.NewTally(all)
			changed := 1 + random.IntN(4)
			where := random.IntN(2000 * 50)
			for range changed {
				where += random.IntN(1000)
				uri := fmt.Sprintf("r%06d", where)
				switch {
				case !set[uri]:
					tally.Change(uri, resourcesync.Created)
					set[uri] = true
				case random.IntN(2) == 0:
					tally.Change(uri, resourcesync.Deleted)
					delete(set, uri)
				default:
					tally.Change(uri, resourcesync.Updated)
				}
			}
			if written := write(tally.Runs(limits)); written > 2*changed {
				t.Fatalf("seed %d, round %d: %d sections written for %d changes", seed, round, written, changed)
			}
			n := 0
			for _, s := range all {
				n += s.Entries
			}
			if n != len(set) || len(all) > 4*len(set)/limits.Entries {
				t.Fatalf("seed %d, round %d: %d sections with %d entries, want %d entries", seed, round, len(all), n, len(set))
			}
		}
	}
}

func TestInstants(t *testing.T) {
	t.Parallel()
	mark := time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC)
	for _, room := range []time.Duration{-2 * time.Microsecond, -999, 0, 1, time.Microsecond, time.Millisecond, time.Hour} {
		for _, n := range []int{0, 1, 2, 3, 200, 10_000} {
			low := mark.Add(-room)
			all := sections.Instants(low, mark, n)
			if len(all) != n || !slices.IsSortedFunc(all, time.Time.Compare) {
				t.Fatalf("room %s: %d instants, sorted %v", room, len(all), slices.IsSortedFunc(all, time.Time.Compare))
			}
			if n == 0 {
				continue
			}
			if all[0].Before(low) && room > -time.Microsecond || !all[n-1].Before(mark.Add(time.Microsecond)) || mark.Sub(all[0]) > time.Second {
				t.Errorf("room %s, %d: from %s to %s", room, n, all[0], all[n-1])
			}
			first := 0
			for first < n && all[first].Equal(all[0]) {
				first++
			}
			if room >= 0 && first > max(1, n/500) {
				t.Errorf("room %s: %d of %d sections share the earliest instant", room, first, n)
			}
		}
	}
	if all := sections.Instants(mark.Add(-time.Second), mark, 3); all[1].Sub(all[0]) != time.Millisecond || !all[2].Equal(mark) {
		t.Errorf("%s, want steps of a millisecond up to %s", all, mark)
	}
}

// Bounds are stored as they are, whatever bytes they have.
func TestBoundsAreStored(t *testing.T) {
	t.Parallel()
	all := list(1, 1, 1)
	all[1].First, all[2].First = "http://a/\"\\é\xc3\x28", "http://a/\xff"
	data, err := json.Marshal(all)
	var back []sections.Section
	if err == nil {
		err = json.Unmarshal(data, &back)
	}
	if err != nil || len(back) != 3 || back[0].First != "" || back[1].First != all[1].First || back[2].First != all[2].First {
		t.Errorf("%s: %+v, %v", data, back, err)
	}
	if err := json.Unmarshal([]byte(`[{"first":"\\x"}]`), &back); err == nil {
		t.Error("a bound that is not quoted was read")
	}
}

func TestSound(t *testing.T) {
	t.Parallel()
	for name, damage := range map[string]func(all []sections.Section){
		"first":    func(all []sections.Section) { all[0].First = "a" },
		"order":    func(all []sections.Section) { all[2].First = all[1].First },
		"no bound": func(all []sections.Section) { all[1].First = "" },
		"at":       func(all []sections.Section) { all[1].At = time.Time{} },
		"name":     func(all []sections.Section) { all[1].Name = "" },
		"entries":  func(all []sections.Section) { all[1].Entries = 0 },
		"bytes":    func(all []sections.Section) { all[1].Bytes = -1 },
		"seq":      func(all []sections.Section) { all[1].Seq = -1 },
	} {
		all := list(3, 3, 3)
		if !sections.Sound(all) {
			t.Fatal("a list is not sound")
		}
		if damage(all); sections.Sound(all) {
			t.Errorf("%s: %+v is sound", name, all)
		}
	}
}

func TestEarliest(t *testing.T) {
	t.Parallel()
	all := list(1, 1, 1)
	all[0].At, all[0].Seq = time.Unix(9, 0), 9
	all[1].At, all[1].Seq = time.Unix(3, 0), 4
	all[2].At, all[2].Seq = time.Unix(5, 0), 3
	if got, want := sections.Earliest(all), (catalog.Mark{Seq: 3, At: time.Unix(3, 0)}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}
