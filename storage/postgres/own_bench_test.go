package postgres_test

import (
	"testing"

	"lockstep/storage/postgres"
	"lockstep/storage/postgres/postgrestest"
)

// BenchmarkOwn compares a small write transaction with and without an owner.
func BenchmarkOwn(b *testing.B) {
	for _, owned := range []bool{false, true} {
		b.Run(map[bool]string{false: "none", true: "owned"}[owned], func(b *testing.B) {
			url := postgrestest.URL(b)
			db := open(b, postgres.Options{}, url)
			createWrites(b, url)
			if owned {
				take(b, db, postgres.OwnOptions{})
			}
			for b.Loop() {
				if err := write(b.Context(), db, "a"); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
