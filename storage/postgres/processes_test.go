package postgres_test

import (
	"testing"

	"lockstep/destination/share"
	"lockstep/destination/share/sharetest"
	"lockstep/storage/postgres"
	"lockstep/storage/postgres/postgrestest"
)

func TestProcesses(t *testing.T) {
	t.Parallel()
	sharetest.Run(t, func(t *testing.T) share.Table {
		db, err := postgres.Open(t.Context(), postgrestest.URL(t))
		if err != nil {
			t.Fatal(err)
		}
		p := db.Processes()
		t.Cleanup(func() {
			if err := p.Close(); err != nil {
				t.Error(err)
			}
			if err := db.Close(); err != nil {
				t.Error(err)
			}
		})
		return p
	})
}
