// Command crosscheck type-checks the module and its tests for other systems,
// from source:
//
//	go run ./tools/crosscheck darwin/arm64 windows/amd64
//
// It finds what `go build` and `go vet` for these systems would find, in a
// tenth of the time: of dependencies only the declarations are read, and nothing
// is compiled. It prints a line for each error and ends with status 1 if there
// was one.
package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/tools/go/packages"
)

func main() {
	failed := false
	for _, target := range os.Args[1:] {
		errs, err := check(target)
		if err != nil {
			errs = append(errs, err.Error())
		}
		for _, e := range errs {
			fmt.Fprintf(os.Stderr, "%s: %s\n", target, e)
			failed = true
		}
	}
	if failed {
		os.Exit(1)
	}
}

// check returns the errors of the module's packages for target, such as
// "windows/amd64".
func check(target string) ([]string, error) {
	system, processor, ok := strings.Cut(target, "/")
	if !ok {
		return nil, fmt.Errorf("want SYSTEM/PROCESSOR")
	}
	root, err := os.Getwd()
	if err != nil {
		return nil, err
	}
	config := &packages.Config{
		Mode: packages.NeedName | packages.NeedFiles | packages.NeedCompiledGoFiles | packages.NeedImports |
			packages.NeedDeps | packages.NeedSyntax | packages.NeedTypes | packages.NeedModule,
		Env:   append(os.Environ(), "CGO_ENABLED=0", "GOOS="+system, "GOARCH="+processor),
		Tests: true,
		ParseFile: func(fset *token.FileSet, name string, src []byte) (*ast.File, error) {
			f, err := parser.ParseFile(fset, name, src, parser.SkipObjectResolution)
			if f != nil && !in(root, name) {
				dropBodies(f)
			}
			return f, err
		},
	}
	list, err := packages.Load(config, "./...")
	if err != nil {
		return nil, err
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("no packages found")
	}
	var errs []string
	seen := make(map[string]bool)
	packages.Visit(list, nil, func(p *packages.Package) {
		// Without bodies, dependencies have unused imports; so have the
		// generated main packages of tests, which are not below root.
		own := p.Module != nil && p.Module.Main && !strings.HasSuffix(p.ID, ".test")
		for _, e := range p.Errors {
			if text := e.Error(); (own || e.Kind != packages.TypeError) && !seen[text] {
				seen[text] = true
				errs = append(errs, text)
			}
		}
	})
	return errs, nil
}

// in reports whether the file called name is below root.
func in(root, name string) bool {
	rel, err := filepath.Rel(root, name)
	return err == nil && !strings.HasPrefix(rel, "..")
}

func dropBodies(f *ast.File) {
	for _, d := range f.Decls {
		if f, ok := d.(*ast.FuncDecl); ok {
			f.Body = nil
		}
	}
}
