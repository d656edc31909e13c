package lockstep_test

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/token"
	"io/fs"
	"os"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
)

// unclear matches phrases that have made texts of this project hard to read
// for people who do not know it. It is only an indicator: a sentence should say
// in ordinary technical English who does what.
var unclear = regexp.MustCompile(`(?i)\b(tells?|told|untold|anew|nobody|somebody|whoever|in vain|lest|what (it|that) comes to|what became|what becomes of|be had|stands? (in|at|beside|below|here|there|for)|who (has|is|wants|asks|comes|sends|reads|does)|put right|come to rest)\b`)

// phraseGoal is how many unclear phrases a text may have per 1,000 lines.
const phraseGoal = 3

// A phraseBudget allows an area, a folder of the root, more unclear phrases
// than the goal. Budgets are multiples of budgetStep, may only go down, and are
// 0 where the goal is met.
type phraseBudget struct {
	area     string // "." is the files of the root
	comments int    // per 1,000 lines of comments
	messages int    // per 1,000 lines of string literals
	docs     int    // per 1,000 lines of Markdown, web pages and help texts
}

const budgetStep = 5

var phraseBudgets = []phraseBudget{
	{"repository", 0, 5, 0},
}

// A text is where phrases are counted: the comments, messages or docs of an area.
type text struct{ area, kind string }

// A phraseCount counts the lines of a text and the unclear phrases in them.
type phraseCount struct{ lines, phrases int }

func (c phraseCount) plus(d phraseCount) phraseCount {
	return phraseCount{c.lines + d.lines, c.phrases + d.phrases}
}

// budget returns the number that the table should have for c: phrases per 1,000
// lines, rounded up, or 0 if the goal is met.
func (c phraseCount) budget() int {
	if 1000*c.phrases <= phraseGoal*c.lines {
		return 0
	}
	const unit = 1000 * budgetStep
	return (1000*1000*c.phrases/c.lines + unit - 1) / unit * budgetStep
}

// TestLanguage holds the comments, messages and docs of each area to its budget
// of unclear phrases.
func TestLanguage(t *testing.T) {
	t.Parallel()
	counted, err := countPhrases(os.DirFS("."), goTree(t))
	if err != nil {
		t.Fatal(err)
	}
	for _, problem := range checkBudgets(counted, phraseBudgets) {
		t.Error(problem)
	}
}

// checkBudgets returns a sentence for each text that has more phrases than its
// budget, and for each budget that has to be lowered.
func checkBudgets(counted map[text]phraseCount, budgets []phraseBudget) []string {
	var problems []string
	allowed := map[text]int{}
	for _, b := range budgets {
		for kind, n := range map[string]int{"comments": b.comments, "messages": b.messages, "docs": b.docs} {
			at := text{b.area, kind}
			allowed[at] = n
			if _, ok := counted[at]; n > 0 && !ok {
				problems = append(problems, fmt.Sprintf("%s: there are no %s: set their budget to 0", b.area, kind))
			}
		}
	}
	for at, c := range counted {
		limit := max(allowed[at], phraseGoal)
		now := c.budget()
		switch {
		case 1000*c.phrases > limit*c.lines:
			problems = append(problems, fmt.Sprintf("%s: the %s have %.1f unclear phrases per 1,000 lines, their budget is %d: rewrite some (the expression unclear in language_test.go finds them)",
				at.area, at.kind, 1000*float64(c.phrases)/float64(c.lines), limit))
		case allowed[at] > 0 && (now == 0 || now < allowed[at]-budgetStep):
			problems = append(problems, fmt.Sprintf("%s: the %s have %.1f unclear phrases per 1,000 lines, their budget is %d: lower it to %d",
				at.area, at.kind, 1000*float64(c.phrases)/float64(c.lines), allowed[at], now))
		}
	}
	slices.Sort(problems)
	return problems
}

// countPhrases counts the comments and messages of Go files, and the docs of a
// tree.
func countPhrases(fsys fs.FS, files []goFile) (map[text]phraseCount, error) {
	counted := map[text]phraseCount{}
	var mu sync.Mutex // guards counted
	add := func(file, kind, lines string) {
		area, _, below := strings.Cut(file, "/")
		if !below {
			area = "."
		}
		c := countIn(lines)
		mu.Lock()
		defer mu.Unlock()
		at := text{area, kind}
		counted[at] = counted[at].plus(c)
	}
	var wg sync.WaitGroup
	for chunk := range slices.Chunk(files, 100) {
		wg.Go(func() {
			for _, f := range chunk {
				add(f.path, "comments", f.comments())
				add(f.path, "messages", f.messages())
			}
		})
	}
	wg.Wait()
	return counted, fs.WalkDir(fsys, ".", func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			if d != nil && p != "." && strings.HasPrefix(d.Name(), ".") {
				return fs.SkipDir
			}
			return err
		}
		switch path.Ext(p) {
		case ".md", ".html", ".tmpl":
		default:
			if path.Base(p) != "help.txtar" { // what `lockstep help` prints
				return nil
			}
		}
		doc, err := fs.ReadFile(fsys, p)
		add(p, "docs", string(doc))
		return err
	})
}

