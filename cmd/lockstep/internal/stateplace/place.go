// Package stateplace says where a state is, as --state names it: in a directory, or in a
// PostgreSQL database, beside which a local directory has only what may be lost. It opens the
// database of either, and takes one in PostgreSQL for this process.
package stateplace

import (
	"errors"
	"fmt"
	"net/url"
	"strings"

	"lockstep/cmd/lockstep/internal/config"
	"lockstep/cmd/lockstep/internal/term"
	"lockstep/storage"
)

// A Place is where a state is.
type Place struct {
	Dir string // with all of the state; or, of a state in a database, with what may be lost: sockets, scratch files, memories of origins

	url    string // of the PostgreSQL database; "": there is none
	name   string // the URL without its password
	shared bool   // several processes take turns in owning the database
}

// In returns the place of a state in a directory.
func In(dir string) Place { return Place{Dir: dir} }

// Parse returns the place that --state names: a directory, or the URL of a database. The local
// directory of a database has a name made from the URL without its password.
func Parse(state string, lookup func(string) (string, bool)) (Place, error) {
	scheme, _, isURL := strings.Cut(state, "://")
	switch {
	case !isURL:
		return In(state), nil
	case !storage.IsURL(state):
		return Place{}, term.Usage(fmt.Errorf("--state %s://: want a directory, or the URL of a PostgreSQL database", scheme), "as postgres://user@host/database")
	}
	name, err := nameOf(state)
	if err != nil {
		return Place{}, err
	}
	p := Place{url: state, name: name}
	p.Dir, err = config.DefaultState(name, false, lookup)
	return p, err
}

// nameOf returns the URL of a database without its password.
func nameOf(text string) (string, error) {
	u, err := url.Parse(text)
	if err != nil { // its text has the URL
		return "", term.Usage(errors.New("--state: not the URL of a PostgreSQL database"), "as postgres://user@host/database; the password in the environment (PGPASSWORD) or in the file .pgpass")
	}
	if u.User != nil {
		u.User = url.User(u.User.Username())
	}
	q := u.Query()
	q.Del("password")
	q.Del("sslpassword")
	u.RawQuery = q.Encode()
	return u.String(), nil
}

// InDatabase reports whether the state is in a PostgreSQL database.
func (p Place) InDatabase() bool { return p.url != "" }

// Shared returns the place for one of several processes that take turns in owning the database:
// [Place.Open] then does not wait for the owner.
func (p Place) Shared() Place {
	p.shared = true
	return p
}

// IsShared reports whether several processes take turns in owning the database.
func (p Place) IsShared() bool { return p.shared }

// String returns the directory, or the URL of the database without its password.
func (p Place) String() string {
	if p.InDatabase() {
		return p.name
	}
	return p.Dir
}
