package versions

import (
	"errors"
	"testing"

	"lockstep/internal/statedir"
)

// A countingFile counts how often a note is saved, which may fail.
type countingFile struct {
	statedir.Files
	saved int
	fails bool
}

func (c *countingFile) Save(name string, content []byte) error {
	if c.fails {
		return errors.New("the disk is full")
	}
	c.saved++
	return c.Files.Save(name, content)
}

// TestMark: a mark is written once, and again if that failed.
func TestMark(t *testing.T) {
	t.Parallel()
	notes := &countingFile{Files: statedir.Files(t.TempDir())}
	s := &Store{notes: notes}
	if err := s.mark("list", nil); err != nil || notes.saved != 0 {
		t.Errorf("removing what is not there: %v, saved %d times", err, notes.saved)
	}
	notes.fails = true
	if err := s.mark("list", &mark{Complete: true}); err == nil {
		t.Error("no error")
	}
	notes.fails = false
	for range 3 {
		if err := s.mark("list", &mark{Complete: true}); err != nil || notes.saved != 1 {
			t.Errorf("%v, saved %d times, want once", err, notes.saved)
		}
	}
	if err := s.mark("list", &mark{}); err != nil || notes.saved != 2 {
		t.Errorf("%v, saved %d times, want twice", err, notes.saved)
	}
}
