package admin

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"path"
	"slices"
	"strings"
)

// Dashboard serves h at the root of the pages, and at what is below and has no other handler,
// on the admin listener of a and on no other. The path h sees begins after the pages.
// Requests have to name the listener by an address or one of its names: the name of another
// site, which leads a browser here, is refused.
func (p *Pages) Dashboard(a *Access, h http.Handler) {
	p.dashboard = p.guard.Protect(checkHost(a.hosts(), h))
}

// show answers a request for the dashboard, and reports whether it was one.
func (p *Pages) show(w http.ResponseWriter, r *http.Request) bool {
	sent := r.URL.EscapedPath()
	rest, ok := strings.CutPrefix(sent, p.Dir)
	switch {
	case p.dashboard == nil:
		return false
	case sent == "/" || sent == strings.TrimSuffix(p.Dir, "/"):
		http.Redirect(w, r, "/"+PagesDir, http.StatusSeeOther) // where all pages are on this listener
		return true
	case !ok || rest != "" && rest != strings.TrimPrefix(path.Clean("/"+rest), "/"):
		return false
	}
	inner := *r
	inner.URL = &url.URL{Path: "/" + rest, RawQuery: r.URL.RawQuery}
	p.dashboard.ServeHTTP(w, &inner)
	return true
}

// hosts returns the names of the admin listener, besides addresses and localhost: the one
// that it was given, and that of the machine.
func (a *Access) hosts() (names []string) {
	if name, err := os.Hostname(); err == nil {
		names = append(names, strings.ToLower(name))
	}
	if a != nil && a.given != "" && !strings.HasPrefix(a.given, "unix:") {
		if host, _, err := net.SplitHostPort(a.given); err == nil {
			names = append(names, strings.ToLower(host))
		}
	}
	return names
}

// checkHost returns a handler that refuses requests for a name that is not one of names: a
// page of another site can make its own name lead to an address of ours (DNS rebinding), and
// then read what browsers on this machine may read.
func checkHost(names []string, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if host := hostOf(r.Host); !isLocal(host) && !slices.Contains(names, host) {
			http.Error(w, fmt.Sprintf("%.100q is no name of this listener: use its address or localhost, or start the process with the name, as in --admin %.100s:9090", host, host), http.StatusMisdirectedRequest)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// hostOf returns the host of a Host header, without the port, in lower case.
func hostOf(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	return strings.ToLower(strings.TrimSuffix(strings.Trim(host, "[]"), "."))
}

// isLocal reports whether a host is an address or localhost, which no site can have as its
// name.
func isLocal(host string) bool {
	_, err := netip.ParseAddr(host)
	return err == nil || host == "localhost" || strings.HasSuffix(host, ".localhost")
}
