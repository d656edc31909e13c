package config

import (
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"lockstep/cmd/lockstep/internal/suggest"
	"lockstep/cmd/lockstep/internal/term"
)

var unknownField = regexp.MustCompile(`^line (\d+): field (.*) not found in type (\S+)$`)

// explainYAML rewords the first mistake that the YAML library reports, or all unknown keys;
// for an unknown key it names the nearest known one.
func explainYAML(err error) error {
	te, ok := errors.AsType[*yaml.TypeError](err)
	if !ok || len(te.Errors) == 0 {
		text := strings.TrimPrefix(err.Error(), "yaml: ")
		for _, h := range syntaxHints {
			if strings.Contains(text, h.says) {
				return term.WithHint(errors.New(text), h.hint)
			}
		}
		return errors.New(text)
	}
	var unknown, hints []string
	for _, text := range te.Errors {
		if m := unknownField.FindStringSubmatch(text); m != nil {
			unknown = append(unknown, fmt.Sprintf("line %s: unknown key %q", m[1], m[2]))
			if hint := hintForKey(m[2], m[3]); !slices.Contains(hints, hint) {
				hints = append(hints, hint)
			}
		}
	}
	if i := slices.IndexFunc(hints, func(hint string) bool { return strings.HasPrefix(hint, listOfKeys) }); i >= 0 {
		hints = append(slices.Delete(slices.Clone(hints), i, i+1), hints[i]) // a long line, about none of the keys
	}
	if len(unknown) > 0 && unknownField.MatchString(te.Errors[0]) {
		return term.WithHint(errors.New(strings.Join(unknown, "\n")), strings.Join(hints, "\n"))
	}
	if m := wrongType.FindStringSubmatch(te.Errors[0]); m != nil {
		for _, t := range typeNames {
			if t.typ == m[2] {
				return fmt.Errorf("line %s: want %s", m[1], t.want)
			}
		}
	}
	return errors.New(te.Errors[0])
}

// wrongType is what the library says of a value of the wrong kind.
var wrongType = regexp.MustCompile(`^line (\d+): cannot unmarshal .* into (\S+)$`)

// typeNames says what is to be written where a value is read into a type.
var typeNames = [...]struct{ typ, want string }{
	{"bool", "true or false"},
	{"string", "one value"},
	{"[]string", "one value, or a list of values"},
	{"config.File", "keys, such as base_url: https://data.example.org/"},
	{"[]config.Set", "a list of sets, each of which begins with a dash: - from: dir:/srv/files"},
	{"config.Set", "a set, such as - from: dir:/srv/files"},
	{"[]config.Mirror", "a list of mirrors, each of which begins with a dash: - {source: https://example.org/, dest: mirror}"},
	{"config.Mirror", "a mirror, such as - {source: https://example.org/, dest: mirror}"},
	{"[]config.Link", "a list of links, such as [{rel: alternate, href: 'https://example.org/{path}'}]"},
	{"config.Link", "a link, such as {rel: alternate, href: 'https://example.org/{path}'}"},
	{"config.ChangeList", "keys, such as {rotate: 24h, keep: 720h}"},
	{"config.ResourceDump", "{} or keys, such as {every: 24h}"},
	{"config.ChangeDump", "{} or keys, such as {every: 1h}"},
	{"config.Versions", "keep, or keys such as {keep: 90d, compress: true}"},
	{"config.Atom", "true, false, or keys, such as {entries: 1000}"},
	{"config.Archive", "keys, such as {resource_lists: 12, change_lists: all}"},
}

// syntaxHints are ways out of what the library says of text that is no YAML.
var syntaxHints = [...]struct{ says, hint string }{
	{"cannot start any token", "indent with blanks, not tabs, and put text in quotes that begins with @, % or `"},
	{"mapping values are not allowed", "put text in quotes that ends in a colon, or has one before a blank"},
}

// hintForKey says what may be meant by a key that is not one of the mapping
// read into typ.
func hintForKey(key, typ string) string {
	all := configKeys()
	here := all[typ]
	if near := suggest.Nearest(key, here); near != "" {
		return "did you mean " + near + "?"
	}
	for _, m := range mappingNames {
		if m.typ != typ && slices.Contains(all[m.typ], key) && (m.typ != "config.File" || !isMirrorKey(key)) {
			return key + " is a key of " + m.place
		}
	}
	return listOfKeys + strings.Join(here, ", ")
}

// listOfKeys begins the hint for a key that is like no other.
const listOfKeys = "known keys here: "

// isMirrorKey reports whether a key at the top of the file is about mirrors alone.
func isMirrorKey(key string) bool {
	for f := range fieldsOf(reflect.TypeFor[MirrorKeys]()) {
		if f.Tag.Get("yaml") == key {
			return true
		}
	}
	return false
}

// mappingNames says what mappings in the file are, by the type they are read
// into. Keys that mean something in several of the others are no help.
var mappingNames = [...]struct{ typ, place string }{
	{"config.File", "the whole file, not of the mapping it is in"},
	{"config.Set", "a set: write it below sets"},
	{"config.Link", "a link: write it below links"},
	{"config.Mirror", "a mirror: write it below mirrors"},
}
