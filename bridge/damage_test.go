package bridge_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"lockstep/storage/sqlite"
)

// TestDamagedMemory: the error about an unreadable memory names the file and says
// that it can be deleted: the mirror keeps its files. Which files belonged to a
// deleted record is then unknown.
func TestDamagedMemory(t *testing.T) {
	t.Parallel()
	p := newPress(t)
	for i := range 9 {
		p.put(i, fmt.Sprint("text ", i), 1)
	}
	m := newMirror(t, p.srv.URL+"/feed")
	m.mustSync()
	file := filepath.Join(m.dir, ".lockstep", "harvest.db")
	if err := os.WriteFile(file, []byte(strings.Repeat("no database at all ", 500)), 0o666); err != nil {
		t.Fatal(err)
	}
	_, err := m.sync()
	if !errors.Is(err, sqlite.ErrDamaged) || !strings.Contains(err.Error(), file) || !strings.Contains(err.Error(), "harvested again") {
		t.Errorf("error = %v", err)
	}
	m.holds(p.want())
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	p.put(3, "another text", 1)
	m.mustSync()
	m.holds(p.want())
}
