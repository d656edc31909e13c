package postgres

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
)

// TestUnavailable: errors that pass say so, and keep their text and cause.
func TestUnavailable(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		err  error
		want bool
	}{
		{&net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}, true},
		{io.ErrUnexpectedEOF, true},
		{context.DeadlineExceeded, true},
		{&pgconn.PgError{Code: "57P03"}, true},  // cannot_connect_now
		{&pgconn.PgError{Code: "53300"}, true},  // too_many_connections
		{&pgconn.PgError{Code: "08006"}, true},  // connection_failure
		{&pgconn.PgError{Code: "40001"}, true},  // serialization_failure
		{&pgconn.PgError{Code: "42501"}, false}, // insufficient_privilege
		{context.Canceled, false},
		{errors.New("other"), false},
	} {
		cause := fmt.Errorf("ask the database: %w", tt.err)
		err := dialect{}.Explain(cause)
		if errors.Is(err, ErrUnavailable) != tt.want || !errors.Is(err, tt.err) || err.Error() != cause.Error() {
			t.Errorf("%v: %v, unavailable %v", cause, err, errors.Is(err, ErrUnavailable))
		}
	}
}
