package postgres_test

import (
	"errors"
	"net/url"
	"strings"
	"testing"

	"lockstep/storage/postgres"
	"lockstep/storage/postgres/postgrestest"
)

// An error of a connection is one sentence that names each cause once, with a hint.
func TestConnectError(t *testing.T) {
	t.Parallel()
	missing, err := url.Parse(postgrestest.URL(t))
	if err != nil {
		t.Fatal(err)
	}
	missing.Path = "/missing"
	for _, tt := range []struct{ url, cause, hint string }{
		{"postgres://me@127.0.0.1:1/maps", "open database 127.0.0.1:1/maps: connect as user me: dial tcp 127.0.0.1:1: connect: connection refused", "is running at this address"},
		{missing.String(), `FATAL: database "missing" does not exist`, "createdb"},
	} {
		_, err := postgres.Open(t.Context(), tt.url)
		if err == nil || strings.Contains(err.Error(), "\n") || strings.Count(err.Error(), tt.cause) != 1 {
			t.Errorf("%s: %v, want one line with %s", tt.url, err, tt.cause)
			continue
		}
		var hint interface{ Hint() string }
		if !errors.As(err, &hint) || !strings.Contains(hint.Hint(), tt.hint) {
			t.Errorf("%s: no hint with %q: %v", tt.url, tt.hint, hint)
		}
	}
}
