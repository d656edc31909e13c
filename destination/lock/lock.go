package lock

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/gofrs/flock"

	"lockstep/blob"
	"lockstep/destination/filename"
	"lockstep/internal/fetch"
	"lockstep/internal/private"
)

const lockFile = filename.StateDir + "/lock"

// A Holder is the process that has locked a mirror.
type Holder struct {
	PID     int       `json:"pid"`
	Host    string    `json:"host"`
	Command string    `json:"command"`
	Since   time.Time `json:"since"`
}

// An InUseError reports that another process has locked the mirror.
type InUseError struct {
	Dest   string
	Holder Holder // zero if unknown
}

func (e *InUseError) Error() string {
	if e.Holder.PID == 0 {
		return fmt.Sprintf("%s is in use by another process", e.Dest)
	}
	return fmt.Sprintf("%s is in use by process %d on %s (%s) since %s", e.Dest, e.Holder.PID,
		fetch.Printable(e.Holder.Host), fetch.Printable(e.Holder.Command), e.Holder.Since.UTC().Format("2006-01-02 15:04:05Z"))
}

// A Lock is the exclusive right to write to a mirror.
type Lock struct {
	file *flock.Flock
}

// Acquire locks the mirror in the directory dest for this process, and creates
// the directory if it does not exist. The operating system releases the lock when
// the process ends, even if it is killed. If another process has locked the mirror
// the error is an [InUseError] that names it.
func Acquire(dest string) (*Lock, error) {
	path := filepath.Join(dest, filepath.FromSlash(lockFile))
	if err := makeOwn(dest); err != nil {
		return nil, fmt.Errorf("lock %s: %w", dest, err)
	}
	l := &Lock{flock.New(path)}
	// A process that has just locked the mirror is about to write its name.
	ctx, cancel := context.WithTimeout(context.Background(), lockPatience)
	defer cancel()
	switch ok, err := l.file.TryLockContext(ctx, lockPatience/4); {
	case errors.Is(err, context.DeadlineExceeded), err == nil && !ok:
		return nil, &InUseError{dest, readHolder(path)}
	case err != nil:
		return nil, fmt.Errorf("lock %s: %w", dest, err)
	}
	host, _ := os.Hostname() // only for messages
	// Only the first word of the command line: flags and addresses contain secrets.
	command := strings.Join(os.Args[:min(len(os.Args), 2)], " ")
	h := Holder{os.Getpid(), host, command, time.Now().UTC().Truncate(time.Second)}
	text, err := json.Marshal(h)
	if err == nil {
		err = errors.Join(private.Narrow(path), os.WriteFile(path, append(text, '\n'), private.FileMode))
	}
	if err != nil {
		_ = l.file.Unlock() // err says more
		return nil, fmt.Errorf("lock %s: %w", dest, err)
	}
	return l, nil
}

// Look reports whether a process has locked the mirror in the directory dest, and which, as
// far as it is known. It does not wait. If held is false and h is not zero, that process was
// killed.
func Look(dest string) (h Holder, held bool) {
	path := filepath.Join(dest, filepath.FromSlash(lockFile))
	if _, err := os.Stat(path); err != nil {
		return h, false // and none is created
	}
	l := flock.New(path, flock.SetFlag(os.O_RDONLY))
	free, err := l.TryRLock()
	_ = l.Close() // it was only tried
	if err != nil {
		return h, false
	}
	return readHolder(path), !free
}

// lockPatience is how long to wait for a lock: its holder may be about to end.
const lockPatience = 200 * time.Millisecond

// makeOwn creates the state directory, which must not be a symbolic link.
func makeOwn(dest string) error {
	own := filepath.Join(dest, filename.StateDir)
	if err := blob.MakePrivateDir(own); err != nil { // durable, like the files in it
		return err
	}
	for _, p := range []string{own, filepath.Join(dest, filepath.FromSlash(lockFile))} {
		info, err := os.Lstat(p)
		switch {
		case errors.Is(err, os.ErrNotExist):
		case err != nil:
			return err
		case info.Mode()&os.ModeSymlink != 0:
			return fmt.Errorf("%s is a symbolic link", p)
		}
	}
	return nil
}

// Close releases the lock.
func (l *Lock) Close() error {
	// Remove the name before the lock is released: no process reads an outdated one.
	_ = os.Truncate(l.file.Path(), 0) // only the lock matters
	if err := l.file.Close(); err != nil {
		return fmt.Errorf("unlock: %w", err)
	}
	return nil
}

func readHolder(path string) (h Holder) {
	text, err := os.ReadFile(path)
	if err != nil || json.Unmarshal(text, &h) != nil {
		return Holder{}
	}
	return h
}
