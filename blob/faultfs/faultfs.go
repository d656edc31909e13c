// Package faultfs lets writes to a [blob.Store] fail, so that tests can show
// what their code promises for full disks, dead processes and power cuts.
//
//	faults := &faultfs.Faults{At: 7, Err: syscall.ENOSPC}
//	store := &faultfs.Store{Store: new(blob.Mem), Faults: faults}
//
// Operations that write are counted: Create, each Write, each blob of a Commit,
// each name of a Remove, Keep, Move and Sweep. A test repeats a short history with
// the fault at the first, the second, the third operation, and so on. Other stores,
// for example a journal, share the count by calling [Faults.Step].
package faultfs

import (
	"errors"
	"math/rand/v2"
	"sync"
	"syscall"
)

// ErrCrash is the usual error of operations of a process that is dead.
var ErrCrash = errors.New("crashed")

// A Mode determines what happens from the first fault on.
type Mode int

const (
	// Full has writes fail, as on a full or read-only disk. Reads succeed.
	Full Mode = iota

	// Killed has everything fail until [Faults.Restart]: the process is dead. What
	// it wrote stays, unfinished blobs included.
	Killed

	// PowerCut is like Killed, and the disk loses what was not durable yet: of the
	// Commit or Remove that is under way any part may have reached the disk, in any
	// order, and the bytes of a Write are zeros.
	PowerCut
)

// Faults counts operations that write, and chooses those that fail. The zero value
// lets all succeed. All methods are safe for concurrent use.
type Faults struct {
	At    int    // number of the first operation that fails, from 1; 0: none
	Count int    // how many operations in a row fail; 0: all that follow. Only of Full
	Err   error  // of the operations that fail; default ErrCrash
	Mode  Mode   // what happens at the first fault
	Room  int64  // how many bytes can be written before the disk is full; 0: any number
	After func() // called after each operation whose result is visible; may be nil

	mu    sync.Mutex // guards what follows, and At and Mode once the first operation began
	steps int
	bytes int64
	down  bool
}

// Step counts one operation that writes, and returns the error with which it is to
// fail.
func (f *Faults) Step() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.steps++
	return f.fault()
}

// fault returns the error of the operation that was counted last. The caller holds
// f.mu.
func (f *Faults) fault() error {
	switch {
	case f.down:
	case f.At == 0 || f.steps < f.At:
		return nil
	case f.Mode != Full:
		f.down = true
	case f.Count > 0 && f.steps >= f.At+f.Count:
		return nil
	}
	return f.error()
}

func (f *Faults) error() error {
	if f.Err != nil {
		return f.Err
	}
	return ErrCrash
}

// read returns the error of an operation that only reads.
func (f *Faults) read() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.down {
		return f.error()
	}
	return nil
}

// Steps returns how many operations were counted.
func (f *Faults) Steps() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.steps
}

// Arm lets the operation fail that is the nth from now on.
func (f *Faults) Arm(n int, mode Mode) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.At, f.Mode = f.steps+n, mode
}

// Restart lets all operations succeed from now on: there is room again, or the
// process was started again.
func (f *Faults) Restart() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.At, f.Room, f.down = 0, 0, false
}

// isDown reports whether the process is dead.
func (f *Faults) isDown() bool { return f.read() != nil }

// fits returns how many of n bytes fit on the disk.
func (f *Faults) fits(n int) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.Room > 0 && f.bytes+int64(n) > f.Room {
		n = int(f.Room - f.bytes)
		f.bytes = f.Room
		return n, syscall.ENOSPC
	}
	f.bytes += int64(n)
	return n, nil
}

// skip counts n operations of which none is to fail, and no test looks between
// them; or it counts none, and returns false.
func (f *Faults) skip(n int) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.After != nil || f.down || f.At > 0 && f.At <= f.steps+n {
		return false
	}
	f.steps += n
	return true
}

// survivors decides before n operations on disk, which become durable together,
// whether the power is cut during them. If so, it returns which of them reached the
// disk.
func (f *Faults) survivors(n int) (survive []bool, cut bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.Mode != PowerCut || f.down || f.At <= f.steps || f.At > f.steps+n {
		return nil, false
	}
	random := rand.New(rand.NewPCG(uint64(f.At), uint64(n)))
	survive = make([]bool, n)
	for i := range survive {
		survive[i] = random.IntN(2) == 0
	}
	f.steps, f.down = f.At, true
	return survive, true
}

// visible reports to the test that the result of an operation is visible.
func (f *Faults) visible() {
	if f.After != nil {
		f.After()
	}
}
