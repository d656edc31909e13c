package source

import (
	"net/http"

	"lockstep/source/internal/server"
)

// NewServer returns a server for h that no client can hold up: each part of an
// exchange has its time, and a response may take as long as it moves. Listening
// and shutting down are the caller's; behind a [connlimit.Listener], connections
// that wait for a request make room for others.
func NewServer(h http.Handler) *http.Server { return server.New(h) }
