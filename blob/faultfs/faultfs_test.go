package faultfs_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"syscall"
	"testing"

	"lockstep/blob"
	"lockstep/blob/blobtest"
	"lockstep/blob/faultfs"
)

func TestWithoutFaults(t *testing.T) {
	t.Parallel()
	blobtest.Run(t, func(t *testing.T) blob.Store {
		return &faultfs.Store{Store: new(blob.Mem), Faults: new(faultfs.Faults)}
	})
}

// put commits blobs of these names, all at once.
func put(s blob.Store, names ...string) error {
	ctx := context.Background()
	var ws []blob.Writer
	for _, name := range names {
		w, err := s.Create(ctx, name)
		if err != nil {
			return err
		}
		defer w.Close()
		if _, err := io.WriteString(w, "content of "+name); err != nil {
			return err
		}
		ws = append(ws, w)
	}
	return s.Commit(ctx, ws...)
}

func names(t *testing.T, s blob.Store) string {
	t.Helper()
	var all []string
	for info, err := range s.List(t.Context(), "") {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, info.Name)
	}
	return strings.Join(all, " ")
}

func TestKillLeavesThePartOfACommitThatWasDone(t *testing.T) {
	t.Parallel()
	inner := new(blob.Mem)
	f := &faultfs.Faults{At: 8, Mode: faultfs.Killed} // 6 to create and write
	s := &faultfs.Store{Store: inner, Faults: f}
	if err := put(s, "a", "b", "c"); !errors.Is(err, faultfs.ErrCrash) {
		t.Fatal(err)
	}
	if _, err := s.Open(t.Context(), "a"); !errors.Is(err, faultfs.ErrCrash) {
		t.Errorf("Open = %v, want the process to be dead", err)
	}
	if got := names(t, inner); got != "a" {
		t.Errorf("there are %q, want a", got)
	}
	f.Restart()
	if err := put(s, "d"); err != nil || names(t, s) != "a d" {
		t.Errorf("%v, %q after a restart", err, names(t, s))
	}
}

func TestPowerCutLeavesAnyPartOfACommit(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for at := 7; at < 10; at++ {
		for pad := range 20 {
			inner := new(blob.Mem)
			s := &faultfs.Store{Store: inner, Faults: &faultfs.Faults{At: at + 3*pad, Mode: faultfs.PowerCut}}
			for i := range pad {
				if err := put(s, fmt.Sprint(i)); err != nil {
					t.Fatal(err)
				}
			}
			if err := inner.Remove(t.Context(), strings.Fields(names(t, inner))...); err != nil {
				t.Fatal(err)
			}
			if err := put(s, "a", "b", "c"); !errors.Is(err, faultfs.ErrCrash) {
				t.Fatal(err)
			}
			seen[names(t, inner)] = true
		}
	}
	if len(seen) != 8 {
		t.Errorf("saw %d of 8 subsets: %v", len(seen), seen)
	}
}

func TestADiskIsFullAfterSoManyBytes(t *testing.T) {
	t.Parallel()
	f := &faultfs.Faults{Room: 15}
	s := &faultfs.Store{Store: new(blob.Mem), Faults: f}
	if err := put(s, "a"); err != nil {
		t.Fatal(err)
	}
	if err := put(s, "b"); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("put = %v, want ENOSPC", err)
	}
	f.Restart()
	if err := put(s, "b"); err != nil {
		t.Error(err)
	}
}

func TestADeadProcessLeavesUnfinishedBlobs(t *testing.T) {
	t.Parallel()
	dir, err := blob.NewDir(t.TempDir(), blob.DirOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	if err := put(&faultfs.Dir{Dir: dir, Faults: &faultfs.Faults{At: 3, Mode: faultfs.Killed}}, "a"); !errors.Is(err, faultfs.ErrCrash) {
		t.Fatal(err)
	}
	w, there, err := dir.Resume(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	if there.Size() == 0 {
		t.Error("nothing is left")
	}
	_ = w.Close() // checked above
}
