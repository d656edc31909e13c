package vault

import (
	"context"
	"fmt"
	"io"
	"os"

	"lockstep/blob"
)

// A spool receives the bytes of a blob whose name is not known before the end.
// It holds some in memory; the rest goes directly to the store if that can
// rename the blob later, and otherwise to an unnamed file.
type spool struct {
	store blob.Store
	mem   []byte
	w     blob.Writer // nil: all is in mem or file
	file  *os.File
	named bool // the file could not be unlinked while open
}

// provisional is the name of a blob before its name is known.
const provisional = "new"

func (s *spool) write(ctx context.Context, p []byte) error {
	if s.w == nil && s.file == nil {
		if len(s.mem) == 0 {
			s.mem = append(s.mem, magic...)
		}
		if len(s.mem)+len(p) <= spoolSize {
			s.mem = append(s.mem, p...)
			return nil
		}
	}
	if len(s.mem)+len(p) > spoolSize {
		if err := s.flush(ctx); err != nil {
			return err
		}
	}
	s.mem = append(s.mem, p...)
	return nil
}

// flush writes what is in memory to the store or file.
func (s *spool) flush(ctx context.Context) error {
	if s.w == nil && s.file == nil {
		if err := s.begin(ctx); err != nil {
			return err
		}
	}
	var err error
	if s.w != nil {
		_, err = s.w.Write(s.mem)
	} else {
		_, err = s.file.Write(s.mem)
	}
	s.mem = s.mem[:0]
	return err
}

func (s *spool) begin(ctx context.Context) error {
	w, err := s.store.Create(ctx, provisional)
	if err != nil {
		return err
	}
	if _, can := w.(blob.Renamer); can {
		s.w = w
		return nil
	}
	if err := w.Close(); err != nil {
		return err
	}
	if s.file, err = os.CreateTemp("", "lockstep-vault-*"); err != nil {
		return fmt.Errorf("keep what is to be written: %w", err)
	}
	s.named = os.Remove(s.file.Name()) != nil
	return nil
}

// end writes the blob's last bytes and returns it under its name, to be
// committed.
func (s *spool) end(ctx context.Context, name string, last []byte) (blob.Writer, error) {
	if err := s.write(ctx, last); err != nil {
		return nil, err
	}
	w := s.w
	var err error
	if w == nil {
		if w, err = s.store.Create(ctx, name); err != nil {
			return nil, err
		}
	} else if err := w.(blob.Renamer).Rename(name); err != nil {
		return nil, err
	}
	s.w = w // Close drops it
	if s.file != nil {
		if _, err := s.file.Seek(0, io.SeekStart); err != nil {
			return nil, err
		}
		if _, err := io.Copy(w, s.file); err != nil {
			return nil, err
		}
	}
	if _, err := w.Write(s.mem); err != nil {
		return nil, err
	}
	if sealer, can := w.(blob.Sealer); can {
		if _, err := sealer.Seal(); err != nil {
			return nil, err
		}
	}
	s.w = nil
	return w, s.Close()
}

// Close drops what end has not returned.
func (s *spool) Close() error {
	s.mem = nil
	if s.file != nil {
		_ = s.file.Close() // it is never read again
		if s.named {
			_ = os.Remove(s.file.Name()) // an empty file remains if this fails
		}
		s.file = nil
	}
	if s.w == nil {
		return nil
	}
	w := s.w
	s.w = nil
	return w.Close()
}
