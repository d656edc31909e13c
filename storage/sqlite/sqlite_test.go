package sqlite_test

import (
	"path/filepath"
	"testing"
	"time"

	"lockstep/storage/sqlite"
)

func TestOpen(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a?b%41#c.db")
	for range 3 {
		start := time.Now()
		db, err := sqlite.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		o := time.Since(start)
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
		t.Log(o, time.Since(start))
	}
	m, _ := filepath.Glob(filepath.Dir(path) + "/*")
	t.Log(m)
}
