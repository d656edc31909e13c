package jsonl_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"lockstep/catalog"
	"lockstep/intake"
	"lockstep/intake/jsonl"
)

// A busyCatalog fails to apply updates until it is free.
type busyCatalog struct {
	catalog.Catalog
	free   atomic.Bool
	failed atomic.Int64
}

func (c *busyCatalog) Apply(ctx context.Context, set string, us []catalog.Update) (catalog.Applied, error) {
	if !c.free.Load() {
		c.failed.Add(1)
		return catalog.Applied{}, errors.New("database is locked")
	}
	return c.Catalog.Apply(ctx, set, us)
}

// until waits until a condition is true.
func until(t *testing.T, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !is(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("after a minute not yet: %s", what)
		}
	}
}

// events collects the errors and problems that a List reports.
type events struct {
	mu   sync.Mutex // guards said
	said []string
}

func (e *events) on(ev intake.Event) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if ev.Kind != intake.EventProgress {
		text := "ok"
		if ev.Err != nil {
			text = ev.Err.Error()
		}
		e.said = append(e.said, text)
	}
}

func (e *events) has(text string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, s := range e.said {
		if strings.Contains(s, text) {
			return true
		}
	}
	return false
}

// TestJSONLRepeatsWhatFails: lines of a stream that a catalog could not record are recorded
// once it can, and so are those after them.
func TestJSONLRepeatsWhatFails(t *testing.T) {
	t.Parallel()
	for _, complete := range []bool{false, true} {
		cat, said := &busyCatalog{Catalog: catalog.NewMem(nil)}, &events{}
		r, w := io.Pipe()
		j := jsonl.NewStream(r, "-", cat, set, jsonl.Options{Complete: complete, OnEvent: said.on})
		ctx, stop := context.WithCancel(t.Context())
		var work sync.WaitGroup
		work.Go(func() { _ = j.Watch(ctx, nil) }) // it ends with ctx
		write := func(text string) {
			_, err := io.WriteString(w, text+"\n")
			must(t, err)
		}
		write(`{"uri":"http://a"}`)
		write(`{"uri":"http://b"}`)
		if complete {
			write(`{"uri":"http://c"}`)
			must(t, w.Close())
		}
		until(t, "two failures", func() bool { return cat.failed.Load() >= 2 })
		if !said.has("database is locked") || !complete && !said.has("the lines from 1 on were not recorded") {
			t.Errorf("complete %v: reported %q", complete, said.said)
		}
		cat.free.Store(true)
		if !complete {
			write(`{"uri":"http://c"}`)
			must(t, w.Close())
		}
		until(t, "all lines", func() bool { return len(saidBy(t, cat)) == 3 && said.has("ok") })
		stop()
		work.Wait()
		if said.has("send them again") {
			t.Errorf("complete %v: reported %q", complete, said.said)
		}
	}
}

// TestJSONLNamesLinesThatAreNotRecorded: if the catalog fails until the end, the first line
// that it lacks is named, by a scan and by a watch.
func TestJSONLNamesLinesThatAreNotRecorded(t *testing.T) {
	t.Parallel()
	const text = "{\"uri\":\"http://a\"}\n{\"uri\":\"http://b\"}\n"
	cat := &busyCatalog{Catalog: catalog.NewMem(nil)}
	_, err := jsonl.NewStream(strings.NewReader(text), "-", cat, set, jsonl.Options{}).Scan(t.Context())
	if err == nil || !strings.Contains(err.Error(), "the lines from 1 on were not recorded: database is locked") {
		t.Errorf("Scan = %v", err)
	}

	said := &events{}
	cat.free.Store(true)
	r, w := io.Pipe()
	j := jsonl.NewStream(r, "-", cat, set, jsonl.Options{OnEvent: said.on})
	ctx, stop := context.WithCancel(t.Context())
	var work sync.WaitGroup
	work.Go(func() { _ = j.Watch(ctx, nil) }) // it ends with ctx
	_, err = io.WriteString(w, "{\"uri\":\"http://a\"}\n")
	must(t, err)
	until(t, "the first line", func() bool { return len(saidBy(t, cat)) == 1 })
	cat.free.Store(false)
	before := cat.failed.Load()
	_, err = io.WriteString(w, "{\"uri\":\"http://b\"}\n")
	must(t, err)
	until(t, "a failure", func() bool { return cat.failed.Load() > before })
	if _, err := j.Scan(t.Context()); err != nil { // it does not wait for the end of the stream
		t.Error(err)
	}
	stop()
	work.Wait()
	if !said.has("line 2: this line and those after it were not recorded: send them again") {
		t.Errorf("reported %q", said.said)
	}
}

func saidBy(t *testing.T, cat catalog.Catalog) (uris []string) {
	t.Helper()
	for r, err := range cat.Resources(t.Context(), set, catalog.Range{}) {
		must(t, err)
		uris = append(uris, r.URI)
	}
	return uris
}
