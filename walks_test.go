package lockstep_test

import (
	"go/ast"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// maxWalk is how many steps a walk in docs/architecture.md may have.
const maxWalk = 12

var (
	walkStep   = regexp.MustCompile(`^\d+\. `)
	codeSpan   = regexp.MustCompile("`([^`]+)`")
	identifier = regexp.MustCompile(`^([a-z0-9/]+)\.([A-Z]\w*)(?:\.([A-Z]\w*))?$`) // package.Name or package.Type.Name
)

// TestWalksNameWhatExists checks the walks in docs/architecture.md: each step names
// a package and an identifier in it, and all that they name exist.
func TestWalksNameWhatExists(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join("docs", "architecture.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, walks, ok := strings.Cut(string(text), "\n## Walks\n")
	walks, _, _ = strings.Cut(walks, "\n## ")
	if !ok {
		t.Fatal("docs/architecture.md has no section Walks")
	}
	decls := declarationsOf(goTree(t))
	walk, count, steps := "", 0, 0
	for paragraph := range strings.SplitSeq(walks, "\n") {
		if heading, ok := strings.CutPrefix(paragraph, "### "); ok {
			walk, steps = heading, 0
			count++
		}
		named := 0
		for _, m := range codeSpan.FindAllStringSubmatch(paragraph, -1) {
			id := identifier.FindStringSubmatch(m[1])
			if id == nil {
				continue
			}
			named++
			if problem := decls.find(id[1], id[2], id[3]); problem != "" {
				t.Errorf("docs/architecture.md, %s: %s: %s", walk, m[1], problem)
			}
		}
		if walkStep.MatchString(paragraph) {
			if steps++; steps > maxWalk {
				t.Errorf("docs/architecture.md, %s: more than %d steps", walk, maxWalk)
			}
			if named == 0 {
				t.Errorf("docs/architecture.md, %s: this step names no function: %s", walk, paragraph)
			}
		}
	}
	if count != 3 {
		t.Errorf("docs/architecture.md has %d walks, want 3", count)
	}
}

// declarations has the exported identifiers of packages: what is declared at the
// top level, and by "Type.Name" methods and fields.
type declarations struct {
	packages map[string]bool
	names    map[string]bool     // by "package.Name" and "package.Type.Name"
	same     map[string][]string // by "package.Type": the types that it is an alias of or embeds
}

func declarationsOf(files []goFile) declarations {
	d := declarations{map[string]bool{}, map[string]bool{}, map[string][]string{}}
	for _, f := range files {
		d.packages[f.dir()] = true
		for _, decl := range f.syntax.Decls {
			switch decl := decl.(type) {
			case *ast.FuncDecl:
				if decl.Recv == nil {
					d.names[f.dir()+"."+decl.Name.Name] = true
				} else {
					d.names[f.typeName(decl.Recv.List[0].Type)+"."+decl.Name.Name] = true
				}
			case *ast.GenDecl:
				for _, spec := range decl.Specs {
					d.spec(f, spec)
				}
			}
		}
	}
	return d
}

func (d *declarations) spec(f goFile, spec ast.Spec) {
	switch spec := spec.(type) {
	case *ast.ValueSpec:
		for _, name := range spec.Names {
			d.names[f.dir()+"."+name.Name] = true
		}
	case *ast.TypeSpec:
		name := f.dir() + "." + spec.Name.Name
		d.names[name] = true
		var fields *ast.FieldList
		switch t := spec.Type.(type) {
		case *ast.StructType:
			fields = t.Fields
		case *ast.InterfaceType:
			fields = t.Methods
		default:
			if spec.Assign.IsValid() {
				d.same[name] = append(d.same[name], f.typeName(t))
			}
			return
		}
		for _, field := range fields.List {
			if len(field.Names) == 0 {
				d.same[name] = append(d.same[name], f.typeName(field.Type))
			}
			for _, n := range field.Names {
				d.names[name+"."+n.Name] = true
			}
		}
	}
}

// find returns what is wrong with an identifier, or "".
func (d *declarations) find(pkg, name, member string) string {
	switch {
	case !d.packages[pkg]:
		return "there is no package " + pkg
	case !d.names[pkg+"."+name]:
		return "the package does not declare " + name
	case member != "" && !d.has(pkg+"."+name, member):
		return name + " has no method or field " + member
	}
	return ""
}

func (d *declarations) has(typ, member string) bool {
	if d.names[typ+"."+member] {
		return true
	}
	for _, other := range d.same[typ] {
		if d.has(other, member) {
			return true
		}
	}
	return false
}
