package lockstep_test

import (
	"bytes"
	"flag"
	"fmt"
	"go/constant"
	"go/importer"
	"go/token"
	"go/types"
	"io"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var updateAPI = flag.Bool("update-api", false, "write the names that were added to stable packages to api/next.txt")

// Tiers of public packages, as headings of docs/api.md.
const (
	stable       = "Stable"
	experimental = "Experimental"
)

var tierLine = regexp.MustCompile("^- `([^`]+)`: .+\\.$")

// tiers returns the packages that docs/api.md lists in each tier, and reports
// lines that it does not understand and packages that are listed twice.
func tiers(t *testing.T) map[string]string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("docs", "api.md"))
	if err != nil {
		t.Fatal(err)
	}
	listed, tier := map[string]string{}, ""
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if heading, ok := strings.CutPrefix(line, "## "); ok {
			tier = heading
		}
		if tier != stable && tier != experimental || !strings.HasPrefix(line, "- ") {
			continue
		}
		m := tierLine.FindStringSubmatch(line)
		if m == nil {
			t.Errorf("docs/api.md: %q is not of the form \"- `package`: what it does.\"", line)
			continue
		}
		if _, ok := listed[m[1]]; ok {
			t.Errorf("docs/api.md lists %s twice", m[1])
		}
		listed[m[1]] = tier
	}
	return listed
}

// TestEveryPublicPackageHasATier compares docs/api.md with the packages of the
// module.
func TestEveryPublicPackageHasATier(t *testing.T) {
	t.Parallel()
	listed := tiers(t)
	for _, p := range list(t, "./...") {
		name := strings.TrimPrefix(p.ImportPath, module+"/")
		first, _, _ := strings.Cut(name, "/")
		if name == module || len(p.GoFiles) == 0 || slices.Contains(strings.Split(name, "/"), "internal") || slices.Contains([]string{"bench", "cmd", "examples"}, first) {
			continue
		}
		if listed[name] == "" {
			t.Errorf("docs/api.md does not list the public package %s", name)
		}
		delete(listed, name)
	}
	for name := range listed {
		t.Errorf("docs/api.md lists %s, which is not a public package", name)
	}
}

