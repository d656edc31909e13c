package config

import (
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"lockstep/cmd/lockstep/internal/term"
)

// Limits of what people read of a collection: it is on each page, and in each feed.
const (
	maxTitle       = 200  // characters
	maxDescription = 4000 // likewise
)

// CheckTitle refuses a title or a description, of a Source or a set, that cannot be shown.
func CheckTitle(title, description string) error {
	if i := strings.IndexFunc(title, unicode.IsControl); i >= 0 {
		return term.WithHint(errors.New("title has a line break or another control character"), "write it on one line; description may have several")
	}
	for _, t := range []struct {
		key, value string
		most       int
	}{{"title", title, maxTitle}, {"description", description, maxDescription}} {
		if n := utf8.RuneCountInString(t.value); n > t.most {
			return term.WithHint(fmt.Errorf("%s has %d characters: at most %d are shown", t.key, n, t.most), "shorten it, and link to a page that says more: description: https://data.example.org/about")
		}
	}
	return nil
}

// SplitDescription returns what a description is: the URI of information about a Source or a set,
// or else what it contains, for people, on one line.
func SplitDescription(description string) (uri, summary string) {
	if IsAbsoluteURI(description) {
		return description, ""
	}
	return "", strings.Join(strings.Fields(description), " ")
}
