// Package module_test builds programs of others: the one that a guide prints, and
// one in a module of its own.
package module_test

import (
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"

	modpath "golang.org/x/mod/module"
	"golang.org/x/mod/zip"
)

// root is the directory of the module.
var root = filepath.Join("..", "..")

// TestProgramInGuide builds the program that the guide about pipelines prints, as
// it is printed, and runs it.
func TestProgramInGuide(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	program := filepath.Join(dir, "program")
	write(t, filepath.Join(dir, "main.go"), guideProgram(t, root))
	goCommand(t, root, nil, "build", "-o", program, filepath.Join(dir, "main.go"))
	runGuideProgram(t, program)
}

// TestModuleUnderAnotherPath renames a copy of the module with make module,
// publishes it to a module proxy of files, and builds programs in a module of
// their own that require it, without replace and without a network.
func TestModuleUnderAnotherPath(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("compiles most packages a second time, because their path differs")
	}
	if runtime.GOOS == "windows" {
		t.Skip("needs make and symbolic links")
	}
	const renamed, version = "example.org/data/lockstep", "v0.1.0"
	tree, proxy, dir := copyTree(t), t.TempDir(), t.TempDir()
	cmd := exec.Command("make", "module", "PATH="+renamed)
	cmd.Dir = tree
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("make module: %v\n%s", err, out)
	}
	checkRenamed(t, tree)

	versions := filepath.Join(proxy, filepath.FromSlash(renamed), "@v")
	write(t, filepath.Join(versions, "list"), version+"\n")
	write(t, filepath.Join(versions, version+".info"), `{"Version":"`+version+`"}`)
	mod, err := os.ReadFile(filepath.Join(tree, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(versions, version+".mod"), string(mod))
	archive, err := os.Create(filepath.Join(versions, version+".zip"))
	if err != nil {
		t.Fatal(err)
	}
	if err := zip.CreateFromDir(archive, modpath.Version{Path: renamed, Version: version}, tree); err != nil {
		t.Fatal(err)
	}
	if err := archive.Close(); err != nil {
		t.Fatal(err)
	}

	cache, downloads := moduleCache(t)
	env := []string{
		"GOPROXY=file://" + proxy + ",file://" + downloads + ",off", "GOMODCACHE=" + cache, "GOSUMDB=off", "GONOSUMDB=*", "GOWORK=off", "CGO_ENABLED=0",
		"GOFLAGS=-mod=mod -modcacherw -trimpath",
	}
	write(t, filepath.Join(dir, "go.mod"), "module example.net/program\n\ngo 1.26.0\n\nrequire "+renamed+" "+version+"\n")
	write(t, filepath.Join(dir, "main.go"), guideProgram(t, tree))
	write(t, filepath.Join(dir, "site", "site.go"), `package site

import (
	"context"

	"`+renamed+`/publish"
)

func Publish(ctx context.Context, dir string) (int64, error) {
	report, err := publish.Dir(ctx, dir, publish.Options{BaseURL: "https://data.example.org/"})
	return report.Resources, err
}
`)
	goCommand(t, dir, env, "build", "./site")
	program := filepath.Join(dir, "program.exe")
	goCommand(t, dir, env, "build", "-o", program, ".")
	runGuideProgram(t, program)
}

func TestRenamingRefusesUncommittedChanges(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("git is not installed")
	}
	dir := t.TempDir()
	write(t, filepath.Join(dir, "go.mod"), "module old\n\ngo 1.26.0\n")
	write(t, filepath.Join(dir, "p", "p.go"), "// Package p is `old/p`.\npackage p\n")
	write(t, filepath.Join(dir, "main.go"), "package main\n\nimport _ \"old/p\" // not old/p\n\nfunc main() { println(\"old/p\", \"old/\", \"old\") }\n")
	write(t, filepath.Join(dir, "README.md"), "Run `go install old/p@latest` or `old/other`, with -X old/p.version=1.\n")
	git := func(args ...string) {
		t.Helper()
		cmd := exec.Command("git", append([]string{"-c", "user.name=Test", "-c", "user.email=test@example.org", "-C", dir}, args...)...)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %q: %v\n%s", args, err, out)
		}
	}
	tool := filepath.Join(t.TempDir(), "module.exe")
	goCommand(t, filepath.Join(root, "tools"), nil, "build", "-o", tool, "./module")
	refused := func(want string, args ...string) {
		t.Helper()
		out, err := exec.Command(tool, append([]string{"-C", dir}, args...)...).CombinedOutput()
		if err == nil || !strings.Contains(string(out), want) {
			t.Errorf("module %q: %v, %s, want an error with %q", args, err, out, want)
		}
	}
	git("init", "-q")
	refused("has changes", "example.org/new")
	git("add", ".")
	refused("has changes", "example.org/new")
	git("commit", "-q", "-m", "all")
	refused("not a module path", "new")
	refused("usage")
	if out, err := exec.Command(tool, "-C", dir, "example.org/new").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for name, want := range map[string]string{
		"go.mod":    "module example.org/new\n\ngo 1.26.0\n",
		"p/p.go":    "// Package p is `example.org/new/p`.\npackage p\n",
		"main.go":   "package main\n\nimport _ \"example.org/new/p\" // not example.org/new/p\n\nfunc main() { println(\"example.org/new/p\", \"old/\", \"old\") }\n",
		"README.md": "Run `go install example.org/new/p@latest` or `old/other`, with -X example.org/new/p.version=1.\n",
	} {
		if got, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(got) != want {
			t.Errorf("%s, %v:\n%s\nwant\n%s", name, err, got, want)
		}
	}
}

