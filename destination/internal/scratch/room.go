// Package scratch makes the files in which a run sorts what does not fit in
// memory. They have no names, so that nothing is left of them after a crash.
package scratch

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"lockstep/destination/journal"
	"lockstep/internal/extsort"
)

// A Room is where scratch files go.
type Room struct {
	dir string // "": in memory
	own bool
}

// RoomOf returns where the scratch files of j go.
func RoomOf(j journal.Journal) Room {
	if s, ok := j.(journal.Scratcher); ok {
		dir, own := s.ScratchDir()
		return Room{dir, own}
	}
	return Room{}
}

const (
	// maxScratch caps one scratch file, in addition to half of the free space
	// on the disk: endless lists must not fill it. A hundred million resources
	// take a fifth of it.
	maxScratch = 64 << 30

	// maxScratchMemory caps what is sorted in memory, compressed, for want of a
	// directory: one to two million entries with hashes, more without.
	maxScratchMemory = 80 << 20
)

// ErrFull reports that there was more to sort than there is scratch space.
var ErrFull = errors.New("not enough scratch space to sort what the Source says")

// Sorter returns a sorter with its scratch space in the room.
func (r Room) Sorter() *extsort.Sorter { return extsort.New(r.open) }

// open returns scratch space.
func (r Room) open() (extsort.Space, error) {
	if r.dir == "" {
		return memoryScratch(), nil
	}
	f, err := extsort.Unnamed(r.dir)
	if err != nil && !r.own {
		return memoryScratch(), nil
	}
	if err != nil {
		f, err = namedFile(r.dir)
	}
	if err != nil {
		return nil, fmt.Errorf("make a scratch file: %w", err)
	}
	limit, full := scratchLimit(freeSpace(f))
	return extsort.NewFile(f, limit, full), nil
}

// scratchLimit returns how large a scratch file may become on a disk with so
// much free space, -1 if that is not known, and the error when it is reached.
// Where nothing is free, the system reports it.
func scratchLimit(free int64) (limit int64, full error) {
	if limit = free / 2; limit > 0 && limit < maxScratch {
		return limit, fmt.Errorf("write a scratch file: more than %d MiB, half of the room there is: %w", limit>>20, syscall.ENOSPC)
	}
	return maxScratch, fmt.Errorf("%w: more than %d GiB", ErrFull, maxScratch>>30)
}

func memoryScratch() extsort.Space {
	return extsort.NewMemory(maxScratchMemory, fmt.Errorf("%w: more than %d MiB of memory", ErrFull, maxScratchMemory>>20))
}

// namedFile creates a file in dir and removes its name: at once if the system
// allows that, otherwise the next call does. No other process creates such
// files there, see package lock.
func namedFile(dir string) (*os.File, error) {
	for i := 0; ; i++ {
		name := filepath.Join(dir, fmt.Sprint("scratch-", i))
		f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
		if err == nil {
			_ = os.Remove(name) // what cannot be yet is found again
			return f, nil
		}
		if !errors.Is(err, fs.ErrExist) || i == maxNamed {
			return nil, err
		}
		if os.Remove(name) == nil { // left by a killed process
			i--
		}
	}
}

// maxNamed is how many scratch files a process may have where names cannot be
// removed while files are open.
const maxNamed = 100
