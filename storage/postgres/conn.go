package postgres

import (
	"context"
	"database/sql/driver"
	"fmt"

	"github.com/jackc/pgx/v5/stdlib"
)

// A connector creates connections that send strings as raw bytes.
type connector struct {
	driver.Connector
}

// Connect implements [driver.Connector].
func (c connector) Connect(ctx context.Context) (driver.Conn, error) {
	inner, err := c.Connector.Connect(ctx)
	if err != nil {
		return nil, explainConnect(err)
	}
	std, ok := inner.(*stdlib.Conn)
	if !ok {
		return nil, fmt.Errorf("connection is a %T", inner) // unreachable: stdlib creates no others
	}
	return conn{std}, nil
}

// A conn is a connection.
type conn struct {
	*stdlib.Conn
}

// CheckNamedValue implements [driver.NamedValueChecker]. Otherwise a string
// would be sent in PostgreSQL's text format for BYTEA, in which a backslash is
// an escape.
func (c conn) CheckNamedValue(v *driver.NamedValue) error {
	if s, ok := v.Value.(string); ok {
		v.Value = []byte(s)
	}
	return c.Conn.CheckNamedValue(v)
}
