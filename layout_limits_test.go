package lockstep_test

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
)

// A measure is what a limit counts.
type measure string

const (
	codeLines     measure = "lines of code"             // of a package: blank lines, comments and tests excluded
	methods       measure = "methods"                   // of a type
	contextFields measure = "context.Context fields"    // of the structs of one declaration
	embedding     measure = "levels of embedding"       // of structs with methods, below a struct
	sameWord      measure = "files that share a prefix" // of one package: a hidden package
)

// limits are the largest numbers allowed. A number above its limit needs a line
// in the table of exceptions.
var limits = map[measure]int{codeLines: 3000, methods: 30, contextFields: 0, embedding: 1, sameWord: 4}

// A parser or scanner may have up to parserMethods methods, because they are
// its grammar. Its name has to be listed in parsers.
const parserMethods = 80

var parsers = []string{"atompmh.Reader", "internal/xmlscan.Scanner", "resourcesync.Reader"}

// An exception allows subject a number above the limit. The number may only go
// down: the test fails when the tree has more, and when the tree has less and
// the table was not lowered. The lines of a package are rounded up to the next
// lineStep and have to be lowered once they are two steps too high, so that
// small changes need no edit here; all other numbers are exact.
type exception struct {
	subject string
	what    measure
	n       int
}

const lineStep = 250

var exceptions = []exception{}

// A subject is what a measure was taken of.
type subject struct {
	name string
	what measure
}

func TestLayoutLimits(t *testing.T) {
	t.Parallel()
	for _, problem := range checkLimits(measureTree(goTree(t)), parsers, exceptions) {
		t.Error(problem)
	}
}

// checkLimits compares what was measured with the limits and their exceptions
// and returns a sentence for each difference.
func checkLimits(measured map[subject]int, parsers []string, exceptions []exception) []string {
	var problems []string
	report := func(format string, args ...any) { problems = append(problems, fmt.Sprintf(format, args...)) }
	allowed := map[subject]int{}
	for _, e := range exceptions {
		s := subject{e.subject, e.what}
		if _, ok := allowed[s]; ok {
			report("%s: two exceptions for %s: remove one", e.subject, e.what)
		}
		allowed[s] = e.n
	}
	limitOf := func(s subject) int {
		if s.what == methods && slices.Contains(parsers, s.name) {
			return parserMethods
		}
		return limits[s.what]
	}
	for s, n := range measured {
		row, excepted := allowed[s]
		limit := limitOf(s)
		lower, slack := n, 0 // what the table should say, and how much more it may say
		if s.what == codeLines {
			lower, slack = (n+lineStep-1)/lineStep*lineStep, 2*lineStep-1
		}
		switch {
		case excepted && n > row:
			report("%s has %d %s, its exception allows %d: split it instead of letting it grow", s.name, n, s.what, row)
		case excepted && n <= limit:
			report("%s has %d %s, the limit is %d: remove its line from the exceptions", s.name, n, s.what, limit)
		case excepted && row-n > slack:
			report("%s has %d %s, its exception allows %d: lower that number to %d", s.name, n, s.what, row, lower)
		case !excepted && n > limit:
			report("%s has %d %s, the limit is %d", s.name, n, s.what, limit)
		}
		delete(allowed, s)
	}
	for s := range allowed {
		report("the exceptions list %s of %s, which does not exist: remove that line", s.what, s.name)
	}
	for _, p := range parsers {
		if measured[subject{p, methods}] <= limits[methods] {
			report("%s is listed as a parser but has at most %d methods: remove it from that list", p, limits[methods])
		}
	}
	slices.Sort(problems)
	return problems
}

// measureTree counts what has a limit.
func measureTree(files []goFile) map[subject]int {
	types := declaredTypes(files)
	measured := map[subject]int{}
	stems := map[string][]string{} // by package: file names without extension and platform
	for _, f := range files {
		measured[subject{f.dir(), codeLines}] += f.lines
		stems[f.dir()] = append(stems[f.dir()], stem(f.path))
		for name, n := range f.contextFields() {
			measured[subject{f.dir() + "." + name, contextFields}] += n
		}
	}
	for name, typ := range types {
		measured[subject{name, methods}] = len(typ.methods)
		measured[subject{name, embedding}] = types.embeddingDepth(name, nil)
	}
	for dir, names := range stems {
		for word, n := range sharedPrefixes(names) {
			measured[subject{path.Join(dir, word+"*"), sameWord}] = n
		}
	}
	return measured
}

