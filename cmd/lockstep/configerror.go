package main

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

var unknownField = regexp.MustCompile(`^line (\d+): field (.*) not found in type (\S+)$`)

// explainYAML puts what the YAML library says of the first mistake into our
// words: unknown keys name the nearest known one.
func explainYAML(err error) error {
	te, ok := errors.AsType[*yaml.TypeError](err)
	if !ok || len(te.Errors) == 0 {
		return errors.New(strings.TrimPrefix(err.Error(), "yaml: "))
	}
	m := unknownField.FindStringSubmatch(te.Errors[0])
	if m == nil {
		return errors.New(strings.NewReplacer(" into main.setConfig", ", want the keys of a set", " into main.", ", want ").Replace(te.Errors[0]))
	}
	line, _ := strconv.Atoi(m[1]) // \d+
	return withHint(fmt.Errorf("line %d: unknown key %q", line, m[2]), hintForKey(m[2], m[3]))
}

// hintForKey says what may be meant by a key that is not one of the mapping
// read into typ.
func hintForKey(key, typ string) string {
	all := configKeys()
	here := all[typ]
	if near := nearest(key, here); near != "" {
		return "did you mean " + near + "?"
	}
	for _, m := range mappingNames {
		if m.typ != typ && slices.Contains(all[m.typ], key) {
			return key + " is a key of " + m.place
		}
	}
	return "known keys here: " + strings.Join(here, ", ")
}

// mappingNames says what mappings in the file are, by the type they are read
// into. Keys that mean something in several of the others are no help.
var mappingNames = [...]struct{ typ, place string }{
	{"main.fileConfig", "the file as a whole, not of what it stands in"},
	{"main.setConfig", "a set: write it below sets"},
	{"main.linkConfig", "a link: write it below links"},
}

// nearest returns the word most like s, or "" if none is much like it.
func nearest(s string, words []string) string {
	best, distance := "", 1+max(2, len(s)/3)
	for _, w := range words {
		if d := editDistance(strings.ToLower(s), w); d < distance {
			best, distance = w, d
		}
	}
	return best
}

// editDistance counts the insertions, deletions and replacements that turn a
// into b.
func editDistance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
