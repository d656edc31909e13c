package discover

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"lockstep/internal/fetch"
	"lockstep/oaipmh"
)

// An address is the parsed input of a user: URIs to try in turn, or a file.
type address struct {
	kind string        // AtomPMH or OAIPMH, if the address says so
	uris []string      // without user and password: they appear in messages and files
	user *url.Userinfo // returned only by Home
	file string
}

// prefix returns the prefix that the address had.
func (a *address) prefix() string {
	if a.kind == "" {
		return ""
	}
	return a.kind + ":"
}

// Home returns the part of an address that [fetch.Options] needs: nil if it is
// a file. The scheme is empty if the address has none. Only Home returns the
// user and password of an address.
func Home(addr string) *url.URL {
	a, err := parseAddress(addr)
	if err != nil || a.file != "" {
		return nil
	}
	u, err := url.Parse(a.uris[0])
	if err != nil {
		return nil
	}
	u.User = a.user
	if len(a.uris) > 1 {
		u.Scheme = ""
	}
	return u
}

// Check returns an error that a user can act on if addr is not a valid argument
// of Find.
func Check(addr string) error {
	_, err := parseAddress(addr)
	return err
}

// parseAddress accepts URIs, names of files, and a host, perhaps with a port
// and a path. The name of an existing file means that file. A prefix selects
// another protocol than ResourceSync.
func parseAddress(addr string) (address, error) {
	kind, rest := Prefix(addr)
	if kind != "" && strings.TrimSpace(rest) == "" {
		return address{}, errors.New(kind + ": needs a URL")
	}
	a, err := parsePlain(rest)
	if kind != "" && err == nil && a.file != "" {
		err = fmt.Errorf("%s: a file; it is harvested from its address on the web", fetch.Printable(addr))
	}
	if kind == OAIPMH && err == nil {
		_, _, _, err = oaipmh.ParseAddress(rest)
	}
	a.kind = kind
	return a, err
}

// Prefix returns the protocol that addr names by its prefix, [AtomPMH] or [OAIPMH],
// and the rest of the address; without a prefix, "" and addr. It ignores blanks
// around addr.
func Prefix(addr string) (kind, rest string) {
	addr = strings.TrimSpace(addr)
	for _, kind := range []string{AtomPMH, OAIPMH} {
		if n := len(kind) + 1; len(addr) >= n && strings.EqualFold(addr[:n], kind+":") {
			return kind, addr[n:]
		}
	}
	return "", addr
}

// parsePlain is parseAddress for an address without a prefix.
func parsePlain(addr string) (address, error) {
	addr = strings.TrimSpace(addr)
	bad := func(reason string) (address, error) {
		return address{}, fmt.Errorf("%s: %s", fetch.Printable(shown(addr)), reason)
	}
	if addr == "" {
		return address{}, fmt.Errorf("no address")
	}
	if scheme, rest, ok := strings.Cut(addr, "://"); ok {
		switch strings.ToLower(scheme) {
		case "http", "https":
			u, err := url.Parse(addr)
			if err != nil || u.Hostname() == "" {
				return bad("not a valid URI" + encoding(addr))
			}
			user := u.User
			u.User = nil
			if user == nil {
				return address{uris: []string{addr}}, nil
			}
			return address{uris: []string{u.String()}, user: user}, nil
		case "file":
			file, ok := filePath("file://" + rest)
			if !ok {
				return bad("not a local file: URI")
			}
			return address{file: file}, nil
		}
		if prefix, _, ok := strings.Cut(scheme, ":"); ok {
			reason := "prefix " + fetch.Printable(prefix) + " is not one of " + AtomPMH + " and " + OAIPMH
			if prefix == "oai" || prefix == "atom" {
				reason += "; did you mean " + prefix + "-pmh:?"
			}
			return bad(reason)
		}
		return bad("scheme " + fetch.Printable(scheme) + " is not one of http, https and file")
	}
	if strings.HasPrefix(strings.ToLower(addr), "file:/") {
		if file, ok := filePath(addr); ok {
			return address{file: file}, nil
		}
		return bad("not a local file: URI")
	}
	if info, err := os.Stat(addr); err == nil {
		if info.IsDir() {
			return bad("a directory; give the document in it to start from")
		}
		return address{file: addr}, nil
	} else if filepath.IsAbs(addr) || strings.HasPrefix(addr, ".") || strings.Contains(addr, `\`) {
		return address{}, fmt.Errorf("read file: %w", err)
	}
	u, err := url.Parse("https://" + addr)
	if err != nil || !plausibleHost(u.Hostname()) {
		return bad("neither a file nor an address on the web" + encoding(addr))
	}
	user := u.User
	if u.User = nil; user != nil {
		addr = strings.TrimPrefix(u.String(), "https://")
	}
	if ip := net.ParseIP(u.Hostname()); u.Hostname() == "localhost" || ip != nil && ip.IsLoopback() {
		return address{uris: []string{"http://" + addr, "https://" + addr}, user: user}, nil
	}
	return address{uris: []string{"https://" + addr, "http://" + addr}, user: user}, nil
}

// shown returns the address without user name and password.
func shown(addr string) string {
	if strings.Contains(addr, "://") {
		return fetch.WithoutUser(addr)
	}
	return strings.TrimPrefix(fetch.WithoutUser("https://"+addr), "https://")
}

// encoding returns how to write the password of an address, if it has one.
func encoding(addr string) string {
	if shown(addr) == addr {
		return ""
	}
	return " (in a password, characters such as /, ?, # and % are written as %2F, %3F, %23 and %25)"
}

func plausibleHost(host string) bool {
	return host != "" && !strings.ContainsAny(host, " _%$!*'(),;=&") &&
		(host == "localhost" || strings.Contains(host, ".") || strings.Contains(host, ":") || len(host) > 1)
}

// FileURI returns the file: URI of the document that an address names on this
// machine, or "" if the address is not a file.
func FileURI(addr string) string {
	a, err := parseAddress(addr)
	if err != nil || a.file == "" {
		return ""
	}
	return fileURI(a.file)
}

// filePath returns the path of a file: URI.
func filePath(uri string) (string, bool) {
	u, err := url.Parse(uri)
	if err != nil || !strings.EqualFold(u.Scheme, "file") || u.Host != "" && u.Host != "localhost" || u.Path == "" {
		return "", false
	}
	path := u.Path
	if len(path) > 2 && path[0] == '/' && path[2] == ':' && filepath.Separator == '\\' {
		path = path[1:] // file:///C:/x
	}
	return filepath.FromSlash(path), true
}

// fileURI is the inverse of filePath, for absolute paths.
func fileURI(path string) string {
	if abs, err := filepath.Abs(path); err == nil {
		path = abs
	}
	path = filepath.ToSlash(path)
	if !strings.HasPrefix(path, "/") {
		path = "/" + path
	}
	return (&url.URL{Scheme: "file", Path: path}).String()
}