// guideProgram returns the program in the guide about pipelines of a tree.
func guideProgram(t *testing.T, tree string) string {
	t.Helper()
	guide, err := os.ReadFile(filepath.Join(tree, "docs", "guide", "pipelines.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, program, ok := strings.Cut(string(guide), "```go\npackage main\n")
	program, _, closed := strings.Cut(program, "\n```\n")
	if !ok || !closed {
		t.Fatal("docs/guide/pipelines.md has no Go program")
	}
	return "package main\n" + program + "\n"
}

// runGuideProgram lets the program of the guide mirror a Source, twice.
func runGuideProgram(t *testing.T, program string) {
	t.Helper()
	source := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/sitemap.xml" {
			fmt.Fprint(w, "content")
			return
		}
		fmt.Fprintf(w, `<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"><url><loc>http://%s/a.txt</loc><lastmod>2024-01-01</lastmod></url></urlset>`, r.Host)
	}))
	t.Cleanup(source.Close)
	mirror := filepath.Join(t.TempDir(), "mirror")
	for _, want := range []string{
		"created " + source.URL + "/a.txt a.txt\ncreated: 1 updated: 0 deleted: 0\n",
		"created: 0 updated: 0 deleted: 0\n",
	} {
		out, err := exec.Command(program, source.URL+"/sitemap.xml", mirror).CombinedOutput()
		if err != nil || string(out) != want {
			t.Errorf("the program printed\n%s%v, want\n%s", out, err, want)
		}
	}
}

// checkRenamed reports imports of the module under its present path.
func checkRenamed(t *testing.T, tree string) {
	t.Helper()
	module := strings.TrimSpace(goCommand(t, root, nil, "list", "-m"))
	old := regexp.MustCompile(`(?m)^\s*(?:import )?(?:[\w.]+ )?"` + regexp.QuoteMeta(module) + `/[a-z0-9/]+"$`)
	err := filepath.WalkDir(tree, func(name string, d fs.DirEntry, err error) error {
		if ext := filepath.Ext(name); err != nil || ext != ".go" && ext != ".md" {
			return err
		}
		text, err := os.ReadFile(name)
		if m := old.Find(text); m != nil {
			t.Errorf("%s still has %s", name, m)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

// copyTree copies the files of the module to a new directory.
func copyTree(t *testing.T) string {
	t.Helper()
	tree := filepath.Join(t.TempDir(), "tree")
	err := fs.WalkDir(os.DirFS(root), ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.Name() == ".git": // a file in a worktree
			if d.IsDir() {
				return fs.SkipDir
			}
			return nil
		case d.IsDir():
			return os.MkdirAll(filepath.Join(tree, name), 0o700)
		case !d.Type().IsRegular():
			return nil
		}
		text, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(tree, name), text, info.Mode().Perm()|0o200)
	})
	if err != nil {
		t.Fatal(err)
	}
	return tree
}

// moduleCache returns a new module cache that has what the present one has, and
// the directory with the downloads of the present one. Building the module itself
// needs the go.mod files of few versions; a module that requires it needs others,
// too, which are downloaded.
func moduleCache(t *testing.T) (cache, downloads string) {
	t.Helper()
	if out, err := exec.Command("go", "-C", root, "mod", "graph").CombinedOutput(); err != nil {
		t.Skipf("needs the go.mod files of all dependencies: go mod graph: %v\n%s", err, out)
	}
	present := strings.TrimSpace(goCommand(t, root, nil, "env", "GOMODCACHE"))
	cache, downloads = t.TempDir(), filepath.Join(present, "cache", "download")
	for from, to := range map[string]string{present: cache, downloads: filepath.Join(cache, "cache", "download")} {
		if err := os.MkdirAll(to, 0o700); err != nil {
			t.Fatal(err)
		}
		entries, err := os.ReadDir(from)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			if name := e.Name(); e.IsDir() && name != "cache" && name != "example.org" {
				if err := os.Symlink(filepath.Join(from, name), filepath.Join(to, name)); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	return cache, downloads
}

// goCommand runs the go command in a directory, with additions to its
// environment, and returns what it prints.
func goCommand(t *testing.T, dir string, env []string, args ...string) string {
	t.Helper()
	cmd := exec.Command("go", args...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), env...)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go %s: %v\n%s", strings.Join(args, " "), err, &stderr)
	}
	return string(out)
}

// write writes a file, and creates its directory.
func write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
