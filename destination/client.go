package destination

import (
	"lockstep/discover"
	"lockstep/internal/fetch"
)

// A Client sends requests: at a polite rate, with retries where they can help,
// and with credentials for the Source alone. Close it when it is no longer
// needed.
type Client = fetch.Client

// ClientOptions configures a [Client]. The zero value is ready to use.
type ClientOptions = fetch.Options

// NewClient returns a client for the Source at address, which may be anything
// [Destination.Sync] takes. Credentials in the options go to that Source alone;
// private addresses may be asked if it is itself at one, or is a local file.
func NewClient(address string, o ClientOptions) (*Client, error) {
	if o.Home == nil {
		o.Home = discover.Home(address)
	}
	if o.Home == nil {
		o.AllowPrivate = true // a file on this machine may name what only this machine can reach
	}
	return fetch.New(o)
}
