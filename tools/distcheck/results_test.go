package distcheck

import (
	"archive/tar"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"flag"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
)

var dist = flag.String("dist", "", "the `directory` that tools/dist has written")

// result returns the path of the one result whose name matches a pattern.
func result(t *testing.T, pattern string) string {
	t.Helper()
	if *dist == "" {
		t.Skip("there are no results to check: run tools/packages.sh")
	}
	found, err := filepath.Glob(filepath.Join(*dist, pattern))
	if err != nil || len(found) != 1 {
		t.Fatalf("%s in %s: found %q, %v, want one", pattern, *dist, found, err)
	}
	return found[0]
}

// program returns the program for this machine, from the archive.
func program(t *testing.T) string {
	t.Helper()
	archive := result(t, "lockstep_*_"+runtime.GOOS+"_"+runtime.GOARCH+".tar.gz")
	f, err := os.Open(archive)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if err != nil {
			t.Fatalf("%s: no program: %v", archive, err)
		}
		if filepath.Base(h.Name) != "lockstep" || h.Typeflag != tar.TypeReg {
			continue
		}
		path := filepath.Join(t.TempDir(), "lockstep")
		if err := withoutFork(func() error { return install(path, r) }); err != nil {
			t.Fatal(err)
		}
		return path
	}
}

// install writes a program in pieces, as package managers do: of one that is written at
// once, some kernels map all pages as soon as one is used, which count as memory in use.
func install(path string, r io.Reader) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY, 0o755)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, r)
	return errors.Join(err, f.Close())
}

// withoutFork writes a file while no process is started, which would have it open for
// writing for a moment: a program could not be run then (ETXTBSY).
func withoutFork(write func() error) error {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	return write()
}

// need skips a test that needs a program which is not installed.
func need(t *testing.T, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		t.Skipf("%s is not installed", name)
	}
	return path
}

// output runs a command and returns what it prints.
func output(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
	return string(out)
}

func TestSums(t *testing.T) {
	t.Parallel()
	sums, err := os.ReadFile(result(t, "SHA256SUMS"))
	if err != nil {
		t.Fatal(err)
	}
	listed := map[string]bool{"SHA256SUMS": true}
	for line := range strings.Lines(string(sums)) {
		sum, name, _ := strings.Cut(strings.TrimSpace(line), "  ")
		listed[name] = true
		data, err := os.ReadFile(filepath.Join(*dist, name))
		if got := sha256.Sum256(data); err != nil || hex.EncodeToString(got[:]) != sum {
			t.Errorf("%s: SHA-256 %x, %v, want %s", name, got, err, sum)
		}
	}
	entries, err := os.ReadDir(*dist)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if !listed[e.Name()] {
			t.Errorf("%s is not in SHA256SUMS", e.Name())
		}
	}
}

// TestSBOM: every module in the program is in the list, with a version, a hash and a
// license.
func TestSBOM(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile(result(t, "lockstep_*_linux_"+runtime.GOARCH+".cdx.json"))
	if err != nil {
		t.Fatal(err)
	}
	var bom struct {
		BOMFormat  string
		Components []struct {
			Name, Version string
			Hashes        []struct{ Content string }
			Licenses      []struct{ License struct{ ID string } }
		}
	}
	if err := json.Unmarshal(data, &bom); err != nil || bom.BOMFormat != "CycloneDX" {
		t.Fatalf("the SBOM is %q, %v", bom.BOMFormat, err)
	}
	listed := map[string]bool{}
	for _, c := range bom.Components {
		listed[c.Name+" "+c.Version] = true
		if len(c.Licenses) == 0 || c.Name != "std" && len(c.Hashes) != 1 {
			t.Errorf("%s %s has %d licenses and %d hashes", c.Name, c.Version, len(c.Licenses), len(c.Hashes))
		}
	}
	for line := range strings.Lines(output(t, "go", "version", "-m", program(t))) {
		if f := strings.Fields(line); len(f) >= 3 && f[0] == "dep" && !listed[f[1]+" "+f[2]] {
			t.Errorf("the SBOM lacks %s %s", f[1], f[2])
		}
	}
}

// TestManualPages: man and mandoc format the pages of the package without complaint.
func TestManualPages(t *testing.T) {
	t.Parallel()
	need(t, "dpkg-deb")
	dir := t.TempDir()
	output(t, "dpkg-deb", "-x", result(t, "lockstep_*_"+debianArchitecture()+".deb"), dir)
	pages, err := filepath.Glob(filepath.Join(dir, "usr/share/man/man1/*.1.gz"))
	if err != nil || len(pages) < 15 {
		t.Fatalf("there are %d pages, %v", len(pages), err)
	}
	for _, check := range [][]string{{"man", "--warnings", "-E", "UTF-8", "-l"}, {"mandoc", "-T", "lint", "-W", "warning"}} {
		t.Run(check[0], func(t *testing.T) {
			need(t, check[0])
			for _, p := range pages {
				cmd := exec.Command(check[0], append(check[1:], p)...)
				var said strings.Builder
				cmd.Stderr = &said
				text, err := cmd.Output()
				if check[0] == "mandoc" {
					said.Write(text)
				}
				if err != nil || said.Len() > 0 {
					t.Errorf("%s %s: %v\n%s", check[0], filepath.Base(p), err, said.String())
				}
			}
		})
	}
}

// TestCompletions: the shells accept the scripts of the package.
func TestCompletions(t *testing.T) {
	t.Parallel()
	need(t, "dpkg-deb")
	dir := t.TempDir()
	output(t, "dpkg-deb", "-x", result(t, "lockstep_*_"+debianArchitecture()+".deb"), dir)
	for shell, path := range map[string]string{
		"bash": "usr/share/bash-completion/completions/lockstep", "zsh": "usr/share/zsh/vendor-completions/_lockstep",
		"fish": "usr/share/fish/vendor_completions.d/lockstep.fish", "pwsh": "usr/share/lockstep/lockstep.ps1",
	} {
		t.Run(shell, func(t *testing.T) {
			script := filepath.Join(dir, path)
			if _, err := os.Stat(script); err != nil {
				t.Fatal(err)
			}
			args := []string{"-n", script}
			if shell == "pwsh" {
				args = []string{"-NoProfile", "-Command", ". '" + script + "'"}
			}
			output(t, need(t, shell), args...)
		})
	}
}

// debianArchitecture is what Debian calls the processor of this machine.
func debianArchitecture() string { return runtime.GOARCH }

// exitCode returns the exit code of a command that ended with err.
func exitCode(err error) int {
	exit, ok := errors.AsType[*exec.ExitError](err)
	switch {
	case err == nil:
		return 0
	case ok:
		return exit.ExitCode()
	}
	return -1
}