// stem returns the name of a Go file without its extension and platform.
func stem(file string) string {
	name := strings.TrimSuffix(path.Base(file), ".go")
	for _, platform := range []string{"_unix", "_linux", "_darwin", "_windows", "_other"} {
		name = strings.TrimSuffix(name, platform)
	}
	return name
}

// sharedPrefixes returns how many names start with the same four letters, by
// the longest prefix they have in common.
func sharedPrefixes(names []string) map[string]int {
	names = slices.Compact(slices.Sorted(slices.Values(names)))
	groups := map[string][]string{}
	for _, n := range names {
		if len(n) >= 4 && !strings.Contains(n[:4], "_") {
			groups[n[:4]] = append(groups[n[:4]], n)
		}
	}
	shared := map[string]int{}
	for _, g := range groups {
		first, last, i := g[0], g[len(g)-1], 4 // sorted: what these two share, all share
		for i < len(first) && i < len(last) && first[i] == last[i] {
			i++
		}
		shared[first[:i]] = len(g)
	}
	return shared
}

// typeTable holds the declared types of the module by "package.Type".
type typeTable map[string]*declaredType

type declaredType struct {
	methods map[string]bool // names, because a method can be declared once per platform
	embeds  []string        // the embedded types of this module, and what an alias stands for
}

// declaredTypes collects the types that files declare at top level.
func declaredTypes(files []goFile) typeTable {
	types := typeTable{}
	of := func(name string) *declaredType {
		if types[name] == nil {
			types[name] = &declaredType{methods: map[string]bool{}}
		}
		return types[name]
	}
	for _, f := range files {
		for _, d := range f.syntax.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				if d.Recv != nil {
					of(f.typeName(d.Recv.List[0].Type)).methods[d.Name.Name] = true
				}
			case *ast.GenDecl:
				for _, spec := range d.Specs {
					s, ok := spec.(*ast.TypeSpec)
					if !ok {
						continue
					}
					t := of(f.dir() + "." + s.Name.Name)
					if st, ok := s.Type.(*ast.StructType); ok {
						for _, field := range st.Fields.List {
							if len(field.Names) == 0 {
								t.embeds = append(t.embeds, f.typeName(field.Type))
							}
						}
					}
				}
			}
		}
	}
	return types
}

// embeddingDepth returns how many structs with methods are embedded below the
// type, one in the other. Interfaces and types of other modules do not count.
func (types typeTable) embeddingDepth(name string, seen []string) int {
	t := types[name]
	if t == nil || slices.Contains(seen, name) { // a type may embed a pointer to itself
		return 0
	}
	depth := 0
	for _, e := range t.embeds {
		below := types.embeddingDepth(e, append(seen, name))
		if inner := types[e]; below > 0 || inner != nil && len(inner.methods) > 0 {
			depth = max(depth, below+1)
		}
	}
	return depth
}

// A goFile is a Go file of the module that is not a test.
type goFile struct {
	path   string // from the module's root, with slashes
	lines  int    // of code: neither blank nor comment
	syntax *ast.File
}

func (f goFile) dir() string { return path.Dir(f.path) }

// typeName returns the type of an expression as "package.Type", without
// pointers and type parameters, or "" for a type of another module.
func (f goFile) typeName(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.StarExpr:
		return f.typeName(e.X)
	case *ast.IndexExpr:
		return f.typeName(e.X)
	case *ast.IndexListExpr:
		return f.typeName(e.X)
	case *ast.ParenExpr:
		return f.typeName(e.X)
	case *ast.Ident:
		return f.dir() + "." + e.Name
	case *ast.SelectorExpr:
		if pkg, ok := e.X.(*ast.Ident); ok {
			if dir, ok := strings.CutPrefix(f.imported(pkg.Name), module+"/"); ok {
				return dir + "." + e.Sel.Name
			}
		}
	}
	return ""
}

// imported returns the path of the package that the file imports under a name.
func (f goFile) imported(name string) string {
	for _, i := range f.syntax.Imports {
		p, err := strconv.Unquote(i.Path.Value)
		if err == nil && (i.Name == nil && path.Base(p) == name || i.Name != nil && i.Name.Name == name) {
			return p
		}
	}
	return ""
}

