package config

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"lockstep/cmd/lockstep/internal/suggest"
	"lockstep/cmd/lockstep/internal/term"
	"lockstep/internal/fetch"
)

// An Address says where the resources of a set come from: in the configuration
// file after from, on the command line in place of DIR.
type Address struct {
	Kind  *Kind
	Place string // what follows the scheme
}

// parseAddress reads an address that has to name its scheme.
func parseAddress(s string) (Address, error) {
	scheme, place, ok := strings.Cut(s, ":")
	kind := KindOf(scheme)
	switch {
	case !ok && kind != nil && kind.wants == "": // YAML takes a colon at the end for another thing
		return Address{Kind: kind}, nil
	case ok && kind != nil:
		a := Address{kind, strings.TrimPrefix(place, kind.After)}
		if !strings.HasPrefix(place, kind.After) || (a.Place == "") != (kind.wants == "") {
			return Address{}, term.WithHint(fmt.Errorf("from %q does not say where", fetch.WithoutUser(s)), "write "+kind.form())
		}
		return a, nil
	case ok && !strings.HasPrefix(place, `\`) && scheme != "": // C:\ is a directory
		err := fmt.Errorf("from %q: unknown kind of origin %q", fetch.WithoutUser(s), scheme)
		if near := suggest.Nearest(scheme, schemes()); near != "" {
			return Address{}, term.WithHint(err, "did you mean "+near+":?")
		}
		return Address{}, term.WithHint(err, "known kinds of origin: "+strings.Join(forms(), ", "))
	}
	return Address{}, term.WithHint(fmt.Errorf("from %q does not name the kind of origin", fetch.WithoutUser(s)), "for a directory write dir:"+fetch.WithoutUser(s))
}

// ParseArgument reads the address given in place of DIR: without a scheme we
// know it is a directory.
func ParseArgument(s string) (Address, error) {
	scheme, _, ok := strings.Cut(s, ":")
	if ok && (KindOf(scheme) != nil || strings.Contains(s, "://")) {
		a, err := parseAddress(s)
		if err != nil && (scheme == "http" || scheme == "https") {
			return a, term.Usage(err, "for a Source write resourcesync:"+fetch.WithoutUser(s)+", for a Sitemap sitemap:"+fetch.WithoutUser(s))
		} else if err != nil {
			return a, term.Usage(err, term.HintOf(err))
		}
		return a, nil
	}
	return Address{KindOf("dir"), s}, nil
}

// String returns the address as it is written, without user name and password.
func (a Address) String() string { return a.Kind.Scheme + ":" + a.Kind.After + a.WithoutUser() }

// WithoutUser returns the place without the user name and password it may have: those are
// for the client that asks there.
func (a Address) WithoutUser() string { return fetch.WithoutUser(a.Place) }

// Name names the place for people: a directory by its path alone.
func (a Address) Name() string {
	if a.Kind.Scheme != "dir" {
		return a.String()
	}
	if wd, err := os.Getwd(); a.Place == "." && err == nil {
		return wd
	}
	return a.Place
}

// Dir returns the directory an address names, or "" if it names something else.
func (a Address) Dir() string {
	if a.Kind.Scheme != "dir" {
		return ""
	}
	return a.Place
}

// File returns the file an address names; "" if it names something else, or standard
// input.
func (a Address) File() string {
	if a.Dir() != "" || a.Kind.path == nil || !a.Kind.path(a.Place) {
		return ""
	}
	return a.Place
}

// resolve makes a relative path in a configuration file begin at dir, where
// that file stands.
func (a *Address) resolve(dir string) {
	if a.Kind.path != nil && a.Kind.path(a.Place) {
		a.Place = besideConfig(dir, a.Place)
	}
}

// allows refuses keys of a set that mean nothing where its resources come from.
func (a Address) allows(s *Set) error {
	for _, k := range s.particular() {
		if k.given && !slices.Contains(a.Kind.Keys, k.key) {
			return fmt.Errorf("%s does not apply to a set from %s", k.key, a.Kind.Scheme)
		}
	}
	return nil
}

// KindOf returns the kind of origin with the scheme, or nil.
func KindOf(scheme string) *Kind {
	kinds := Kinds()
	i := slices.IndexFunc(kinds, func(k Kind) bool { return k.Scheme == scheme })
	if i < 0 {
		return nil
	}
	return &kinds[i]
}

func schemes() (names []string) {
	for _, k := range Kinds() {
		names = append(names, k.Scheme)
	}
	return names
}

func forms() (forms []string) {
	for _, k := range Kinds() {
		forms = append(forms, k.form())
	}
	return forms
}
