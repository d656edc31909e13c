package postgres

import (
	"errors"
	"fmt"
	"io"
	"net"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
)

// TestIsOutage distinguishes errors that pass from those that stay.
func TestIsOutage(t *testing.T) {
	t.Parallel()
	refused := &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
	code := func(c string) error { return dialect{}.Explain(&pgconn.PgError{Code: c}) }
	for _, tt := range []struct {
		err  error
		want bool
	}{
		{ErrLost, true},
		{refused, true},
		{fmt.Errorf("commit transaction: %w", io.ErrUnexpectedEOF), true}, // the outcome is unknown
		{code("08006"), true},
		{code("57P01"), true},
		{code("57P03"), true},
		{code("53300"), true},
		{code("25006"), true},
		{code("53100"), false}, // disk full
		{code("42P01"), false},
		{code("28P01"), false},
		{code("57014"), false},
		{syscall.EROFS, false},
		{errors.New("damaged"), false},
	} {
		if got := IsOutage(fmt.Errorf("apply changes: %w", tt.err)); got != tt.want {
			t.Errorf("IsOutage(%v) = %v, want %v", tt.err, got, tt.want)
		}
	}
}
