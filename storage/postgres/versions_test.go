package postgres_test

import (
	"testing"

	"lockstep/memento"
	"lockstep/memento/mementotest"
	"lockstep/storage/postgres"
	"lockstep/storage/postgres/postgrestest"
)

func TestVersions(t *testing.T) {
	t.Parallel()
	mementotest.Run(t, func(t *testing.T) memento.Store {
		return open(t, postgres.Options{}, postgrestest.URL(t)).Versions()
	})
}

func TestVersionsReopen(t *testing.T) {
	t.Parallel()
	open, shut := again(t, postgrestest.URL(t))
	mementotest.RunReopen(t, func() memento.Store { return open().Versions() }, shut)
}
