package scratch

import (
	"errors"
	"os"
	"strings"
	"syscall"
	"testing"
)

// TestScratchLimits: the error distinguishes a full disk from a configured limit.
func TestScratchLimits(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		free int64
		want error
		text string
	}{
		{3 << 20, syscall.ENOSPC, "more than 1 MiB, half of the room there is"},
		{2 << 10, syscall.ENOSPC, "more than 0 MiB, half of the room there is"},
		{maxScratch, syscall.ENOSPC, "more than 32768 MiB, half of the room there is"},
		{2 * maxScratch, ErrFull, "more than 64 GiB"},
		{-1, ErrFull, "more than 64 GiB"},
	} {
		limit, full := scratchLimit(tt.free)
		if tt.free > 0 && limit > tt.free/2 || !errors.Is(full, tt.want) || !strings.Contains(full.Error(), tt.text) {
			t.Errorf("%d bytes free: limit %d, %v", tt.free, limit, full)
		}
	}
	f, err := namedFile(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if free := freeSpace(f); free == 0 {
		t.Error("a file in the temporary directory has no room")
	}
}

// TestNamedFile makes scratch files where files have names, beside one that was
// left by a killed process.
func TestNamedFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.WriteFile(dir+"/scratch-0", []byte("left"), 0o600); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		f, err := namedFile(dir)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if info, err := f.Stat(); err != nil || info.Size() != 0 {
			t.Errorf("a scratch file has %v, %v", info.Size(), err)
		}
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}