// countIn counts the lines that are not blank, and the phrases in them. A
// phrase may continue on the next line.
func countIn(lines string) phraseCount {
	var c phraseCount
	var joined bytes.Buffer
	for line := range strings.Lines(lines) {
		if line = strings.TrimSpace(line); line != "" {
			c.lines++
		}
		joined.WriteString(line)
		joined.WriteByte(' ')
	}
	c.phrases = len(unclear.FindAllIndex(joined.Bytes(), -1))
	return c
}

// comments returns the text of the file's comments.
func (f goFile) comments() string {
	var b strings.Builder
	for _, group := range f.syntax.Comments {
		b.WriteString(group.Text())
		b.WriteString("\n")
	}
	return b.String()
}

// messages returns the string literals of the file.
func (f goFile) messages() string {
	var b strings.Builder
	ast.Inspect(f.syntax, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.ImportSpec:
			return false
		case *ast.BasicLit:
			if n.Kind == token.STRING {
				if s, err := strconv.Unquote(n.Value); err == nil {
					b.WriteString(s)
					b.WriteString("\n\n")
				}
			}
		}
		return true
	})
	return b.String()
}

func TestLanguageBudgetsAreEnforced(t *testing.T) {
	t.Parallel()
	lines := strings.Repeat("A sentence.\n\n", 95)
	code := "package p\n\n// Nobody is told\n// of it.\nfunc F() { println(\"what\\nbecomes of it\", `\n\nanew`) }\n"
	fsys := fstest.MapFS{
		"README.md":         {Data: []byte("Tell it to whoever\nwants it.\n" + lines)},
		"docs/plain.md":     {Data: []byte(lines)},
		"p/p.go":            {Data: []byte(code + "//" + strings.ReplaceAll(lines, "\n\n", "\n//") + "\n")},
		"p/q/q.go":          {Data: []byte("package q\n\nvar _ = \"told\"\n")},
		"p/q/q_test.go":     {Data: []byte(code)},
		"p/page.html":       {Data: []byte("<p>It stands\nbeside.\n")},
		"p/script/help.txt": {Data: []byte("told")},
	}
	files, err := parseTree(fsys)
	if err != nil {
		t.Fatal(err)
	}
	counted, err := countPhrases(fsys, files)
	if err != nil {
		t.Fatal(err)
	}
	for at, want := range map[text]phraseCount{
		{".", "docs"}:     {97, 2},
		{"docs", "docs"}:  {95, 0},
		{"p", "comments"}: {97, 2},
		{"p", "messages"}: {4, 3},
		{"p", "docs"}:     {2, 1},
	} {
		if got := counted[at]; got != want {
			t.Errorf("%v: %+v, want %+v", at, got, want)
		}
	}
	over := []string{
		".: the docs have 20.6 unclear phrases per 1,000 lines, their budget is 3: rewrite",
		"p: the comments have 20.6 unclear phrases per 1,000 lines, their budget is 3: rewrite",
		"p: the docs have 500.0 unclear phrases per 1,000 lines, their budget is 3: rewrite",
		"p: the messages have 750.0 unclear phrases per 1,000 lines, their budget is 3: rewrite",
	}
	for _, tt := range []struct {
		name   string
		budget phraseBudget
		want   []string
	}{
		{"no budget", phraseBudget{}, over},
		{"what there is", phraseBudget{"p", 25, 750, 500}, over[:1]},
		{"too little", phraseBudget{"p", 20, 745, 500}, []string{over[0], strings.Replace(over[1], "is 3", "is 20", 1), strings.Replace(over[3], "is 3", "is 745", 1)}},
		{"too much", phraseBudget{"p", 35, 755, 510}, []string{over[0],
			"p: the comments have 20.6 unclear phrases per 1,000 lines, their budget is 35: lower it to 25",
			"p: the docs have 500.0 unclear phrases per 1,000 lines, their budget is 510: lower it to 500"}},
		{"not needed", phraseBudget{"docs", 0, 0, 5}, append([]string{over[0],
			"docs: the docs have 0.0 unclear phrases per 1,000 lines, their budget is 5: lower it to 0"}, over[1:]...)},
		{"nothing there", phraseBudget{"gone", 5, 0, 0}, append([]string{over[0], "gone: there are no comments: set their budget to 0"}, over[1:]...)},
	} {
		got := checkBudgets(counted, []phraseBudget{tt.budget})
		if !slices.EqualFunc(got, tt.want, strings.HasPrefix) {
			t.Errorf("%s:\n got %s\nwant %s", tt.name, strings.Join(got, "\n     "), strings.Join(tt.want, "\n     "))
		}
	}
}
