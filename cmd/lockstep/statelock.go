package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/gofrs/flock"
)

// A holder says who works on a directory.
type holder struct {
	PID     int       `json:"pid"`
	Host    string    `json:"host"`
	Command string    `json:"command"`
	Since   time.Time `json:"since"`
}

// lockState takes the state directory of a Source for this process. The lock
// is the operating system's and ends with the process, however it ends; a file
// beside it says who holds it, since not every system lets others read a locked
// file.
func lockState(dir, command string) (release func(), err error) {
	path := filepath.Join(dir, "lock.json")
	lock := flock.New(filepath.Join(dir, "lock"))
	ok, err := lock.TryLock()
	if err != nil {
		return nil, fmt.Errorf("lock the state in %s: %w", dir, err)
	}
	if !ok {
		return nil, withHint(fmt.Errorf("the state in %s is in use by %s", dir, readHolder(path)),
			"stop that process first, or give this one a --state of its own")
	}
	host, _ := os.Hostname() // "" tells little, and no more is needed
	text, err := json.Marshal(holder{PID: os.Getpid(), Host: host, Command: command, Since: time.Now().UTC().Truncate(time.Second)})
	if err == nil {
		err = os.WriteFile(path, append(text, '\n'), 0o600)
	}
	if err != nil {
		_ = lock.Close()
		return nil, fmt.Errorf("lock the state in %s: %w", dir, err)
	}
	return func() {
		_ = os.Remove(path) // only says who holds it
		_ = lock.Close()
	}, nil
}

// readHolder names the holder of a lock in words.
func readHolder(path string) string {
	text, err := os.ReadFile(path)
	var h holder
	if err != nil || json.Unmarshal(text, &h) != nil || h.PID == 0 {
		return "another process"
	}
	return fmt.Sprintf("lockstep %s (process %d on %s, since %s)", h.Command, h.PID, h.Host, h.Since.Format(time.RFC3339))
}
