package reading_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"lockstep/cmd/lockstep/internal/explorer/reading"
	"lockstep/cmd/lockstep/internal/explorer/spool"
)

// An origin has parts by address: an index, or a number of rows.
type origin struct {
	mu     sync.Mutex // guards what follows
	index  map[string][]string
	rows   map[string]int
	fails  map[string]int // how often reading a part fails after its first row
	asked  map[string]int
	chains map[string]string // the part after another one
}

// Read implements reading.Origin.
func (o *origin) Read(_ context.Context, address string, add func(*spool.Row) error) (reading.Result, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.asked[address]++
	if parts, ok := o.index[address]; ok {
		result := reading.Result{Index: true, Of: reading.Resources}
		for _, p := range parts {
			result.Next = append(result.Next, reading.Address{URI: p})
		}
		return result, nil
	}
	for n := range o.rows[address] {
		if err := add(&spool.Row{URI: fmt.Sprint(address, "/", n), Length: 1}); err != nil {
			return reading.Result{}, err
		}
		if o.fails[address] > 0 {
			o.fails[address]--
			return reading.Result{}, errors.New("connection reset")
		}
	}
	result := reading.Result{Of: reading.Resources}
	if next := o.chains[address]; next != "" {
		result.Next = []reading.Address{{URI: next}}
	}
	return result, nil
}

func open(t *testing.T, o *origin) *reading.List {
	t.Helper()
	o.asked = map[string]int{}
	var running sync.WaitGroup
	l := reading.New("resourcelist", "root", o, func(task func(context.Context)) { running.Go(func() { task(t.Context()) }) }, t.TempDir())
	t.Cleanup(func() {
		running.Wait()
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	return l
}

// TestIndex reads only the parts that are asked for, also of an index within an index,
// and each once.
func TestIndex(t *testing.T) {
	t.Parallel()
	o := &origin{index: map[string][]string{"root": {"a", "inner", "c", "a"}, "inner": {"b1", "b2"}}, rows: map[string]int{"a": 3, "b1": 4, "b2": 5, "c": 6}}
	l := open(t, o)
	if st := l.State(); st.Opened || st.Progress() != "not read yet" {
		t.Errorf("at the beginning: %s", st.Progress())
	}
	if err := l.Load(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	if st := l.State(); st.Progress() != "1 of 3 parts read" || st.Rows != 3 || len(o.asked) != 2 {
		t.Errorf("after one part: %s, %d rows, asked for %v", st.Progress(), st.Rows, o.asked)
	}
	if err := l.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	st := l.State()
	if st.Progress() != "4 of 4 parts read" || !st.Complete() || st.Rows != 18 {
		t.Errorf("at the end: %s, %d rows", st.Progress(), st.Rows)
	}
	var all []string
	for _, r := range l.Forward(reading.Cursor{}, spool.Filter{}, 100) {
		all = append(all, r.URI)
	}
	if got := fmt.Sprint(all); got != "[a/0 a/1 a/2 b1/0 b1/1 b1/2 b1/3 b2/0 b2/1 b2/2 b2/3 b2/4 c/0 c/1 c/2 c/3 c/4 c/5]" {
		t.Errorf("the rows are %s", got)
	}
	for address, n := range o.asked {
		if n != 1 {
			t.Errorf("%s was read %d times", address, n)
		}
	}
}

// TestFailure reads the other parts, shows the error, and reads the part again on request.
func TestFailure(t *testing.T) {
	t.Parallel()
	l := open(t, &origin{index: map[string][]string{"root": {"a", "b", "c"}}, rows: map[string]int{"a": 3, "b": 4, "c": 5}, fails: map[string]int{"b": 1}})
	if err := l.Wait(t.Context()); err == nil {
		t.Error("no error")
	}
	st := l.State()
	if st.Rows != 8 || st.Failed != 1 || st.Err == nil || st.Complete() {
		t.Errorf("after a failure: %d rows, %v", st.Rows, st.Err)
	}
	if err := l.Load(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	if st := l.State(); st.Rows != 12 || st.Err != nil || !st.Complete() {
		t.Errorf("at the end: %d rows, %v", st.Rows, st.Err)
	}
}

// TestChain follows parts of which each names the next, once around a circle.
func TestChain(t *testing.T) {
	t.Parallel()
	l := open(t, &origin{rows: map[string]int{"root": 1, "b": 2, "c": 3}, chains: map[string]string{"root": "b", "b": "c", "c": "root"}})
	if err := l.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	if st := l.State(); !st.More || st.Progress() != "1 part read, and more follow" {
		t.Errorf("after one part: %s", st.Progress())
	}
	if err := l.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	if st := l.State(); st.More || st.Rows != 6 || !st.Complete() {
		t.Errorf("at the end: %s, %d rows", st.Progress(), st.Rows)
	}
}

// TestEmptyIndex is complete without a row.
func TestEmptyIndex(t *testing.T) {
	t.Parallel()
	l := open(t, &origin{index: map[string][]string{"root": nil}})
	if err := l.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	if st := l.State(); !st.Complete() || st.Rows != 0 {
		t.Errorf("%s, %d rows", st.Progress(), st.Rows)
	}
}

// TestConcurrently asks for the same parts at the same time: each is read once.
func TestConcurrently(t *testing.T) {
	t.Parallel()
	o := &origin{index: map[string][]string{"root": {"a", "b"}}, rows: map[string]int{"a": 300, "b": 400}}
	l := open(t, o)
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			if err := l.Load(t.Context(), -1); err != nil {
				t.Error(err)
			}
			l.LoadAll()
			_ = l.State()
			_, _, _ = l.Search(reading.Cursor{}, spool.Filter{Text: "1"}, 10)
		})
	}
	wg.Wait()
	if err := l.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	if st := l.State(); st.Rows != 700 || o.asked["root"] != 1 || o.asked["a"] != 1 || o.asked["b"] != 1 {
		t.Errorf("%d rows, asked for %v", st.Rows, o.asked)
	}
}

// TestAtOnce: pages that are shown at the same time read an index once.
func TestAtOnce(t *testing.T) {
	t.Parallel()
	for range 200 {
		o := &origin{index: map[string][]string{"root": {"a", "b"}}, rows: map[string]int{"a": 1, "b": 1}}
		l := open(t, o)
		var pages sync.WaitGroup
		for n := range 4 {
			pages.Go(func() {
				if err := l.Load(t.Context(), n%2); err != nil {
					t.Error(err)
				}
			})
		}
		pages.Wait()
		if o.asked["root"] != 1 {
			t.Fatalf("the index was read %d times", o.asked["root"])
		}
	}
}
