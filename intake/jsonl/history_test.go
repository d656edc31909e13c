package jsonl

import (
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"lockstep/catalog"
	"lockstep/intake"
)

var histories = flag.Int("histories", 24, "random histories of a list")

// A history is a file, and two sets that are kept in step with it: one by scans of a
// List with memory, the other by Lists that read all lines each time.
type history struct {
	rnd         *rand.Rand
	path, state string
	lines       []string
	earlier     [][]string
	next        int
	fast, full  *countingCatalog
	list        *List
	did         []string
	scans       int // of the whole set, changed
}

func (h *history) open(t testing.TB) {
	h.list = newTestList(t, h.path, h.fast, Options{State: h.state})
}

// change changes the file as a generator of lists might, or as none should.
func (h *history) change() {
	at := func() int { return h.rnd.IntN(len(h.lines) + 1) }
	fresh := func() string { h.next++; return line(h.next, h.rnd.IntN(5), h.rnd.IntN(5)) }
	what := "append"
	switch i, n := at(), len(h.lines); h.rnd.IntN(22) {
	case 0, 1, 2:
		what = "insert"
		h.lines = slices.Insert(h.lines, i, fresh(), fresh())
	case 3, 4, 5:
		what = "delete"
		h.lines = slices.Delete(h.lines, i, min(i+1+h.rnd.IntN(3), n))
	case 6, 7, 8:
		what = "edit"
		var k int
		if i == n {
			break
		}
		if _, err := fmt.Sscanf(h.lines[i], `{"uri":"http://x.example/%d"`, &k); err != nil || h.rnd.IntN(10) == 0 {
			k = h.rnd.IntN(h.next + 1) // possibly a duplicate
		}
		h.lines[i] = line(k, h.rnd.IntN(5), h.rnd.IntN(5))
	case 9, 10:
		what = "new date"
		if i < n {
			text, _, _ := strings.Cut(h.lines[i], "2024-05-")
			h.lines[i] = text + fmt.Sprintf(`2024-05-%02dT09:30:00Z"}`, h.rnd.IntN(28)+1)
		}
	case 11:
		what = "move"
		k := at()
		moved := slices.Clone(h.lines[min(i, k):max(i, k)])
		h.lines = slices.Insert(slices.Delete(h.lines, min(i, k), max(i, k)), h.rnd.IntN(n-len(moved)+1), moved...)
	case 12:
		what = "go back"
		h.lines = slices.Clone(h.earlier[h.rnd.IntN(len(h.earlier))])
	case 14:
		what = "truncate"
		h.lines = h.lines[:max(0, n-1-h.rnd.IntN(1+n/4))]
	case 15:
		if h.rnd.IntN(2) == 0 {
			break
		}
		what = []string{"break", "blank lines", "change", "unknown field", "empty", "long line"}[h.rnd.IntN(6)]
		switch what {
		case "empty":
			h.lines = nil
		case "blank lines":
			h.lines = slices.Insert(h.lines, i, slices.Repeat([]string{"", "  "}, 700)...)
		default:
			bad := map[string]string{
				"break": `{"uri":`, "change": `{"uri":"http://x.example/1","change":"deleted"}`, "long line": strings.Repeat("x", maxLine+1),
				"unknown field": strings.Replace(fresh(), "{", fmt.Sprintf(`{"field%d":1,`, h.rnd.IntN(3)), 1),
			}
			h.lines = slices.Insert(h.lines, i, bad[what])
		}
	default:
		for range 1 + h.rnd.IntN(3) {
			h.lines = append(h.lines, fresh())
		}
	}
	h.did = append(h.did, what)
}

// disturb does to the stored state what a kill or a defective disk might do.
func (h *history) disturb(t testing.TB) {
	what := "nothing"
	chunks := h.state + ".chunks"
	b, err := os.ReadFile(chunks)
	switch h.rnd.IntN(24) {
	case 0, 1, 2, 3, 4, 5:
		what = "restart"
		h.open(t)
	case 6:
		what = "chunks lost"
		_ = os.Remove(chunks)
	case 7:
		what = "chunks damaged"
		if err == nil {
			b[h.rnd.IntN(len(b))] ^= 4
			must(t, os.WriteFile(chunks, b, 0o600))
		}
	case 8:
		what = "chunks cut off"
		if err == nil {
			must(t, os.Truncate(chunks, h.rnd.Int64N(int64(len(b)))))
		}
	case 9:
		what = "left by a kill"
		if err == nil {
			must(t, os.WriteFile(chunks+".new", b, 0o600))
			must(t, os.WriteFile(chunks, append(b, "more"...), 0o600))
		}
	case 10:
		what = "state lost"
		_ = os.Remove(h.state)
		h.open(t)
	}
	h.did = append(h.did, what)
}

