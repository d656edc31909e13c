//go:build unix

package main

import (
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestHangupAtTheStartIsRemembered sends SIGHUP to serve while it reads its configuration
// file: the signal does not end it, and the file is read again once it is ready. Without a
// configuration file the signal ends it, as usual.
func TestHangupAtTheStartIsRemembered(t *testing.T) {
	t.Parallel()
	room := t.TempDir()
	write(t, filepath.Join(room, "files"), "a.txt", "a")
	config := filepath.Join(room, "config.yaml")
	if err := syscall.Mkfifo(config, 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("lockstep", "serve", "--config", config, "--listen", "127.0.0.1:0", "--state", filepath.Join(room, "state"))
	var stderr syncBuffer
	cmd.Stderr = &stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // it may have ended
		<-done
	})
	var pipe *os.File
	waitFor(t, "a reader of the file", func() bool {
		var err error
		pipe, err = os.OpenFile(config, os.O_WRONLY|syscall.O_NONBLOCK, 0)
		return err == nil
	})
	if err := cmd.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	text := fmt.Sprintf("sets:\n- {name: main, from: 'dir:%s'}\n", filepath.Join(room, "files"))
	write(t, room, "next.yaml", text)
	if err := os.Rename(filepath.Join(room, "next.yaml"), config); err != nil { // a pipe could not be read again
		t.Fatal(err)
	}
	if _, err := pipe.WriteString(text); err != nil {
		t.Fatal(err)
	}
	if err := pipe.Close(); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "the note", func() bool {
		return strings.Contains(stderr.String(), "note: the configuration was read again: it is the one in use")
	})

	if signal.Ignored(syscall.SIGHUP) { // as under nohup: a process without a configuration file inherits that
		return
	}
	without := exec.Command("lockstep", "serve", filepath.Join(room, "files"), "--listen", "127.0.0.1:0", "--state", filepath.Join(room, "other"))
	p, err := startReady(without)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.kill)
	if err := without.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	p.done <- <-p.done // for kill
}