// TestAPIOfStablePackages compares the exported names of the stable packages with
// those of the last version.
func TestAPIOfStablePackages(t *testing.T) {
	t.Parallel()
	var packages []string
	for name, tier := range tiers(t) {
		if tier == stable {
			packages = append(packages, name)
		}
	}
	versions, err := filepath.Glob("api/v*.txt")
	if err != nil || len(versions) == 0 {
		t.Fatalf("no api/v*.txt: %v", err)
	}
	released := map[string]bool{}
	for _, file := range versions {
		maps.Copy(released, features(t, file))
	}
	added := map[string]bool{}
	lost := maps.Clone(released)
	for _, f := range exported(t, packages) {
		if !released[f] {
			added[f] = true
		}
		delete(lost, f)
	}
	next := slices.Sorted(maps.Keys(added))
	if *updateAPI {
		if err := os.WriteFile("api/next.txt", []byte(strings.Join(append(next, ""), "\n")), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	excepted := features(t, "api/except.txt")
	for _, f := range slices.Sorted(maps.Keys(lost)) {
		if !excepted[f] {
			t.Errorf("removed from or changed in the API: %s\n\tprograms that use it break; if that is intended, add the line and the reason to api/except.txt, and the changelog", f)
		}
	}
	for f := range excepted {
		if !lost[f] {
			t.Errorf("api/except.txt lists %s, which no version had or which still exists: remove that line", f)
		}
	}
	if recorded := slices.Sorted(maps.Keys(features(t, "api/next.txt"))); !slices.Equal(recorded, next) {
		for _, f := range next {
			if !slices.Contains(recorded, f) {
				t.Errorf("added to the API: %s", f)
			}
		}
		t.Errorf("api/next.txt does not have the %d names that were added since the last version: run make api", len(next))
	}
}

// features returns the lines of a file in the folder api, without comments.
func features(t *testing.T, file string) map[string]bool {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	lines := map[string]bool{}
	for line := range strings.Lines(string(text)) {
		line, _, _ = strings.Cut(line, "#")
		if line = strings.TrimSpace(line); line != "" {
			lines[line] = true
		}
	}
	return lines
}

// exported returns the exported names of packages with their types, one line each
// in the manner of Go's own api folder. It reads the export data of the compiler.
func exported(t *testing.T, packages []string) []string {
	t.Helper()
	args := []string{"list", "-export", "-deps", "-f", "{{.ImportPath}}\t{{.Export}}"}
	for _, p := range packages {
		args = append(args, "./"+p)
	}
	out, err := exec.Command("go", args...).Output()
	if err != nil {
		t.Fatalf("go list: %v", withStderr(err))
	}
	files := map[string]string{}
	for line := range strings.Lines(string(out)) {
		name, file, _ := strings.Cut(strings.TrimSpace(line), "\t")
		files[name] = file
	}
	imports := importer.ForCompiler(token.NewFileSet(), "gc", func(name string) (io.ReadCloser, error) { return os.Open(files[name]) })
	var features []string
	for _, p := range packages {
		pkg, err := imports.Import(path.Join(module, p))
		if err != nil {
			t.Fatal(err)
		}
		l := lister{pkg: pkg, stable: packages, prefix: "pkg " + p + ", "}
		for _, name := range pkg.Scope().Names() {
			if o := pkg.Scope().Lookup(name); o.Exported() {
				l.object(o)
			}
		}
		features = append(features, l.lines...)
	}
	return features
}

// A lister collects the features of one package.
type lister struct {
	pkg    *types.Package
	stable []string
	prefix string
	lines  []string
}

func (l *lister) add(format string, args ...any) {
	l.lines = append(l.lines, l.prefix+fmt.Sprintf(format, args...))
}

// qualifier writes types of the package itself without a package, and those of
// other stable packages with the path below the module's. The package of all other
// types of the module is left out, because it may change.
func (l *lister) qualifier(p *types.Package) string {
	name, ours := strings.CutPrefix(p.Path(), module+"/")
	switch {
	case p == l.pkg:
		return ""
	case ours && !slices.Contains(l.stable, name):
		return "experimental"
	}
	return name
}

func (l *lister) object(o types.Object) {
	switch o := o.(type) {
	case *types.Const:
		text := o.Val().ExactString()
		if o.Val().Kind() == constant.String {
			text = o.Val().String() // long ones are cut
		}
		l.add("const %s %s = %s", o.Name(), types.TypeString(o.Type(), l.qualifier), text)
	case *types.Var:
		l.add("var %s %s", o.Name(), types.TypeString(o.Type(), l.qualifier))
	case *types.Func:
		l.add("func %s%s", o.Name(), l.signature(o.Signature()))
	case *types.TypeName:
		l.typeName(o)
	}
}

func (l *lister) typeName(o *types.TypeName) {
	if o.IsAlias() {
		l.add("type %s = %s", o.Name(), types.TypeString(types.Unalias(o.Type()), l.qualifier))
	}
	named, ok := types.Unalias(o.Type()).(*types.Named)
	if !ok {
		return
	}
	switch u := named.Underlying().(type) {
	case *types.Struct:
		l.add("type %s struct", o.Name())
		for f := range u.Fields() {
			if f.Exported() {
				embedded := ""
				if f.Embedded() {
					embedded = "embedded "
				}
				l.add("type %s struct, %s%s %s", o.Name(), embedded, f.Name(), types.TypeString(f.Type(), l.qualifier))
			}
		}
	case *types.Interface:
		var names []string // all of them: whoever implements it needs each
		for m := range u.Methods() {
			names = append(names, m.Name())
			l.add("type %s interface, %s%s", o.Name(), m.Name(), l.signature(m.Signature()))
		}
		l.add("type %s interface { %s }", o.Name(), strings.Join(names, ", "))
		return
	default:
		l.add("type %s %s", o.Name(), types.TypeString(u, l.qualifier))
	}
	set := types.NewMethodSet(types.NewPointer(named))
	direct := types.NewMethodSet(named)
	for s := range set.Methods() {
		if m := s.Obj().(*types.Func); m.Exported() {
			receiver := "*" + o.Name()
			if direct.Lookup(m.Pkg(), m.Name()) != nil {
				receiver = o.Name()
			}
			l.add("method (%s) %s%s", receiver, m.Name(), l.signature(m.Signature()))
		}
	}
}

// signature returns parameters and results without their names, which are not
// part of the API.
func (l *lister) signature(s *types.Signature) string {
	nameless := func(tuple *types.Tuple) *types.Tuple {
		var vars []*types.Var
		for v := range tuple.Variables() {
			vars = append(vars, types.NewParam(token.NoPos, nil, "", v.Type()))
		}
		return types.NewTuple(vars...)
	}
	var typeParams []*types.TypeParam
	for p := range s.TypeParams().TypeParams() {
		typeParams = append(typeParams, p)
	}
	var b bytes.Buffer
	if len(typeParams) > 0 {
		fmt.Fprintf(&b, "%v", typeParams)
	}
	types.WriteSignature(&b, types.NewSignatureType(nil, nil, nil, nameless(s.Params()), nameless(s.Results()), s.Variadic()), l.qualifier)
	return b.String()
}
