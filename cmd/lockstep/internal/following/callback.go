package following

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"

	"lockstep/cmd/lockstep/internal/certificate"
	"lockstep/cmd/lockstep/internal/listen"
	"lockstep/cmd/lockstep/internal/term"
	"lockstep/internal/fetch"
)

// A Callback says by which URL hubs reach this process, and where it listens.
type Callback struct {
	URL    string // URL; "" if no hub is used
	Listen string // HOST:PORT; "" for the port that the callback names

	TLS *certificate.Pair // of the listener; nil: it does not speak TLS
}

// Address returns the URL that --callback names, nil if there is none, and
// the address to listen at, "" if nothing has to be listened for.
func (o *Callback) Address() (u *url.URL, address string, err error) {
	if o.URL != "" {
		if u, err = parseCallback(o.URL); err != nil {
			return nil, "", err
		}
	}
	if address = o.Listen; address == "" && u != nil {
		address, err = o.listenFor(u)
	}
	return u, address, err
}

// Reachable listens where --listen and --callback say, if they say anything,
// and returns the URL by which hubs reach us, if they can.
func (o *Callback) Reachable(ctx context.Context) (l net.Listener, callback string, err error) {
	u, address, err := o.Address()
	if err != nil || address == "" {
		return nil, "", err
	}
	if l, err = listen.Open(ctx, address); err != nil {
		return nil, "", err
	}
	l = o.TLS.Over(l)
	if u == nil {
		return l, "", nil
	}
	if _, port, err := net.SplitHostPort(l.Addr().String()); err == nil && o.anyPort(u) {
		u.Host = net.JoinHostPort(u.Hostname(), port)
	}
	return l, u.String(), nil
}

// parseCallback reads the value of --callback.
func parseCallback(s string) (*url.URL, error) {
	u, err := url.Parse(s)
	switch {
	case err != nil || !term.IsURL(s):
		return nil, term.Usage(fmt.Errorf("--callback %q: want a URL by which hubs reach us", fetch.WithoutUser(s)), "as http://mirror.example.net:8090/")
	case u.Fragment != "" || u.User != nil || u.RawQuery != "":
		return nil, term.Usagef("--callback %q: want a URL without user, query and fragment", fetch.WithoutUser(s))
	}
	if u.Path == "" {
		u.Path = "/"
	}
	return u, nil
}

// listenFor returns the address at which to listen for requests to a callback,
// if the callback's URL determines it.
func (o *Callback) listenFor(u *url.URL) (string, error) {
	switch host, port := u.Hostname(), u.Port(); {
	case u.Scheme != o.TLS.Scheme(): // the proxy that terminates TLS forwards to another port
	case port != "" && !listen.IsLoopback(host):
		return net.JoinHostPort("", port), nil
	case listen.IsLoopback(host):
		if port == "" {
			port = "0"
		}
		return net.JoinHostPort(host, port), nil
	}
	return "", term.Usage(errors.New("--callback does not say at which port of this machine to listen"),
		"say where what is sent to "+u.String()+" arrives: --listen HOST:PORT, as 127.0.0.1:8090 behind a web server that passes it on")

}

// anyPort reports whether a callback leaves the port to us.
func (o *Callback) anyPort(u *url.URL) bool {
	return u.Port() == "0" || u.Port() == "" && u.Scheme == o.TLS.Scheme() && listen.IsLoopback(u.Hostname()) && o.Listen == ""
}
