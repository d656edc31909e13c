package main

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"lockstep/cmd/lockstep/internal/term"
	"lockstep/internal/fetch"
)

// An address says where the resources of a set come from: in the configuration
// file after from, on the command line where DIR stands.
type address struct {
	kind  *originKind
	place string // what stands behind the scheme
}

// parseAddress reads an address that has to name its scheme.
func parseAddress(s string) (address, error) {
	scheme, place, ok := strings.Cut(s, ":")
	kind := kindOf(scheme)
	switch {
	case !ok && kind != nil && kind.wants == "": // YAML takes a colon at the end for another thing
		return address{kind: kind}, nil
	case ok && kind != nil:
		a := address{kind, strings.TrimPrefix(place, kind.after)}
		if !strings.HasPrefix(place, kind.after) || (a.place == "") != (kind.wants == "") {
			return address{}, term.WithHint(fmt.Errorf("from %q does not say where", s), "write "+kind.form())
		}
		return a, nil
	case ok && !strings.HasPrefix(place, `\`) && scheme != "": // C:\ is a directory
		err := fmt.Errorf("from %q: unknown way in %q", fetch.WithoutUser(s), scheme)
		if near := nearest(scheme, schemes()); near != "" {
			return address{}, term.WithHint(err, "did you mean "+near+":?")
		}
		return address{}, term.WithHint(err, "known ways in: "+strings.Join(forms(), ", "))
	}
	return address{}, term.WithHint(fmt.Errorf("from %q does not say what kind of place that is", fetch.WithoutUser(s)), "for a directory write dir:"+s)
}

// parseArgument reads the address given where DIR stands: without a scheme we
// know it is a directory.
func parseArgument(s string) (address, error) {
	scheme, _, ok := strings.Cut(s, ":")
	if ok && (kindOf(scheme) != nil || strings.Contains(s, "://")) {
		a, err := parseAddress(s)
		if err != nil {
			return a, term.Usage(fmt.Errorf("%s: %w", fetch.WithoutUser(s), err), term.HintOf(err))
		}
		return a, nil
	}
	return address{kindOf("dir"), s}, nil
}

// String returns the address as it is written, without user name and password.
func (a address) String() string { return a.kind.scheme + ":" + a.kind.after + a.at() }

// at returns the place without the user name and password it may have: those are
// for the client that asks there.
func (a address) at() string { return fetch.WithoutUser(a.place) }

// name names the place for people: a directory by its path alone.
func (a address) name() string {
	if a.kind.scheme != "dir" {
		return a.String()
	}
	if wd, err := os.Getwd(); a.place == "." && err == nil {
		return wd
	}
	return a.place
}

// dir returns the directory an address names, or "" if it names something else.
func (a address) dir() string {
	if a.kind.scheme != "dir" {
		return ""
	}
	return a.place
}

// resolve makes a relative path in a configuration file begin at dir, where
// that file stands.
func (a *address) resolve(dir string) {
	if a.kind.path != nil && a.kind.path(a.place) {
		a.place = besideConfig(dir, a.place)
	}
}

// allows refuses keys of a set that mean nothing where its resources come from.
func (a address) allows(s *setConfig) error {
	for _, k := range s.particular() {
		if k.given && !slices.Contains(a.kind.keys, k.key) {
			return fmt.Errorf("%s means nothing for a set from %s", k.key, a.kind.scheme)
		}
	}
	return nil
}

// kindOf returns the way in with the scheme, or nil.
func kindOf(scheme string) *originKind {
	kinds := originKinds()
	i := slices.IndexFunc(kinds, func(k originKind) bool { return k.scheme == scheme })
	if i < 0 {
		return nil
	}
	return &kinds[i]
}

func schemes() (names []string) {
	for _, k := range originKinds() {
		names = append(names, k.scheme)
	}
	return names
}

func forms() (forms []string) {
	for _, k := range originKinds() {
		forms = append(forms, k.form())
	}
	return forms
}
