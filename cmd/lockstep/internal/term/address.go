package term

import (
	"net"
	"net/url"
	"strings"
)

// IsHostPort reports whether s has the form HOST:PORT, and the port exists; it may be empty.
func IsHostPort(s string) bool {
	host, port, err := net.SplitHostPort(s)
	return err == nil && !strings.ContainsAny(host, " /") && isPort(port)
}

// IsURL reports whether s is an absolute http or https URL whose port, if it has one, exists.
func IsURL(s string) bool {
	u, err := url.Parse(s)
	return err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Hostname() != "" && isPort(u.Port())
}

func isPort(port string) bool {
	_, err := net.LookupPort("tcp", port)
	return err == nil
}
