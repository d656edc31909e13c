package main

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
)

// sharedClocks is for make soak: the program is built for it, which takes a minute.
var sharedClocks = flag.Bool("shared-clocks", false, "let processes that share a state have clocks that are up to 5 minutes apart")

// sharingCommand returns a command of lockstep for a process that shares a state with others.
func sharingCommand(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	if !*sharedClocks {
		return exec.Command("lockstep", args...)
	}
	program, err := shiftedProgram()
	if err != nil {
		t.Fatal(err)
	}
	ahead := 150 * (rand.IntN(3) - 1)
	t.Logf("a clock is %d s ahead", ahead)
	cmd := exec.Command(program, args...)
	cmd.Env = append(os.Environ(), fmt.Sprint(clockVariable, "=", ahead))
	return cmd
}

// clockVariable says by how many seconds the clock of a shifted program is ahead.
const clockVariable = "CLOCK_AHEAD"

// shiftedNow is added to package time, and shifts what [time.Now] returns.
const shiftedNow = `
var ahead = func() (n int64) {
	text, _ := syscall.Getenv("` + clockVariable + `")
	for _, c := range text {
		if c >= '0' && c <= '9' {
			n = 10*n + int64(c-'0')
		}
	}
	if text != "" && text[0] == '-' {
		return -n
	}
	return n
}()
`

// shiftedProgram builds lockstep with a clock that can be shifted, once.
var shiftedProgram = sync.OnceValues(func() (string, error) {
	dir := os.Getenv("XDG_STATE_HOME") // removed after the tests
	root, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		return "", err
	}
	original := filepath.Join(string(bytes.TrimSpace(root)), "src", "time", "time.go")
	text, err := os.ReadFile(original)
	if err != nil {
		return "", err
	}
	for _, change := range [][2]string{
		{"import (\n", "import (\n\t\"syscall\"\n"},
		{"func Now() Time {\n\tsec, nsec, mono := runtimeNow()\n", "func Now() Time {\n\tsec, nsec, mono := runtimeNow()\n\tsec += ahead\n"},
	} {
		if n := bytes.Count(text, []byte(change[0])); n != 1 {
			return "", fmt.Errorf("%s has %q %d times: adapt this test to this version of Go", original, change[0], n)
		}
		text = bytes.Replace(text, []byte(change[0]), []byte(change[1]), 1)
	}
	changed := filepath.Join(dir, "time.go")
	overlay, err := json.Marshal(map[string]map[string]string{"Replace": {original: changed}})
	if err != nil {
		return "", err
	}
	replacements := filepath.Join(dir, "overlay.json")
	for name, text := range map[string][]byte{changed: append(text, shiftedNow...), replacements: overlay} {
		if err := os.WriteFile(name, text, 0o600); err != nil {
			return "", err
		}
	}
	program := filepath.Join(dir, "shifted") // not lockstep: states are there
	build := exec.Command("go", "build", "-overlay", replacements, "-o", program, ".")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w\n%s", err, out)
	}
	return program, nil
})