// contextFields counts the context.Context fields of structs, by the top-level
// declaration in which the struct is.
func (f goFile) contextFields() map[string]int {
	found := map[string]int{}
	inStructs := func(declaration string, root ast.Node) {
		ast.Inspect(root, func(n ast.Node) bool {
			st, ok := n.(*ast.StructType)
			if !ok {
				return true
			}
			for _, field := range st.Fields.List {
				sel, ok := field.Type.(*ast.SelectorExpr)
				if !ok || sel.Sel.Name != "Context" {
					continue
				}
				if pkg, ok := sel.X.(*ast.Ident); ok && f.imported(pkg.Name) == "context" {
					found[declaration] += max(1, len(field.Names))
				}
			}
			return true
		})
	}
	for _, d := range f.syntax.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			inStructs(d.Name.Name, d)
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				switch s := spec.(type) {
				case *ast.TypeSpec:
					inStructs(s.Name.Name, s)
				case *ast.ValueSpec:
					inStructs(s.Names[0].Name, s)
				}
			}
		}
	}
	return found
}

// goTree returns the module's Go files, parsed once for all tests. Tests, the
// packages of test helpers (named ...test) and benchmarks are not part of it.
func goTree(t *testing.T) []goFile {
	t.Helper()
	files, err := parsedTree()
	if err != nil {
		t.Fatal(err)
	}
	return files
}

var parsedTree = sync.OnceValues(func() ([]goFile, error) { return parseTree(os.DirFS(".")) })

