package sqlite_test

import (
	"database/sql"
	"path/filepath"
	"testing"

	"lockstep/storage/sqlite"
)

// TestTransactionsSurviveAPowerCut: each transaction is synced before it returns, which
// all promises about durability rely on. That is a setting of each connection.
func TestTransactionsSurviveAPowerCut(t *testing.T) {
	t.Parallel()
	db := open(t, sqlite.Options{}, filepath.Join(t.TempDir(), "state.db"))
	for pragma, want := range map[string]string{"synchronous": "2", "journal_mode": "wal"} {
		var got string
		err := db.Update(t.Context(), func(tx *sql.Tx) error { return tx.QueryRow("PRAGMA " + pragma).Scan(&got) })
		if err != nil || got != want {
			t.Errorf("%s is %q, %v; want %q", pragma, got, err, want)
		}
	}
}
