package postgres_test

import (
	"testing"

	"lockstep/hub/hubtest"
	"lockstep/storage/postgres"
	"lockstep/storage/postgres/postgrestest"
)

func TestSharer(t *testing.T) {
	t.Parallel()
	hubtest.RunSharer(t, func(t *testing.T) func() hubtest.Shared {
		url := postgrestest.URL(t)
		return func() hubtest.Shared { return open(t, postgres.Options{}, url).Hub() }
	})
}
