package freeport_test

import (
	"bytes"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"lockstep/internal/freeport"
)

func TestAddress(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for range 250 { // more than a block has
		address, err := freeport.Address(t.Context())
		if err != nil || seen[address] {
			t.Fatalf("Address = %s, %v; seen before: %t", address, err, seen[address])
		}
		seen[address] = true
		l, err := net.Listen("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = l.Close() })
	}
}

const printVar = "LOCKSTEP_TEST_FREEPORT"

// TestOfProcesses: processes that run at the same time get different addresses,
// although nothing listens on them yet.
func TestOfProcesses(t *testing.T) {
	if os.Getenv(printVar) != "" {
		for range 250 {
			address, err := freeport.Address(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			_, _ = os.Stdout.WriteString(address + "\n")
		}
		_, _ = os.Stdin.Read(make([]byte, 1)) // until the test closes it
		return
	}
	const processes = 8
	var mu sync.Mutex
	seen := map[string]bool{}
	var read sync.WaitGroup
	for range processes {
		cmd := exec.Command(os.Args[0], "-test.run=^TestOfProcesses$")
		cmd.Env = append(os.Environ(), printVar+"=1")
		stdin, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		stdout, err := cmd.StdoutPipe()
		if err == nil {
			err = cmd.Start()
		}
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			_ = stdin.Close()
			_ = cmd.Wait()
		})
		read.Go(func() {
			var text []byte
			for buffer := make([]byte, 4096); bytes.Count(text, []byte("\n")) < 250; {
				n, err := stdout.Read(buffer)
				text = append(text, buffer[:n]...)
				if err != nil {
					t.Errorf("it printed %q: %v", text, err)
					return
				}
			}
			mu.Lock()
			defer mu.Unlock()
			for address := range strings.Lines(string(text)) {
				if seen[address] {
					t.Errorf("two processes have %s", address)
				}
				seen[address] = true
			}
		})
	}
	read.Wait()
}
