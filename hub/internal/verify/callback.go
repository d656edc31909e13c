package verify

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"
)

// A caller asks callbacks.
type caller struct {
	client    *http.Client
	timeout   time.Duration
	userAgent string
}

// A statusError reports an answer that confirms nothing.
type statusError struct{ status int }

func (e *statusError) Error() string { return fmt.Sprintf("status %d", e.status) }

// get calls a callback and returns the first most bytes of a 2xx answer. It
// follows no redirects.
func (c *caller) get(ctx context.Context, address string, most int) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, &statusError{} // not a URL
	}
	r.Header.Set("User-Agent", c.userAgent)
	resp, err := c.client.Do(r)
	if err != nil {
		return nil, withoutURL(err)
	}
	defer func() { _ = resp.Body.Close() }() // read as far as needed
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		return nil, &statusError{resp.StatusCode}
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, int64(most))) // WS-I-08
	return body, err
}

// withoutURL removes the address from an error of the client: paths of
// callbacks and challenges must not be logged (WS-SEC-07).
func withoutURL(err error) error {
	var u *url.Error
	if errors.As(err, &u) {
		return u.Err
	}
	return err
}
