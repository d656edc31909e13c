package repository_test

import (
	"os"
	"testing"

	"lockstep/storage/postgres/postgrestest"
)

func TestMain(m *testing.M) { os.Exit(postgrestest.Main(m)) }
