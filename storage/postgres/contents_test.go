package postgres_test

import (
	"testing"

	"lockstep/intake"
	"lockstep/intake/contentstest"
	"lockstep/storage/postgres"
	"lockstep/storage/postgres/postgrestest"
)

func TestContents(t *testing.T) {
	t.Parallel()
	contentstest.Run(t, func(t *testing.T) intake.Contents {
		return open(t, postgres.Options{}, postgrestest.URL(t)).Contents()
	})
	open, shut := again(t, postgrestest.URL(t))
	contentstest.RunReopen(t, func() intake.Contents { return open().Contents() }, shut)
}
