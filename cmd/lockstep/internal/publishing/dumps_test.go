package publishing

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"lockstep/blob"
	"lockstep/catalog"
	"lockstep/cmd/lockstep/internal/sourcereport"
	"lockstep/cmd/lockstep/internal/term"
	"lockstep/source"
)

// TestDumpsFailingSet: a set whose dump cannot be built is tried again less and less often,
// and delays the dumps of no other set.
func TestDumpsFailingSet(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const base = "http://x.org/"
		cat := catalog.NewMem(time.Now)
		var repaired atomic.Bool
		set := func(name string) source.Set {
			return source.Set{Name: name, ResourceDump: &source.ResourceDump{Every: time.Minute}, Bitstream: func(context.Context, *catalog.Record) (io.ReadCloser, error) {
				if name == "bad" && !repaired.Load() {
					return nil, errors.New("the disk is broken")
				}
				return io.NopCloser(strings.NewReader("x")), nil
			}}
		}
		src, err := source.New(cat, &blob.Mem{}, source.Options{BaseURL: base, Sets: []source.Set{set("bad"), set("good")}})
		if err != nil {
			t.Fatal(err)
		}
		change := func(n int) {
			for _, name := range []string{"bad", "good"} {
				list, err := source.CapabilityListURI(base, name)
				if err != nil {
					t.Fatal(err)
				}
				u := catalog.Update{Record: catalog.Record{URI: fmt.Sprintf("%s%s/%d", base, name, n), Length: 1}}
				if _, err := cat.Apply(t.Context(), list, []catalog.Update{u}); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := src.Publish(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		change(0)
		var out bytes.Buffer
		d := &Dumps{Check: 10 * time.Second, Publish: src.PublishDumps, Sweep: func(context.Context) error { return nil }}
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- d.Run(ctx, &sourcereport.Reporter{IO: term.IO{Err: &out}}) }()
		for n := range 60 {
			time.Sleep(time.Minute)
			change(n + 1)
		}
		repaired.Store(true)
		time.Sleep(2 * time.Hour) // within which the set is tried again
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
		text := out.String()
		if n := strings.Count(text, "resource dump of set good"); n < 50 {
			t.Errorf("%d dumps of the other set in an hour, want one a minute:\n%s", n, text)
		}
		if n := strings.Count(text, "publish dumps of set bad: "); n < 8 || n > 10 {
			t.Errorf("%d failures reported, want them to become rare:\n%s", n, text)
		}
		if !strings.Contains(text, "trying again in 10s\n") || !strings.Contains(text, "trying again in 42m40s\n") || !strings.Contains(text, "resource dump of set bad") {
			t.Errorf("want longer and longer intervals, and a dump in the end:\n%s", text)
		}
	})
}
