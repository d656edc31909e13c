package destination

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

// What stands in the directory of our own in a mirror.
const (
	StateFile = filename.StateDir + "/state.db" // the Journal
	lockFile  = filename.StateDir + "/lock"
)

// A Holder is the process that has a mirror.
type Holder struct {
	PID     int       `json:"pid"`
	Host    string    `json:"host"`
	Command string    `json:"command"`
	Since   time.Time `json:"since"`
}

// An InUseError reports a mirror that another process is at.
type InUseError struct {
	Dest   string
	Holder Holder // zero if it does not say
}

func (e *InUseError) Error() string {
	if e.Holder.PID == 0 {
		return fmt.Sprintf("%s is in use by another process", e.Dest)
	}
	return fmt.Sprintf("%s is in use by process %d on %s (%s) since %s", e.Dest, e.Holder.PID,
		fetch.Printable(e.Holder.Host), fetch.Printable(e.Holder.Command), e.Holder.Since.Local().Format(time.DateTime))
}

// A Lock is the right to write to a mirror.
type Lock struct {
	file *flock.Flock
}

// LockDir takes the mirror in the directory dest for this process, and makes
// the directory where there is none. The operating system ends the lock with
// the process, however it ends: a dead holder never blocks. When another
// process has the mirror the error is an [InUseError] that names it.
func LockDir(dest string) (*Lock, error) {
	path := filepath.Join(dest, filepath.FromSlash(lockFile))
	if err := makeOwn(dest); err != nil {
		return nil, fmt.Errorf("lock %s: %w", dest, err)
	}
	l := &Lock{flock.New(path)}
	// Who has just taken it writes its name in a moment.
	ctx, cancel := context.WithTimeout(context.Background(), lockPatience)
	defer cancel()
	switch ok, err := l.file.TryLockContext(ctx, lockPatience/4); {
	case errors.Is(err, context.DeadlineExceeded), err == nil && !ok:
		return nil, &InUseError{dest, readHolder(path)}
	case err != nil:
		return nil, fmt.Errorf("lock %s: %w", dest, err)
	}
	host, _ := os.Hostname() // only to be shown
	// No more of the command line than its first word: flags and addresses hold secrets.
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

// lockPatience is how long a lock is waited for: the holder may be about to end.
const lockPatience = 200 * time.Millisecond

// makeOwn makes the directory of our own, which must not be a link to
// somewhere else.
func makeOwn(dest string) error {
	own := filepath.Join(dest, filename.StateDir)
	if err := blob.MakePrivateDir(own); err != nil { // durable, as all below it shall be
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

// Close gives the mirror free.
func (l *Lock) Close() error {
	// The name goes while the lock still holds: nobody reads a holder that is gone.
	_ = os.Truncate(l.file.Path(), 0) // the lock is what counts
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
