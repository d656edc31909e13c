package intake

import (
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"

	"lockstep/internal/linkrel"
	"lockstep/resourcesync"
)

// checkFetchable returns why no Destination could fetch what is at uri, which is
// well-formed: its scheme is not http or https, or it names a part of a resource,
// or shows a password.
func checkFetchable(uri string) error {
	scheme, _, _ := strings.Cut(uri, ":")
	switch {
	case !strings.EqualFold(scheme, "http") && !strings.EqualFold(scheme, "https"):
		return fmt.Errorf("%.200q cannot be fetched: want an http or https URI", uri)
	case strings.Contains(uri, "#"):
		return fmt.Errorf("%.200q has a fragment: want the URI of a whole resource", uri)
	}
	u, err := url.Parse(uri)
	switch {
	case err != nil:
		return nil // its form is not looked at here
	case u.User != nil:
		return errors.New("has a user name or password, which a list would publish")
	case u.Port() != "":
		if n, err := strconv.Atoi(u.Port()); err != nil || n < 1 || n > 65535 {
			return fmt.Errorf("%.200q has no port that exists: want one from 1 to 65535", uri)
		}
	}
	return nil
}

// checkRelations returns why a resource cannot have links: one has a relation
// that is none, or two are canonical.
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

// A dropper picks the links of one entry of an upstream that can be published.
type dropper struct{ canonical bool }

// check returns why a link is to be dropped; the resource is kept.
func (d *dropper) check(l *resourcesync.Link) error {
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
