package entry

import (
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"

	"lockstep/internal/iri"
	"lockstep/internal/linkrel"
	"lockstep/resourcesync"
)

// CheckFetchable reports why no Destination could fetch uri, which is well-formed:
// the scheme is not http or https, or the URI has a fragment or a password.
func CheckFetchable(uri string) error {
	shown, _ := iri.WithoutUser(uri) // messages show no passwords
	scheme, _, _ := strings.Cut(uri, ":")
	switch {
	case !strings.EqualFold(scheme, "http") && !strings.EqualFold(scheme, "https"):
		return fmt.Errorf("%.200q cannot be fetched: want an http or https URI", shown)
	case strings.Contains(uri, "#"):
		return fmt.Errorf("%.200q has a fragment: want the URI of a whole resource", shown)
	}
	u, err := url.Parse(uri)
	switch {
	case err != nil:
		return nil // its form is not looked at here
	case u.User != nil:
		return errors.New("has a user name or password, which a list would publish")
	case u.Port() != "":
		if n, err := strconv.Atoi(u.Port()); err != nil || n < 1 || n > 65535 {
			return fmt.Errorf("%.200q has no port that exists: want one from 1 to 65535", shown)
		}
	}
	return nil
}

// checkRelations reports why a resource cannot have links: a relation is unknown,
// or two are canonical.
func checkRelations(links []resourcesync.Link) error {
	canonical := false
	for i := range links {
		if err := linkrel.Check(links[i].Rel); err != nil {
			return fmt.Errorf("links[%d]: %w", i, err)
		}
		if strings.EqualFold(links[i].Rel, linkrel.Canonical) {
			if canonical {
				return fmt.Errorf("links[%d]: %w", i, linkrel.ErrSecondCanonical)
			}
			canonical = true
		}
	}
	return nil
}

// A LinkFilter selects the links of one upstream entry that can be published.
type LinkFilter struct{ canonical bool }

// Check reports why a link is dropped; the resource is kept without it.
func (d *LinkFilter) Check(l *resourcesync.Link) error {
	if err := linkrel.Check(l.Rel); err != nil {
		return err
	}
	if strings.EqualFold(l.Rel, linkrel.Canonical) {
		if d.canonical {
			return linkrel.ErrSecondCanonical
		}
		d.canonical = true
	}
	return nil
}
