package jsonl_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"lockstep/catalog"
	"lockstep/intake"
	"lockstep/intake/jsonl"
)

// A lossyCatalog loses the answer to an Apply, as a database does if the connection to it
// breaks during the commit.
type lossyCatalog struct {
	catalog.Catalog
	lose atomic.Bool // the next one
}

func (c *lossyCatalog) Apply(ctx context.Context, set string, us []catalog.Update) (catalog.Applied, error) {
	a, err := c.Catalog.Apply(ctx, set, us)
	if err == nil && c.lose.Swap(false) {
		return catalog.Applied{}, errBroken
	}
	return a, err
}

// firstReport returns what Watch reports first, after failures if it fails.
func firstReport(t *testing.T, j *jsonl.List) intake.Report {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	var first *intake.Report
	err := j.Watch(ctx, func(r intake.Report) {
		if first == nil {
			first = &r
		}
		stop()
	})
	if first == nil {
		t.Fatalf("Watch = %v, and has reported nothing", err)
	}
	return *first
}

// TestJSONLReportsAFailure: changes of a list or stream are reported although the answer
// of the catalog to them was lost.
func TestJSONLReportsAFailure(t *testing.T) {
	t.Parallel()
	const line = `{"uri":"http://a"}`
	path := filepath.Join(t.TempDir(), "list.jsonl")
	list(t, path, line)
	for name, open := range map[string]func(catalog.Catalog) *jsonl.List{
		"list": func(cat catalog.Catalog) *jsonl.List { return newJSONL(t, path, cat, jsonl.Options{}) },
		"stream": func(cat catalog.Catalog) *jsonl.List {
			return jsonl.NewStream(strings.NewReader(line+"\n"), "-", cat, set, jsonl.Options{})
		},
	} {
		cat := &lossyCatalog{Catalog: catalog.NewMem(nil)}
		cat.lose.Store(true)
		if r := firstReport(t, open(cat)); r.Changed() {
			t.Errorf("%s: %s; want a report of changes that are not known", name, counts(r))
		}
		if got := said(t, cat); len(got) != 1 {
			t.Errorf("%s: the catalog has %v", name, got)
		}
	}
}

// TestJSONLReportsLinesBeforeAnError: what a stream had before it could not be read any
// further is reported.
func TestJSONLReportsLinesBeforeAnError(t *testing.T) {
	t.Parallel()
	cat := catalog.NewMem(nil)
	broken := io.MultiReader(strings.NewReader("{\"uri\":\"http://a\"}\n"), brokenReader{})
	if r := firstReport(t, jsonl.NewStream(broken, "-", cat, set, jsonl.Options{})); r.Created != 1 {
		t.Errorf("%s, want the resource", counts(r))
	}
	if _, err := jsonl.NewStream(brokenReader{}, "-", cat, set, jsonl.Options{}).Scan(t.Context()); !errors.Is(err, errBroken) {
		t.Errorf("Scan = %v, want %v", err, errBroken)
	}
}

// TestJSONLWatch sees each new content of the file.
func TestJSONLWatch(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "list.jsonl")
	cat := catalog.NewMem(nil)
	j := newJSONL(t, path, cat, jsonl.Options{ScanInterval: 10 * time.Millisecond})
	ctx, cancel := context.WithCancelCause(t.Context())
	reported := make(chan intake.Report, 10)
	done := make(chan error)
	go func() {
		done <- j.Watch(ctx, func(r intake.Report) {
			if r.Changed() { // else the file is missing
				reported <- r
			}
		})
	}()
	for i, n := range []int{1, 3, 2} {
		if i == 2 {
			must(t, os.Remove(path))
			time.Sleep(50 * time.Millisecond)
		}
		var ls []string
		for k := range n {
			ls = append(ls, fmt.Sprintf(`{"uri":"http://x.example/%d"}`, k))
		}
		list(t, path+"~", ls...)
		must(t, os.Rename(path+"~", path))
		select {
		case <-reported:
		case <-time.After(time.Minute):
			t.Fatalf("no one was notified of list %d", i)
		}
		if got := len(said(t, cat)); got != n {
			t.Errorf("list %d: the catalog holds %d, want %d", i, got, n)
		}
	}
	end := errors.New("enough")
	cancel(end)
	if err := <-done; !errors.Is(err, end) {
		t.Errorf("Watch = %v, want the cause", err)
	}
}
