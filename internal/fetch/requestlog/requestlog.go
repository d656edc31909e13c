// Package requestlog logs requests at debug level: the method, the address without secrets,
// the status, the number of bytes, and the time that it took.
package requestlog

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"lockstep/internal/fetch/shown"
)

// Enabled reports whether requests are logged: at debug level.
func Enabled(log *slog.Logger) bool { return log.Enabled(context.Background(), slog.LevelDebug) }

// An Exchange is a request as the log has it.
type Exchange struct {
	Err error // why there is no whole response; nil: there is

	log         *slog.Logger
	method, uri string
	began       time.Time
}

// Begin returns a request that begins now.
func Begin(log *slog.Logger, method, uri string) *Exchange {
	return &Exchange{log: log, method: method, uri: shown.Redacted(uri), began: time.Now()}
}

// End logs the request, with the status and the number of bytes of its response; a status
// of 0 is none, and bytes below 0 are unknown.
func (e *Exchange) End(status int, bytes int64) {
	attrs := []slog.Attr{slog.String("method", e.method), slog.String("uri", e.uri)}
	if status != 0 {
		attrs = append(attrs, slog.Int("status", status))
	}
	if bytes >= 0 {
		attrs = append(attrs, slog.Int64("bytes", bytes))
	}
	attrs = append(attrs, slog.Duration("dur", time.Since(e.began)))
	if e.Err != nil {
		attrs = append(attrs, slog.String("err", shown.Printable(e.Err.Error())))
	}
	e.log.LogAttrs(context.Background(), slog.LevelDebug, "request", attrs...)
}

// Transport returns next, or, if log has debug level, a RoundTripper that logs each request
// when the header of its response has arrived. show returns a URI as the log may have it;
// nil: [shown.Redacted].
func Transport(next http.RoundTripper, log *slog.Logger, show func(uri string) string) http.RoundTripper {
	if log == nil || !Enabled(log) {
		return next
	}
	if show == nil {
		show = shown.Redacted
	}
	return transport{next, log, show}
}

type transport struct {
	next http.RoundTripper
	log  *slog.Logger
	show func(string) string
}

func (t transport) RoundTrip(r *http.Request) (*http.Response, error) {
	e := &Exchange{log: t.log, method: r.Method, uri: t.show(r.URL.String()), began: time.Now()}
	resp, err := t.next.RoundTrip(r)
	if err != nil {
		e.Err = err
		e.End(0, -1)
		return nil, err
	}
	e.End(resp.StatusCode, resp.ContentLength)
	return resp, nil
}

// CloseIdleConnections closes those of the transport; see [http.Client.CloseIdleConnections].
func (t transport) CloseIdleConnections() {
	if c, ok := t.next.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}
