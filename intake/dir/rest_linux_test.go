package dir_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"lockstep/catalog"
	"lockstep/intake"
	"lockstep/intake/dir"
)

// TestWatchAtRest: a file that no process has open for writing is in the catalog soon
// after it was written; one that is still open is hashed once it has not changed for a
// while.
func TestWatchAtRest(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	cat := catalog.NewMem(nil)
	d, err := dir.New(root, cat, "set", dir.Options{BaseURI: "http://x.org/"})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	changed := make(chan struct{}, 1)
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	defer func() {
		stop()
		<-done
	}()
	go func() {
		done <- d.Watch(ctx, func(intake.Report) {
			select {
			case changed <- struct{}{}:
			case <-ctx.Done():
			}
		})
	}()
	if err := os.WriteFile(filepath.Join(root, "first"), []byte("1"), 0o644); err != nil {
		t.Fatal(err)
	}
	<-changed
	// The machine may be busy: the best of some says what is possible.
	best := func(write func(path string) (done func())) time.Duration {
		least := time.Minute
		for i := range 8 {
			path := filepath.Join(root, "file")
			if err := os.WriteFile(path, make([]byte, i+1), 0o644); err != nil {
				t.Fatal(err)
			}
			<-changed
			time.Sleep(20 * time.Millisecond) // a scan of what came late
			select {
			case <-changed:
			default:
			}
			start := time.Now() // before the write, after which a busy machine may run others first
			end := write(path)
			<-changed
			least = min(least, time.Since(start))
			end()
		}
		return least
	}
	const quiet = 200 * time.Millisecond
	closed := best(func(path string) func() {
		if err := os.WriteFile(path, []byte("whole, and longer than before"), 0o644); err != nil {
			t.Fatal(err)
		}
		return func() {}
	})
	if closed >= quiet/2 {
		t.Errorf("a file that was closed was catalogued after %s, want less than %s", closed, quiet/2)
	}
	open := best(func(path string) func() {
		f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
		if err == nil {
			_, err = f.WriteString("the first half of it")
		}
		if err != nil {
			t.Fatal(err)
		}
		return func() { _ = f.Close() }
	})
	if open < quiet {
		t.Errorf("a file that was still open was catalogued after %s, want %s or more", open, quiet)
	}
}
