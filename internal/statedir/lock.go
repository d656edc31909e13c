// Package statedir has the state directory of a Source or a hub: where it is by
// default, its lock, its small documents, and its identity, which marks the documents
// published from it. The small documents can be in a database instead.
package statedir

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/gofrs/flock"

	"lockstep/internal/private"
)

// A hinted error says what to do about it, for the command line.
type hinted struct {
	error
	hint string
}

func (e hinted) Unwrap() error { return e.error }

// Hint returns what to do.
func (e hinted) Hint() string { return e.hint }

// A holder is the process that has locked a directory.
type holder struct {
	PID     int       `json:"pid"`
	Host    string    `json:"host"`
	Command string    `json:"command"`
	Since   time.Time `json:"since"`
}

// ErrInUse reports a directory that another process has locked.
var ErrInUse = errors.New("in use by another process")

// An inUseError is ErrInUse with the directory and its holder.
type inUseError struct{ dir, holder string }

func (e *inUseError) Error() string {
	return fmt.Sprintf("the state in %s is in use by %s", e.dir, e.holder)
}

// Unwrap returns ErrInUse.
func (e *inUseError) Unwrap() error { return ErrInUse }

// Lock locks the state directory for this process. The operating system releases
// the lock when the process ends, however it ends. Because not every system lets
// others read a locked file, a file beside it names the process.
func Lock(dir, command string) (release func(), err error) {
	path := filepath.Join(dir, "lock.json")
	lock := flock.New(filepath.Join(dir, "lock"))
	ok, err := lock.TryLock()
	if err != nil {
		return nil, fmt.Errorf("lock the state in %s: %w", dir, err)
	}
	if !ok {
		hint := "stop that process first"
		if !strings.HasPrefix(command, "state ") { // which have no --state
			hint += ", or give this one a --state of its own"
		}
		return nil, hinted{&inUseError{dir, readHolder(path)}, hint}
	}
	host, _ := os.Hostname() // only for messages
	text, err := json.Marshal(holder{PID: os.Getpid(), Host: host, Command: command, Since: time.Now().UTC().Truncate(time.Second)})
	if err == nil {
		err = errors.Join(private.Narrow(path), os.WriteFile(path, append(text, '\n'), private.FileMode))
	}
	if err != nil {
		_ = lock.Close()
		return nil, fmt.Errorf("lock the state in %s: %w", dir, err)
	}
	return func() {
		_ = os.Remove(path) // it is only for messages
		_ = lock.Close()
	}, nil
}

// Holder returns which process has locked a state directory, in words; "" if none has. It does
// not wait, and creates nothing.
func Holder(dir string) string {
	name, path := filepath.Join(dir, "lock.json"), filepath.Join(dir, "lock")
	for _, file := range []string{name, path} { // without a name there is no holder, and a process that starts is not disturbed
		if _, err := os.Stat(file); err != nil {
			return ""
		}
	}
	lock := flock.New(path, flock.SetFlag(os.O_RDONLY))
	free, err := lock.TryRLock()
	_ = lock.Close() // it was only tried
	if err != nil || free {
		return ""
	}
	return readHolder(name)
}

// Make creates a state directory that only its owner can read. If the directory
// exists and others can list it, that is logged: the user may use it for other
// things too, and what Lockstep creates in it is private by itself.
func Make(dir string, log *slog.Logger) error {
	if err := private.MakeDirs(dir); err != nil {
		return hinted{fmt.Errorf("make the state directory: %w", err), "choose another one with --state"}
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
