package distcheck

import (
	"bytes"
	"debug/elf"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"
)

// The budgets of the program. A megabyte is 1,000,000 bytes.
const (
	maxBinary  = 40e6
	maxVersion = 15 * time.Millisecond // of `lockstep version`, from start to end
	maxIdle    = 40e6                  // of the memory of `lockstep serve` without requests
)

// TestBinary: the program is static, has no symbols, and is not too large.
func TestBinary(t *testing.T) {
	t.Parallel()
	path := program(t)
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("the program has %.1f MB of at most %.0f MB", float64(info.Size())/1e6, maxBinary/1e6)
	if info.Size() > maxBinary {
		t.Errorf("the program is too large; `go tool nm -size -sort size` of one with symbols names what is large")
	}
	f, err := elf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if libraries, err := f.ImportedLibraries(); err != nil || len(libraries) > 0 {
		t.Errorf("the program needs the libraries %q, %v, want a static one", libraries, err)
	}
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP {
			t.Error("the program needs a loader")
		}
	}
	if f.Section(".symtab") != nil || f.Section(".debug_info") != nil {
		t.Error("the program has symbols, want it stripped")
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	if repository := filepath.Dir(filepath.Dir(dir)); bytes.Contains(data, []byte(repository+"/")) {
		t.Errorf("the program contains the path %s of this machine", repository)
	}
}

// TestVersionTime: the program says which version it is, in little time. The quickest
// of several starts counts, since this machine may be busy.
func TestVersionTime(t *testing.T) {
	path := program(t)
	archive := filepath.Base(result(t, "lockstep_*_"+runtime.GOOS+"_"+runtime.GOARCH+".tar.gz"))
	version, _, _ := strings.Cut(strings.TrimPrefix(archive, "lockstep_"), "_")
	best := time.Hour
	for range 100 {
		started := time.Now()
		if out, err := exec.Command(path, "version").Output(); err != nil || !strings.HasPrefix(string(out), "lockstep "+version+" (") {
			t.Fatalf("lockstep version = %q, %v", out, err)
		}
		if best = min(best, time.Since(started)); best < maxVersion/2 {
			break
		}
	}
	t.Logf("lockstep version takes %.1f ms of at most %d ms", float64(best.Microseconds())/1e3, maxVersion.Milliseconds())
	if best > maxVersion {
		t.Errorf("lockstep version takes too long; GODEBUG=inittrace=1 lists what is initialized at the start")
	}
}

// TestIdleMemory measures the resident memory of a small Source without requests.
func TestIdleMemory(t *testing.T) {
	path, files := program(t), t.TempDir()
	if err := os.WriteFile(filepath.Join(files, "a.txt"), []byte("a"), 0o644); err != nil {
		t.Fatal(err)
	}
	s := start(t, exec.Command(path, "serve", files, "--listen", "127.0.0.1:0", "--state", t.TempDir()))
	least := residentMemory(t, s.cmd.Process.Pid)
	for range 30 {
		time.Sleep(100 * time.Millisecond) // it is idle meanwhile
		least = min(least, residentMemory(t, s.cmd.Process.Pid))
	}
	t.Logf("serve uses %.1f MB of at most %.0f MB when it is idle", float64(least)/1e6, maxIdle/1e6)
	if least > maxIdle {
		t.Errorf("serve uses too much memory when it is idle")
	}
	s.end(t)
}

// residentMemory returns how much memory of a process is resident, in bytes.
func residentMemory(t *testing.T, pid int) int64 {
	t.Helper()
	status, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "status"))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(status)) {
		if f := strings.Fields(line); len(f) == 3 && f[0] == "VmRSS:" {
			kB, err := strconv.ParseInt(f[1], 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			return kB * 1024
		}
	}
	t.Fatal("/proc has no VmRSS")
	return 0
}
