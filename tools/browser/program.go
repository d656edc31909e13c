package browser

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"sync"
	"syscall"
	"testing"
	"time"
)

// built is the program, built once for all tests of a process.
var built = sync.OnceValues(func() (string, error) {
	if path := os.Getenv("LOCKSTEP_TEST_BINARY"); path != "" {
		return path, nil
	}
	dir, err := os.MkdirTemp("", "lockstep-browser-*")
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "lockstep")
	build := exec.Command("go", "build", "-o", path, "./cmd/lockstep")
	_, here, _, _ := runtime.Caller(0)
	build.Dir = filepath.Dir(filepath.Dir(filepath.Dir(here)))
	build.Stderr = os.Stderr
	return path, build.Run()
})

// Run starts the program in a directory, and returns the first group of the expression in
// its output. It ends with the test. LOCKSTEP_TEST_BINARY is the program; without it, it is built.
func Run(t *testing.T, dir, expression string, args ...string) string {
	t.Helper()
	path, err := built()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(path, args...)
	cmd.Dir = dir
	r, w := io.Pipe()
	cmd.Stdout, cmd.Stderr = w, w
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait() // it was asked to end
		_ = w.Close()
	})
	found := make(chan string, 1)
	wanted := regexp.MustCompile(expression)
	go func() {
		lines := bufio.NewScanner(r)
		for lines.Scan() {
			t.Log(lines.Text())
			if m := wanted.FindStringSubmatch(lines.Text()); m != nil {
				select {
				case found <- m[1]:
				default:
				}
			}
		}
	}()
	select {
	case text := <-found:
		return text
	case <-time.After(2 * time.Minute):
		t.Fatalf("lockstep %q does not print %s", args, expression)
		return ""
	}
}
