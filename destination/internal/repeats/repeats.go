// Package repeats counts warnings by their kind: a Source of which every document is
// wrong in the same way fills neither memory nor a screen.
package repeats

import (
	"fmt"
	"maps"
	"regexp"
	"slices"

	"lockstep/destination/internal/wording"
)

// Counts are the warnings of a run. The zero value is ready to use.
type Counts struct {
	kinds map[string]*count
	other int64 // of kinds that are not listed
}

type count struct {
	index int // of the first, in the list
	more  int64
}

// particulars are the parts of a warning that differ between two of one kind:
// addresses, quoted text, digests and numbers.
var particulars = regexp.MustCompile(`[a-z]+://[^\s"]+|"(?:[^"\\]|\\.)*"|\b[0-9a-f]{16,}\b|[0-9]+`)

// Add counts a warning. It reports whether the warning is to be appended to a list
// of the first ones of each kind, which is this long, and at most so long.
func (c *Counts) Add(text string, length, most int) (first bool) {
	kind := particulars.ReplaceAllString(text, "*")
	if known := c.kinds[kind]; known != nil {
		known.more++
		return false
	}
	if length >= most {
		c.other++
		return false
	}
	if c.kinds == nil {
		c.kinds = map[string]*count{}
	}
	c.kinds[kind] = &count{index: length}
	return true
}

// Finish appends to each warning of the list how many more there were of its kind,
// passes the resulting sentences to report, and returns the list.
func (c *Counts) Finish(list []string, report func(text string)) []string {
	for _, known := range slices.SortedFunc(maps.Values(c.kinds), func(a, b *count) int { return a.index - b.index }) {
		if known.more > 0 {
			text := &list[known.index]
			*text += fmt.Sprintf(" (and %s more like it)", wording.Grouped(known.more))
			report(*text)
		}
	}
	if c.other > 0 {
		list = append(list, fmt.Sprintf("%s of other kinds", wording.Plural(c.other, "more warning")))
		report(list[len(list)-1])
	}
	return list
}