func parseTree(fsys fs.FS) ([]goFile, error) {
	var files []goFile
	err := fs.WalkDir(fsys, ".", func(p string, d fs.DirEntry, err error) error {
		switch name := path.Base(p); {
		case err != nil:
			return err
		case d.IsDir() && p != "." && (strings.ContainsAny(name[:1], "._") || name == "testdata" || name == "bench" || strings.HasSuffix(name, "test")):
			return fs.SkipDir
		case !d.IsDir() && path.Ext(p) == ".go" && !strings.HasSuffix(p, "_test.go"):
			files = append(files, goFile{path: p})
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	fset := token.NewFileSet()
	errs := make([]error, len(files))
	var wg sync.WaitGroup
	workers := runtime.GOMAXPROCS(0)
	for w := range workers {
		wg.Go(func() {
			for i := w; i < len(files); i += workers {
				f := &files[i]
				var text []byte
				if text, errs[i] = fs.ReadFile(fsys, f.path); errs[i] != nil {
					continue
				}
				if f.syntax, errs[i] = parser.ParseFile(fset, f.path, text, parser.ParseComments|parser.SkipObjectResolution); errs[i] == nil {
					f.lines = linesOfCode(text, f.syntax)
				}
			}
		})
	}
	wg.Wait()
	return files, errors.Join(errs...)
}

// linesOfCode counts the lines that are left of a file without its comments
// and blank lines.
func linesOfCode(text []byte, f *ast.File) int {
	code := slices.Clone(text)
	for _, group := range f.Comments {
		for _, c := range group.List {
			for i := c.Pos() - f.FileStart; i < c.End()-f.FileStart; i++ {
				if code[i] != '\n' {
					code[i] = ' '
				}
			}
		}
	}
	n := 0
	for line := range strings.Lines(string(code)) {
		if strings.TrimSpace(line) != "" {
			n++
		}
	}
	return n
}

// TestLayoutLimitsAreEnforced breaks each limit once.
func TestLayoutLimitsAreEnforced(t *testing.T) {
	t.Parallel()
	code := func(format string, from, to int) string {
		var b strings.Builder
		for i := from; i < to; i++ {
			fmt.Fprintf(&b, format, i)
		}
		return b.String()
	}
	const line = "var V%d = 1 // counted\n\n// not counted\n"
	tree := map[string]string{
		"lines/a.go":         "package lines\n" + code(line, 1, 3000),
		"toomanylines/a.go":  "package toomanylines\n" + code(line, 1, 1500),
		"toomanylines/b.go":  "package toomanylines\n/* a\nb */\n" + code(line, 1500, 3000),
		"lines/a_test.go":    "package lines\n" + code(line, 1, 3000),
		"methods/a.go":       "package methods\ntype T[K any] struct{}\nfunc (T[K]) A() {}\ntype U struct{}\n" + code("func (*U) M%d() {}\n", 0, 30),
		"methods/b_linux.go": "package methods\n" + code("func (t *T[K]) M%d() {}\n", 0, 30),
		"methods/b_other.go": "package methods\n" + code("func (t *T[K]) M%d() {}\n", 0, 30),
		"methods/parse.go":   "package methods\ntype Parser int\n" + code("func (Parser) M%d() {}\n", 0, 81),
		"contexts/a.go":      "package contexts\nimport std \"context\"\ntype T struct { A int; B, C std.Context }\nfunc F(ctx std.Context, c interface{ Context() }) { type in struct { std.Context } }",
		"embeds/a.go": "package embeds\nimport \"" + module + "/embeds/base\"\n" +
			"type One struct { *base.Zero; base.Record }\ntype Two struct { One }\ntype Data struct { base.Record }\ntype Field struct { two Two }",
		"embeds/base/a.go": "package base\ntype Record struct{ A int }\ntype Zero struct{}\nfunc (Zero) Do() {}",
	}
	for _, name := range []string{"page", "pageread", "page_linux", "page_windows", "pageopen", "page_write", "pages", "paging", "pag", "open", "openread", "openwrite", "opening"} {
		tree["words/"+name+".go"] = "package words"
	}
	fsys := fstest.MapFS{}
	for name, text := range tree {
		fsys[name] = &fstest.MapFile{Data: []byte(text)}
	}
	files, err := parseTree(fsys)
	if err != nil {
		t.Fatal(err)
	}
	over := []string{
		"contexts.F has 1 context.Context fields, the limit is 0",
		"contexts.T has 2 context.Context fields, the limit is 0",
		"embeds.Two has 2 levels of embedding, the limit is 1",
		"methods.Parser has 81 methods, the limit is 80",
		"methods.T has 31 methods, the limit is 30",
		"toomanylines has 3001 lines of code, the limit is 3000",
		"words/page* has 5 files that share a prefix, the limit is 4",
	}
	for _, tt := range []struct {
		name       string
		exceptions []exception
		remove     string // a subject without problem
		add        string
	}{
		{name: "each limit"},
		{"an exception that is exact", []exception{{"methods.T", methods, 31}}, "methods.T ", ""},
		{"a number that has risen", []exception{{"contexts.T", contextFields, 1}}, "contexts.T ",
			"contexts.T has 2 context.Context fields, its exception allows 1: split it instead of letting it grow"},
		{"a number that has fallen", []exception{{"methods.T", methods, 32}}, "methods.T ",
			"methods.T has 31 methods, its exception allows 32: lower that number to 31"},
		{"lines have room for small changes", []exception{{"toomanylines", codeLines, 3500}}, "toomanylines ", ""},
		{"lines that have fallen", []exception{{"toomanylines", codeLines, 3501}}, "toomanylines ",
			"toomanylines has 3001 lines of code, its exception allows 3501: lower that number to 3250"},
		{"an exception that is not needed", []exception{{"lines", codeLines, 3250}}, "",
			"lines has 3000 lines of code, the limit is 3000: remove its line from the exceptions"},
		{"an exception for what is gone", []exception{{"gone.T", methods, 40}}, "",
			"the exceptions list methods of gone.T, which does not exist: remove that line"},
	} {
		want := slices.DeleteFunc(slices.Clone(over), func(s string) bool { return tt.remove != "" && strings.HasPrefix(s, tt.remove) })
		if tt.add != "" {
			want = append(want, tt.add)
		}
		slices.Sort(want)
		if got := checkLimits(measureTree(files), []string{"methods.Parser"}, tt.exceptions); !slices.Equal(got, want) {
			t.Errorf("%s:\n got %s\nwant %s", tt.name, strings.Join(got, "\n     "), strings.Join(want, "\n     "))
		}
	}
	got := checkLimits(map[subject]int{{"methods.U", methods}: 30}, []string{"methods.U"}, nil)
	if len(got) != 1 || !strings.Contains(got[0], "listed as a parser but has at most 30 methods") {
		t.Errorf("a parser that needs no line: %q", got)
	}
}
