// Package contentstest is a test suite for implementations of [intake.Contents].
package contentstest

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"sync"
	"testing"

	"lockstep/intake"
)

// Run runs the suite on the Contents that open returns, empty each time.
func Run(t *testing.T, open func(t *testing.T) intake.Contents) {
	for name, f := range map[string]func(*testing.T, intake.Contents){
		"versions": versions, "sets": sets, "many": many, "concurrent": concurrent,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f(t, open(t))
		})
	}
}

// RunReopen opens Contents, stores some versions, and closes and reopens them.
func RunReopen(t *testing.T, open func() intake.Contents, shut func()) {
	must(t, open().Put(t.Context(), "s", []intake.Content{content("a", "1")}))
	shut()
	want(t, open(), "s", "a", "1", true)
	shut()
}

func content(uri, hash string) intake.Content {
	return intake.Content{URI: uri, Hash: hash, Bytes: bytesOf(uri, hash)}
}

func bytesOf(uri, hash string) []byte { return []byte("content " + uri + " " + hash + "\x00\xff") }

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// want checks that a version is stored, or is not.
func want(t *testing.T, c intake.Contents, set, uri, hash string, there bool) {
	t.Helper()
	b, err := c.Get(t.Context(), set, uri, hash)
	switch {
	case there && err != nil:
		t.Errorf("Get(%s, %s, %s): %v", set, uri, hash, err)
	case there && !bytes.Equal(b, bytesOf(uri, hash)):
		t.Errorf("Get(%s, %s, %s) = %q", set, uri, hash, b)
	case !there && !errors.Is(err, fs.ErrNotExist):
		t.Errorf("Get(%s, %s, %s) = %q, %v, want fs.ErrNotExist", set, uri, hash, b, err)
	}
}

func versions(t *testing.T, c intake.Contents) {
	ctx := t.Context()
	want(t, c, "s", "a", "1", false)
	must(t, c.Drop(ctx, "s", []string{"a"}))
	must(t, c.Settle(ctx, "s", []intake.Content{content("a", "1")}))
	must(t, c.Clear(ctx, "s"))
	must(t, c.Put(ctx, "s", []intake.Content{content("a", "1"), content("b", "1"), content("a", "1")}))
	must(t, c.Put(ctx, "s", []intake.Content{content("a", "2"), content("a", "3"), content("b", "1")}))
	for _, hash := range []string{"1", "2", "3"} {
		want(t, c, "s", "a", hash, true)
	}
	must(t, c.Settle(ctx, "s", []intake.Content{{URI: "a", Hash: "2"}, {URI: "a", Hash: "3"}}))
	want(t, c, "s", "a", "1", false)
	want(t, c, "s", "a", "2", true)
	want(t, c, "s", "a", "3", true)
	want(t, c, "s", "b", "1", true)
	must(t, c.Drop(ctx, "s", []string{"a", "c"}))
	want(t, c, "s", "a", "2", false)
	want(t, c, "s", "a", "3", false)
	want(t, c, "s", "b", "1", true)
}

func sets(t *testing.T, c intake.Contents) {
	ctx := t.Context()
	must(t, c.Put(ctx, "s", []intake.Content{content("a", "1")}))
	must(t, c.Put(ctx, "t", []intake.Content{content("a", "2")}))
	want(t, c, "s", "a", "2", false)
	must(t, c.Settle(ctx, "s", []intake.Content{content("a", "2")}))
	want(t, c, "t", "a", "2", true)
	must(t, c.Drop(ctx, "s", []string{"a"}))
	want(t, c, "t", "a", "2", true)
	must(t, c.Clear(ctx, "t"))
	want(t, c, "t", "a", "2", false)
}

// many puts and drops as many versions as a batch of records has.
func many(t *testing.T, c intake.Contents) {
	const n = 1234
	var cs []intake.Content
	var uris []string
	for i := range n {
		cs = append(cs, content(fmt.Sprint("https://example.org/", i), "1"))
		if i%2 == 0 {
			uris = append(uris, cs[i].URI)
		}
	}
	must(t, c.Put(t.Context(), "s", cs))
	must(t, c.Drop(t.Context(), "s", uris))
	for i, x := range cs {
		want(t, c, "s", x.URI, "1", i%2 == 1)
	}
}

func concurrent(t *testing.T, c intake.Contents) {
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			uri := fmt.Sprint(i)
			for j := range 5 {
				x := content(uri, fmt.Sprint(j))
				if err := c.Put(t.Context(), "s", []intake.Content{x}); err != nil {
					t.Error(err)
				}
				if err := c.Settle(t.Context(), "s", []intake.Content{x}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	for i := range 8 {
		want(t, c, "s", fmt.Sprint(i), "4", true)
		want(t, c, "s", fmt.Sprint(i), "3", false)
	}
}
