package postgres

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
)

// A connectError reports that no connection was made. The driver has a line for each attempt
// (each address of a host, with TLS and without); this is one sentence.
type connectError struct{ err *pgconn.ConnectError }

// explainConnect returns err, worded as one sentence if it is that of a connection.
func explainConnect(err error) error {
	if e, ok := errors.AsType[*pgconn.ConnectError](err); ok {
		return &connectError{e}
	}
	return err
}

func (e *connectError) Unwrap() error { return e.err }

func (e *connectError) Error() string {
	var causes []string
	for line := range strings.Lines(e.err.Unwrap().Error()) {
		cause := strings.TrimSpace(line)
		if _, after, ok := strings.Cut(cause, "): "); ok { // ADDRESS (HOST): KIND error: CAUSE
			cause = after
		}
		cause = strings.TrimPrefix(strings.TrimPrefix(cause, "dial error: "), "server error: ")
		if !slices.Contains(causes, cause) {
			causes = append(causes, cause)
		}
	}
	return fmt.Sprintf("connect as user %s: %s", e.err.Config.User, strings.Join(causes, "; "))
}

// Hint returns what to do.
func (e *connectError) Hint() string {
	var code string
	if answer, ok := errors.AsType[*pgconn.PgError](e.err); ok {
		code = answer.Code
	}
	switch code {
	case "28P01", "28000": // invalid_password, invalid_authorization_specification
		return "give the user in the URL, as postgres://user@host/database, and the password in the environment (PGPASSWORD) or in the file .pgpass"
	case "3D000": // invalid_catalog_name
		return "create the database with createdb, or correct its name in the URL"
	case "53300": // too_many_connections
		return "raise max_connections of the server, or end other programs that use it"
	case "":
		return "check that PostgreSQL is running at this address and accepts connections from this machine"
	}
	return ""
}
