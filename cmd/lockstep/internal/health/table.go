package health

import (
	"strings"
	"unicode/utf8"
)

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
