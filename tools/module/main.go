// Command module gives the module another path, in place: in go.mod, imports,
// documentation and linker flags. The name of the program stays lockstep.
//
//	go run -C tools ./module -C .. example.org/lockstep
//
// It refuses a working tree with changes that are not committed, so that git can
// undo what it does.
package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"go/ast"
	"go/format"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

func main() {
	dir := flag.String("C", ".", "the root `DIR` of the module")
	flag.Parse()
	if flag.NArg() != 1 {
		fmt.Fprintln(os.Stderr, "usage: module [-C DIR] PATH, such as example.org/lockstep")
		os.Exit(2)
	}
	n, err := rename(*dir, flag.Arg(0))
	if err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
	fmt.Printf("the module is %s: %d files changed\n", flag.Arg(0), n)
}

// A renaming replaces one module path by another in the files of a tree.
type renaming struct {
	root     string
	from, to string
	packages map[string]bool // import paths
	mention  *regexp.Regexp  // of an import path in prose
}

var modulePath = regexp.MustCompile(`^[a-z0-9][a-z0-9-]*(\.[a-z0-9][a-z0-9-]*)+(/[A-Za-z0-9_~-][A-Za-z0-9._~-]*)*$`)

// rename gives the module in the directory root the path to, and returns how many
// files it changed.
func rename(root, to string) (changed int, err error) {
	if !modulePath.MatchString(to) {
		return 0, fmt.Errorf("%q is not a module path: it begins with a host name, as in example.org/lockstep", to)
	}
	if out, err := command(root, "git", "status", "--porcelain"); err == nil && len(out) > 0 {
		return 0, errors.New("the working tree has changes: commit them first, so that git can undo the renaming")
	}
	from, err := command(root, "go", "list", "-m")
	if err != nil {
		return 0, err
	}
	r := &renaming{root: root, from: from, to: to, packages: map[string]bool{}}
	if from == to {
		return 0, nil
	}
	r.mention = regexp.MustCompile("([\"`=' ])(" + regexp.QuoteMeta(from) + `(?:/[a-z0-9]+)+)(["` + "`" + `.'@]|$)`)
	files, err := r.files()
	if err != nil {
		return 0, err
	}
	for _, name := range files {
		before, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			return changed, err
		}
		after := before
		switch {
		case path.Base(name) == "go.mod":
			after = r.goMod(before)
		case path.Ext(name) == ".go":
			after, err = r.goFile(name, before)
		default:
			after = r.prose(before)
		}
		if err != nil {
			return changed, err
		}
		if bytes.Equal(before, after) {
			continue
		}
		info, err := os.Stat(filepath.Join(root, name))
		if err != nil {
			return changed, err
		}
		if err := os.WriteFile(filepath.Join(root, name), after, info.Mode()); err != nil {
			return changed, err
		}
		changed++
	}
	return changed, nil
}

// files returns the files that may contain the path of the module, and collects
// the packages. Data of tests does not contain it.
func (r *renaming) files() ([]string, error) {
	var files []string
	err := fs.WalkDir(os.DirFS(r.root), ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && slices.Contains([]string{".git", "testdata", "node_modules"}, d.Name()):
			return fs.SkipDir
		case d.IsDir() || !d.Type().IsRegular():
			return nil
		}
		switch base, ext := path.Base(name), path.Ext(name); {
		case ext == ".go":
			if dir := path.Dir(name); dir != "." { // the root has none, and its path is a word of its own
				r.packages[path.Join(r.from, dir)] = true
			}
			files = append(files, name)
		case base == "go.mod", base == "Makefile", ext == ".md", ext == ".sh", ext == ".yml", ext == ".yaml", path.Dir(name) == ".ci":
			files = append(files, name)
		}
		return nil
	})
	return files, err
}

// renamed returns the new path of a package of the module.
func (r *renaming) renamed(importPath string) (string, bool) {
	if !r.packages[importPath] {
		return importPath, false
	}
	return r.to + strings.TrimPrefix(importPath, r.from), true
}

// goMod replaces the path in the module line of the module, or of one in a folder
// of it.
func (r *renaming) goMod(text []byte) []byte {
	line, rest, _ := strings.Cut(string(text), "\n")
	name := strings.TrimSpace(strings.TrimPrefix(line, "module "))
	if name != r.from && !strings.HasPrefix(name, r.from+"/") {
		return text
	}
	return []byte("module " + r.to + strings.TrimPrefix(name, r.from) + "\n" + rest)
}

// goFile replaces imports and other strings that are the path of a package, and
// what comments mention.
func (r *renaming) goFile(name string, text []byte) ([]byte, error) {
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, name, text, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	type edit struct {
		from, to int
		text     string
	}
	var edits []edit
	at := func(p token.Pos) int { return fset.Position(p).Offset }
	ast.Inspect(file, func(n ast.Node) bool {
		lit, ok := n.(*ast.BasicLit)
		if !ok || lit.Kind != token.STRING {
			return true
		}
		if s, err := strconv.Unquote(lit.Value); err == nil {
			if to, ok := r.renamed(s); ok {
				edits = append(edits, edit{at(lit.Pos()), at(lit.End()), strconv.Quote(to)})
			}
		}
		return true
	})
	for _, group := range file.Comments {
		for _, c := range group.List {
			if after := r.prose([]byte(c.Text)); string(after) != c.Text {
				edits = append(edits, edit{at(c.Pos()), at(c.End()), string(after)})
			}
		}
	}
	if len(edits) == 0 {
		return text, nil
	}
	slices.SortFunc(edits, func(a, b edit) int { return b.from - a.from }) // from the end, so that offsets stay true
	for _, e := range edits {
		text = slices.Concat(text[:e.from], []byte(e.text), text[e.to:])
	}
	return format.Source(text)
}

// prose replaces import paths in quotes, in code spans and in linker flags.
func (r *renaming) prose(text []byte) []byte {
	return r.mention.ReplaceAllFunc(text, func(found []byte) []byte {
		m := r.mention.FindSubmatch(found)
		to, _ := r.renamed(string(m[2]))
		return slices.Concat(m[1], []byte(to), m[3])
	})
}

// command runs a program and returns what it prints, without the last newline.
func command(dir, name string, args ...string) (string, error) {
	cmd := exec.Command(name, args...)
	cmd.Dir = dir
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		err = fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, strings.TrimSpace(stderr.String()))
	}
	return strings.TrimSpace(string(out)), err
}
