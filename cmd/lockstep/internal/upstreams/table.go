package upstreams

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"lockstep/aggregator"
	"lockstep/cmd/lockstep/internal/term"
)

// ErrFailing reports upstreams that could not be read at the last attempt.
var ErrFailing = errors.New("failing")

// Check returns an error that wraps [ErrFailing] if an upstream is failing.
func (r *Report) Check() error {
	switch n := r.failing(); {
	case n == 0:
		return nil
	case len(r.Upstreams) == 1:
		return fmt.Errorf("the upstream is %w", ErrFailing)
	default:
		return fmt.Errorf("%d of %s %s %w", n, term.Count(len(r.Upstreams), "upstream"), isAre(n), ErrFailing)
	}
}

func isAre(n int) string {
	if n == 1 {
		return "is"
	}
	return "are"
}

func (r *Report) failing() (n int) {
	for i := range r.Upstreams {
		if r.Upstreams[i].State == aggregator.StateFailing {
			n++
		}
	}
	return n
}

// Print prints the report for people: a sentence, and a table of the upstreams. On a
// terminal, lines are shortened to its width.
func (r *Report) Print(io term.IO) {
	what := "serving " + r.BaseURL
	if r.Destination != "" {
		what = "following into " + r.Destination
	}
	if r.Mirrors > 0 {
		what = "following"
	}
	switch n := r.failing(); {
	case len(r.Upstreams) == 0:
		io.Printf("%s: %s, no upstreams\n", what, term.Count(r.Sets, "set"))
		return
	case n > 0:
		io.Printf("%s: %s, %d failing\n\n", what, term.Count(len(r.Upstreams), "upstream"), n)
	default:
		io.Printf("%s: %s, all well\n\n", what, term.Count(len(r.Upstreams), "upstream"))
	}
	lines := [][]string{{"UPSTREAM", "STATE", "AGE", "NEXT", "RESOURCES", "ERROR"}}
	for i := range r.Upstreams {
		u := &r.Upstreams[i]
		age, next, resources := "-", "-", "-"
		if u.Age != nil {
			age = span(time.Duration(*u.Age * float64(time.Second)))
		}
		if !u.Next.IsZero() {
			next = "now"
			if d := u.Next.Sub(r.At); d > 0 {
				next = "in " + span(d)
			}
		}
		if u.Resources != nil {
			resources = term.Thousands(*u.Resources)
		}
		state := string(u.State)
		if u.State == aggregator.StateFollowing {
			state = cmp.Or(channels[u.Channel], state)
		}
		lines = append(lines, []string{u.Label(), state, age, next, resources, u.Error})
	}
	for _, line := range layOut(lines, io.Columns()) {
		io.Printf("%s\n", line)
	}
}

// channels say how an upstream is followed.
var channels = map[string]string{"hub": "hub", "events": "event stream", "poll": "polling"}

// span returns a duration in its largest unit, for people.
func span(d time.Duration) string {
	switch {
	case d < 2*time.Minute:
		return fmt.Sprintf("%d s", d/time.Second)
	case d < 2*time.Hour:
		return fmt.Sprintf("%d min", d/time.Minute)
	case d < 48*time.Hour:
		return fmt.Sprintf("%d h", d/time.Hour)
	}
	return fmt.Sprintf("%d d", d/(24*time.Hour))
}

// maxName is how much of a name is shown on a terminal.
const maxName = 40

// layOut aligns the columns of a table, and shortens its lines to a width, unless that
// is 0. Numbers are aligned to the right.
func layOut(table [][]string, width int) []string {
	widths := make([]int, len(table[0]))
	for _, row := range table {
		if width > 0 {
			row[0] = shorten(row[0], max(min(maxName, width/3), 8))
		}
		for i, cell := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	used := 0
	for _, w := range widths[:len(widths)-1] {
		used += w + len(gap)
	}
	below := width > 0 && width-used < minError // then errors are on lines of their own
	var lines []string
	for n, row := range table {
		var b strings.Builder
		last := len(row) - 1
		for i, cell := range row[:last] {
			pad := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell))
			if i == last-1 {
				pad, cell = cell, pad
			}
			b.WriteString(cell + pad + gap)
		}
		text := row[last]
		switch {
		case below && n > 0 && text != "":
			lines = append(lines, shorten(strings.TrimRight(b.String(), " "), width))
			text = gap + shortenMiddle(text, width-len(gap))
			b.Reset()
		case below:
			text = ""
		case width > 0:
			text = shortenMiddle(text, width-used)
		}
		b.WriteString(text)
		line := strings.TrimRight(b.String(), " ")
		if width > 0 {
			line = shorten(line, width)
		}
		lines = append(lines, line)
	}
	return lines
}

const (
	gap      = "  " // between columns
	minError = 40   // characters that the column of errors has at least
)

// shortenMiddle returns text with at most so many characters: of an error, the beginning
// says what was done, and the end what was wrong.
func shortenMiddle(text string, most int) string {
	runes := []rune(text)
	if len(runes) <= most || most < 3 {
		return shorten(text, most)
	}
	head := (most - 1) / 2
	return string(runes[:head]) + "…" + string(runes[len(runes)-(most-1-head):])
}

// shorten returns text with at most so many characters, the last of which shows that
// there were more.
func shorten(text string, most int) string {
	if utf8.RuneCountInString(text) <= most {
		return text
	}
	return string([]rune(text)[:max(most-1, 0)]) + "…"
}
