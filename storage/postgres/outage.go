package postgres

import (
	"database/sql/driver"
	"errors"
	"io"
	"net"
	"strings"
	"syscall"

	"github.com/jackc/pgx/v5/pgconn"
)

// IsOutage reports whether an operation failed, or may have failed, because the server could not be
// reached, is starting, stopping or only read at present, or has no connection to spare, or because
// another process owns the database: a later attempt, perhaps by that process, can succeed.
func IsOutage(err error) bool { return errors.Is(err, ErrLost) || isDown(err) }

// isDown reports whether the server cannot be reached, or refuses what it can do at another time.
func isDown(err error) bool {
	if e, ok := errors.AsType[*pgconn.PgError](err); ok {
		// connection_exception, operator_intervention, too_many_connections, read_only_sql_transaction
		return strings.HasPrefix(e.Code, "08") || strings.HasPrefix(e.Code, "57P0") || e.Code == "53300" || e.Code == "25006"
	}
	return isNetwork(err)
}

// isNetwork reports whether a connection failed.
func isNetwork(err error) bool {
	e, network := errors.AsType[net.Error](err)
	if _, local := e.(syscall.Errno); local { // of a file: those of connections are in a net.OpError
		return false
	}
	return network || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, driver.ErrBadConn)
}
