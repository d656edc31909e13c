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
			default: // there is one to look at already
			}
		})
	}()
	if err := os.WriteFile(filepath.Join(root, "first"), []byte("1"), 0o644); err != nil {
		t.Fatal(err)
	}
	<-changed
	catalogued := func(length int64) {
		for {
			rec, ok, err := catalog.Find(ctx, cat, "set", "http://x.org/file")
			if err != nil {
				t.Fatal(err)
			}
			if ok && rec.Length == length {
				return
			}
			<-changed
		}
	}
	// The machine may be busy: the best of some says what is possible. More are tried
	// until one is below enough.
	best := func(enough time.Duration, write func(path string) (length int64, done func())) time.Duration {
		least := time.Hour
		for i := 0; i < 8 || least >= enough && i < 100; i++ {
			path := filepath.Join(root, "file")
			if err := os.WriteFile(path, make([]byte, i+1), 0o644); err != nil {
				t.Fatal(err)
			}
			catalogued(int64(i) + 1)
			start := time.Now() // before the write, after which a busy machine may run others first
			length, end := write(path)
			catalogued(length)
			least = min(least, time.Since(start))
			end()
		}
		return least
	}
	const quiet = 200 * time.Millisecond
	closed := best(quiet/2, func(path string) (int64, func()) {
		if err := os.WriteFile(path, make([]byte, 1000), 0o644); err != nil {
			t.Fatal(err)
		}
		return 1000, func() {}
	})
	if closed >= quiet/2 {
		t.Errorf("a file that was closed was catalogued after %s, want less than %s", closed, quiet/2)
	}
	open := best(time.Hour, func(path string) (int64, func()) {
		f, err := os.OpenFile(path, os.O_WRONLY, 0)
		if err == nil {
			_, err = f.Write(make([]byte, 500))
		}
		if err != nil {
			t.Fatal(err)
		}
		return 500, func() { _ = f.Close() }
	})
	if open < quiet {
		t.Errorf("a file that was still open was catalogued after %s, want %s or more", open, quiet)
	}
}