// scan scans with both and compares the results.
func (h *history) scan(t testing.TB) {
	t.Helper()
	end := "\n"
	if h.rnd.IntN(5) == 0 || len(h.lines) == 0 {
		end = ""
	}
	write(t, h.path, strings.Join(h.lines, "\n")+end)
	h.earlier = append(h.earlier, slices.Clone(h.lines))
	kill, after, allow := 0, h.rnd.IntN(2) == 0, h.rnd.IntN(2) == 0
	switch h.rnd.IntN(12) {
	case 0, 1: // at a transaction, if there are so many
		kill = 1 + h.rnd.IntN(3)
	case 3: // before the first one
		h.fast.failFind = true
	}
	h.did = append(h.did, fmt.Sprintf("scan (fails at %d, applied: %t, find: %t, allowed: %t)", kill, after, h.fast.failFind, allow))
	got, err := h.scanWith(t, h.list, h.fast, kill, after, allow)
	if h.fast.failFind {
		if h.fast.failFind = false; errors.Is(err, errKilled) {
			h.open(t)
			got, err = h.scanWith(t, h.list, h.fast, kill, after, allow)
		}
	}
	if errors.Is(err, errKilled) {
		h.open(t)
	}
	want, wantErr := h.scanWith(t, newTestList(t, h.path, h.full, Options{}), h.full, kill, after, allow)
	if fmt.Sprint(err) != fmt.Sprint(wantErr) {
		t.Fatalf("error %v, of a full reading %v", err, wantErr)
	}
	// A file that is the same is not read, nor are the former lines of a list of changes.
	if got.Bytes > 0 && !slices.ContainsFunc(h.lines, func(l string) bool { return strings.Contains(l, `"change"`) }) {
		h.scans++
		if diff := cmp.Diff(texts(want), texts(got)); diff != "" {
			t.Fatalf("the report differs from that of a full reading (-full):\n%s", diff)
		}
	}
	if diff := cmp.Diff(contents(t, h.full), contents(t, h.fast)); diff != "" {
		t.Fatalf("the catalog differs from that after full readings (-full):\n%s", diff)
	}
}

func (h *history) scanWith(t testing.TB, j *List, cat *countingCatalog, kill int, after, allow bool) (intake.Report, error) {
	t.Helper()
	j.in.AllowEmpty = allow
	cat.failApply, cat.applied = kill, after
	defer func() { cat.failApply = 0 }()
	return j.Scan(t.Context())
}

// texts returns what a Report says, except for the time that the scan took.
func texts(r intake.Report) []string {
	all := []string{fmt.Sprintf("%d created, %d updated, %d deleted, %d unchanged of %d, %d bytes", r.Created, r.Updated, r.Deleted, r.Unchanged, r.Files, r.Bytes)}
	for _, ps := range []intake.Problems{r.Unreadable, r.Skipped} {
		all = append(all, fmt.Sprint(ps.Count))
		for _, p := range ps.First {
			all = append(all, p.String())
		}
	}
	return all
}

// contents returns the records and changes of a catalog, without the times of events.
func contents(t testing.TB, c *countingCatalog) (all []string) {
	t.Helper()
	add := func(r *catalog.Record, what string) {
		all = append(all, fmt.Sprint(r.URI, r.Length, r.Hashes, r.Lastmod, r.Token, r.Seq, what))
	}
	for r, err := range c.Catalog.Resources(t.Context(), testSet, catalog.Range{}) {
		must(t, err)
		add(&r, "")
	}
	for ch, err := range c.Catalog.Changes(t.Context(), testSet, 0) {
		must(t, err)
		add(&ch.Record, ch.Change.String())
	}
	return all
}

// TestChangedListIsAppliedLikeANewOne: after any changes to a list, kills of scans, and
// losses of the stored chunks, the catalog, its history, and the report are those of a
// List that has read all lines each time.
func TestChangedListIsAppliedLikeANewOne(t *testing.T) {
	t.Parallel()
	var scans, whole atomic.Int64
	var wg sync.WaitGroup
	for seed := range *histories { // together, because each waits for the clock of the file system
		dir := t.TempDir()
		wg.Go(func() {
			h := &history{
				rnd: rand.New(rand.NewPCG(uint64(seed), 1)), path: filepath.Join(dir, "list.jsonl"), state: filepath.Join(dir, "state.json"),
				fast: &countingCatalog{Catalog: catalog.NewMem(nil)}, full: &countingCatalog{Catalog: catalog.NewMem(nil)},
			}
			done := false
			defer func() {
				if !done {
					t.Logf("history %d: %s", seed, strings.Join(h.did, ", "))
				}
			}()
			for _, c := range []*countingCatalog{h.fast, h.full} {
				_, err := c.Mark(t.Context(), testSet)
				must(t, err)
			}
			for range 300 {
				h.next++
				h.lines = append(h.lines, line(h.next, h.rnd.IntN(5), h.rnd.IntN(5)))
			}
			h.open(t)
			for range 7 {
				h.scan(t)
				for range 1 + h.rnd.IntN(3) {
					h.change()
				}
				h.disturb(t)
			}
			done = true
			scans.Add(int64(h.scans))
			whole.Add(int64(h.fast.whole))
		})
	}
	wg.Wait()
	t.Logf("%d of %d scans have read all lines", whole.Load(), scans.Load())
	if !t.Failed() && whole.Load()*3 > scans.Load()*2 {
		t.Error("these are too many to show anything")
	}
}
