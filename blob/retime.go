package blob

import (
	"context"
	"errors"
	"io/fs"
	"time"
)

// A Retimer is a Store that can set the modification time of a committed blob without
// writing the blob.
type Retimer interface {
	// Retime sets the modification time of the blob that was describes. It returns
	// ErrAltered if the size or the modification time, to the microsecond, is another.
	// The new time may be lost if the machine loses power.
	Retime(ctx context.Context, was Info, mod time.Time) error
}

// ErrAltered reports that a blob is not as it was described: another process has changed it.
var ErrAltered = errors.New("altered by another process")

// Retime implements [Retimer].
func (d *Dir) Retime(ctx context.Context, was Info, mod time.Time) error {
	return d.find(ctx, "set the time of", was.Name, func(*folder) error { return errors.ErrUnsupported }, func(in *folder, base string) error {
		info, err := in.lstat(base)
		switch {
		case err != nil:
			return err
		case !sameFile(info, &was):
			return ErrAltered
		}
		return in.root.Chtimes(base, time.Time{}, mod)
	})
}

func sameFile(info fs.FileInfo, was *Info) bool {
	return info.Size() == was.Size && info.ModTime().UnixMicro() == was.ModTime.UnixMicro()
}
