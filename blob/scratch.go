package blob

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"

	"lockstep/internal/private"
)

// A Scratcher is a Store that provides temporary files, which no other process
// should find. They are removed when they are closed, or when their process
// ends.
type Scratcher interface {
	// Scratch returns an empty file.
	Scratch(ctx context.Context) (Scratch, error)
}

// A Scratch is a file without a name. One goroutine writes it, in order;
// several may read it.
type Scratch interface {
	io.Writer
	io.ReaderAt
	io.Closer
	// Restart empties the file.
	Restart() error
}

// scratchBase begins the names of temporary files, as long as they have one.
const scratchBase = "scratch"

// Scratch returns an empty file, in the directory for unfinished blobs. Its
// name is removed at once if the system supports that, otherwise when it is
// closed; Sweep removes files of processes that were killed.
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
		s.base = d.names.reserve(scratchBase)
		if s.File, err = createTmp(s.tmp, s.base, private.FileMode, createIn); err == nil {
			s.dropName()
			return s, nil
		}
		d.names.release(s.base)
		if !errors.Is(err, fs.ErrNotExist) {
			break
		}
		d.forgetTmp(s.tmp) // another process has removed the directory
	}
	return nil, nameError("create", d.opts.Tmp+"/"+scratchBase, err)
}

type dirScratch struct {
	*os.File
	store *Dir
	tmp   *folder
	base  string // its name; "" once it has none
}

// dropName removes the name, if possible.
func (s *dirScratch) dropName() {
	err := s.tmp.root.Remove(s.base)
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		s.store.names.release(s.base)
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
