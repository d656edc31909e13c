package mirror

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"lockstep/cmd/lockstep/internal/term"
	"lockstep/destination"
	"lockstep/discover"
)

// IsMirror reports whether there is a mirror, or the state of one in a bucket,
// in the directory that address may be.
func IsMirror(address string) bool {
	if strings.Contains(address, "://") {
		return false
	}
	_, err := os.Stat(filepath.Join(address, filepath.FromSlash(destination.StateFile)))
	return err == nil
}

// CheckSource refuses what cannot be the address of a Source, before anything
// is made for it. A mirror is one of what it was, if past is what is wanted.
func (o *Selection) CheckSource(past bool) error {
	if IsMirror(o.Source) {
		if past {
			return nil
		}
		return term.Usage(fmt.Errorf("%s is a mirror, not a Source", o.Source), "sync --at TIME copies an earlier state of it; for the present state, give the address that it mirrors")
	}
	err := discover.Check(o.Source)
	if _, unread := errors.AsType[*fs.PathError](err); err == nil || unread {
		return err
	}
	return term.Usage(err, "")
}

// SameDir reports whether two names are those of one directory.
func SameDir(a, b string) bool {
	one, err := os.Stat(a)
	other, oerr := os.Stat(b)
	return errors.Join(err, oerr) == nil && os.SameFile(one, other)
}
