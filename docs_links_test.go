package lockstep_test

import (
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode"
)

var (
	markdownLink = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	inlineCode   = regexp.MustCompile("`[^`]*`")
)

// TestLinksInDocs reports links of Markdown files to files and headings of this
// repository that do not exist.
func TestLinksInDocs(t *testing.T) {
	t.Parallel()
	pages, err := filepath.Glob("*.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, pattern := range []string{"docs/*.md", "docs/*/*.md", "deploy/*.md"} {
		more, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		pages = append(pages, more...)
	}
	anchors := map[string]map[string]bool{}
	for _, page := range pages {
		anchors[filepath.ToSlash(page)] = headingAnchors(proseOf(t, page))
	}
	for page := range anchors {
		for _, m := range markdownLink.FindAllStringSubmatch(inlineCode.ReplaceAllString(proseOf(t, page), ""), -1) {
			if strings.Contains(m[1], "://") || strings.HasPrefix(m[1], "mailto:") {
				continue
			}
			file, anchor, _ := strings.Cut(m[1], "#")
			target := page
			if file != "" {
				target = path.Join(path.Dir(page), file)
			}
			if _, err := os.Stat(target); err != nil {
				t.Errorf("%s links to %s, which does not exist", page, m[1])
				continue
			}
			if anchor != "" && anchors[target] != nil && !anchors[target][anchor] {
				t.Errorf("%s links to %s, but %s has no such heading", page, m[1], target)
			}
		}
	}
}

// proseOf returns the text of a Markdown file without its code blocks.
func proseOf(t *testing.T, page string) string {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	var prose strings.Builder
	code := false
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(strings.TrimSpace(line), "```") {
			code = !code
			continue
		}
		if !code {
			prose.WriteString(line)
		}
	}
	return prose.String()
}

// headingAnchors returns the anchors that GitHub gives to the headings of a
// Markdown text.
func headingAnchors(prose string) map[string]bool {
	anchors := map[string]bool{}
	for line := range strings.Lines(prose) {
		heading := strings.TrimLeft(line, "#")
		if heading == line {
			continue
		}
		anchors[strings.Map(func(r rune) rune {
			switch {
			case r == ' ':
				return '-'
			case unicode.IsLetter(r), unicode.IsDigit(r), r == '-', r == '_':
				return unicode.ToLower(r)
			}
			return -1
		}, strings.TrimSpace(heading))] = true
	}
	return anchors
}

// TestDecisionsAreListed: the index of docs/decisions has a row for each
// record, with its number and its title.
func TestDecisionsAreListed(t *testing.T) {
	t.Parallel()
	index := proseOf(t, "docs/decisions/README.md")
	records, err := filepath.Glob("docs/decisions/[0-9]*.md")
	if err != nil || len(records) == 0 {
		t.Fatalf("no records: %v", err)
	}
	for _, record := range records {
		title, _, _ := strings.Cut(strings.TrimPrefix(proseOf(t, record), "# "), "\n")
		number, title, _ := strings.Cut(title, ": ")
		name := filepath.Base(record)
		if !strings.HasPrefix(name, number+"-") {
			t.Errorf("%s: the title begins with %s", record, number)
		}
		if row := "| [" + number + "](" + name + ") | " + title + " | "; !strings.Contains(index, row) {
			t.Errorf("docs/decisions/README.md has no row that begins with %q", row)
		}
	}
}
