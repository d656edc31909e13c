// Package statedir makes the state directory of a process and locks it.
package statedir

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/gofrs/flock"

	"lockstep/cmd/lockstep/internal/term"
	"lockstep/internal/private"
)

// A holder says who works on a directory.
type holder struct {
	PID     int       `json:"pid"`
	Host    string    `json:"host"`
	Command string    `json:"command"`
	Since   time.Time `json:"since"`
}

// Lock takes the state directory of a Source for this process. The lock
// is the operating system's and ends with the process, however it ends; a file
// beside it says who holds it, since not every system lets others read a locked
// file.
func Lock(dir, command string) (release func(), err error) {
	path := filepath.Join(dir, "lock.json")
	lock := flock.New(filepath.Join(dir, "lock"))
	ok, err := lock.TryLock()
	if err != nil {
		return nil, fmt.Errorf("lock the state in %s: %w", dir, err)
	}
	if !ok {
		return nil, term.WithHint(fmt.Errorf("the state in %s is in use by %s", dir, readHolder(path)),
			"stop that process first, or give this one a --state of its own")
	}
	host, _ := os.Hostname() // "" tells little, and no more is needed
	text, err := json.Marshal(holder{PID: os.Getpid(), Host: host, Command: command, Since: time.Now().UTC().Truncate(time.Second)})
	if err == nil {
		err = errors.Join(private.Narrow(path), os.WriteFile(path, append(text, '\n'), private.FileMode))
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

// Make makes a state directory, which only its owner can read. One that is
// there may be the user's for other things, too: then it is reported, and what
// is in it is private by itself.
func Make(dir string, log *slog.Logger) error {
	if err := private.MakeDirs(dir); err != nil {
		return term.WithHint(fmt.Errorf("make the state directory: %w", err), "choose another one with --state")
	}
	if private.Wide(dir) {
		log.Warn("others can list the state directory, though not read what is in it: chmod 700 closes it", slog.String("dir", dir))
	}
	return nil
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
