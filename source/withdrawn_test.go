package source_test

import (
	"context"
	"strings"
	"syscall"
	"testing"
	"time"

	"lockstep/blob"
	"lockstep/source"
)

// An unreadable is a store of which a part cannot be read or written.
type unreadable struct {
	blob.Store
	prefix string // "": none
}

func (u *unreadable) fails(name string) bool {
	return u.prefix != "" && strings.HasPrefix(name, u.prefix)
}

func (u *unreadable) Create(ctx context.Context, name string) (blob.Writer, error) {
	if u.fails(name) {
		return nil, syscall.EIO
	}
	return u.Store.Create(ctx, name)
}

func (u *unreadable) Open(ctx context.Context, name string) (blob.Reader, error) {
	if u.fails(name) {
		return nil, syscall.EIO
	}
	return u.Store.Open(ctx, name)
}

func (u *unreadable) Stat(ctx context.Context, name string) (blob.Info, error) {
	if u.fails(name) {
		return blob.Info{}, syscall.EIO
	}
	return u.Store.Stat(ctx, name)
}

// TestUnreadableSetIsNotWithdrawn: a set whose documents cannot be looked at just now remains in
// the Source Description; and one that waits for its origin does not keep the others from being
// published.
func TestUnreadableSetIsNotWithdrawn(t *testing.T) {
	t.Parallel()
	for _, held := range []bool{false, true} {
		hold := false
		w := newWorld(t, source.Options{Sets: []source.Set{{Name: "a", Hold: func() bool { return hold }}, {Name: "b"}}})
		docs := &unreadable{Store: w.docs}
		s, err := source.New(w.cat, docs, w.opts)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Publish(t.Context()); err != nil {
			t.Fatal(err)
		}
		description := func() string {
			r, err := w.docs.Open(t.Context(), ".well-known/resourcesync")
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			text := make([]byte, r.Info().Size)
			_, _ = r.ReadAt(text, 0)
			return string(text)
		}
		if !strings.Contains(description(), "/a/") || !strings.Contains(description(), "/b/") {
			t.Fatalf("%s", description())
		}
		hold, docs.prefix = held, "resourcesync/a/"
		w.pass(2 * time.Hour)
		r, err := s.Publish(t.Context())
		if err == nil || !strings.Contains(err.Error(), "set a") {
			t.Errorf("held %t: %v, want an error that names the set", held, err)
		}
		if len(r.Sets) != 2 {
			t.Errorf("held %t: %+v, want both sets", held, r)
		}
		if !strings.Contains(description(), "/a/") || !strings.Contains(description(), "/b/") {
			t.Errorf("held %t: a set was withdrawn: %s", held, description())
		}
	}
}
