package blob

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
)

// A Scratcher is a Store that has room for bytes nobody is meant to find: it
// lends files that are gone when they are closed, or their process ends.
type Scratcher interface {
	// Scratch returns an empty file.
	Scratch(ctx context.Context) (Scratch, error)
}

// A Scratch is a file without a name. It is written by one goroutine, in
// order, and may be read by several.
type Scratch interface {
	io.Writer
	io.ReaderAt
	io.Closer
	// Restart empties the file.
	Restart() error
}

// scratchBase begins the names temporary files have while they have one.
const scratchBase = "scratch"

// Scratch returns an empty file, in the directory for unfinished blobs. It has
// no name any more, where the system can do that; else until it is closed, and
// Sweep removes what a process left that was killed.
func (d *Dir) Scratch(ctx context.Context) (Scratch, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s := &dirScratch{store: d}
	var err error
	for range maxTries {
		if s.tmp, err = d.tmpFolder(true); err != nil {
			break
		}
		s.base = d.reserve(scratchBase)
		if s.File, err = createTmp(s.tmp, s.base); err == nil {
			s.dropName()
			return s, nil
		}
		d.release(s.base)
		if !errors.Is(err, fs.ErrNotExist) {
			break
		}
		d.forgetTmp(s.tmp) // somebody has removed the directory
	}
	return nil, nameError("create", d.opts.Tmp+"/"+scratchBase, err)
}

type dirScratch struct {
	*os.File
	store *Dir
	tmp   *folder
	base  string // its name; "" once it has none
}

// dropName removes the name, if it can be.
func (s *dirScratch) dropName() {
	err := s.tmp.root.Remove(s.base)
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		s.store.release(s.base)
		s.base = ""
	}
}

func (s *dirScratch) Restart() error {
	if err := s.Truncate(0); err != nil {
		return err
	}
	_, err := s.Seek(0, io.SeekStart)
	return err
}

func (s *dirScratch) Close() error {
	err := s.File.Close()
	if s.base != "" {
		s.dropName()
	}
	return err
}
