//go:build linux

package bench

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// memoryPoll is how often a process is asked for its peak memory.
const memoryPoll = 4 * time.Millisecond

// needs skips the benchmark unless the programs are installed.
func needs(b *testing.B, programs ...string) {
	b.Helper()
	for _, program := range programs {
		if _, err := exec.LookPath(program); err != nil {
			b.Skipf("needs %s: %v", program, err)
		}
	}
}

// compressed returns text in the gzip format.
func compressed(text []byte) []byte {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, _ = w.Write(text) // into memory
	_ = w.Close()
	return b.Bytes()
}

// timed runs c and returns its seconds and its peak memory in bytes. The peak
// is the kernel's figure for the running process: that of an ended process
// includes the memory of the process that started it.
func timed(b *testing.B, c *exec.Cmd) (seconds float64, peak int64) {
	b.Helper()
	c.Stdout = io.Discard
	if c.Stderr == nil {
		c.Stderr = os.Stderr
	}
	start := time.Now()
	if err := c.Start(); err != nil {
		b.Fatal(err)
	}
	done, peaks := make(chan struct{}), make(chan int64)
	go func() {
		tick := time.NewTicker(memoryPoll)
		defer tick.Stop()
		var most int64
		for {
			select {
			case <-done:
				peaks <- most
				return
			case <-tick.C:
				most = max(most, peakMemory(c.Process.Pid, c.Args))
			}
		}
	}()
	err := c.Wait()
	seconds = time.Since(start).Seconds()
	close(done)
	peak = <-peaks
	if err != nil {
		b.Fatal(err)
	}
	return seconds, peak
}

// peakMemory returns the peak resident memory of a running process in bytes; 0
// if it has ended, or has not yet executed args: until then its memory is that
// of the process that starts it.
func peakMemory(pid int, args []string) int64 {
	line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	if err != nil || string(line) != strings.Join(args, "\x00")+"\x00" {
		return 0
	}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	_, rest, _ := bytes.Cut(status, []byte("VmHWM:"))
	size, _, _ := bytes.Cut(rest, []byte(" kB"))
	kb, _ := strconv.ParseInt(string(bytes.TrimSpace(size)), 10, 64) // absent in a process that is ending
	return kb << 10
}

// processorTimeOf returns the processor time a running process has used, to the
// hundredth of a second.
func processorTimeOf(tb testing.TB, pid int) time.Duration {
	tb.Helper()
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		tb.Fatal(err)
	}
	var ticks int
	for _, f := range bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])[11:13] { // of the program, of the kernel for it
		n, err := strconv.Atoi(string(f))
		if err != nil {
			tb.Fatal(err)
		}
		ticks += n
	}
	return time.Duration(ticks) * 10 * time.Millisecond
}

func median(s []float64) float64 {
	s = slices.Sorted(slices.Values(s))
	return s[len(s)/2]
}
