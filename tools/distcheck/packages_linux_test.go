package distcheck

import (
	"bytes"
	"errors"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// maxExposure is the highest exposure that `systemd-analyze security` may compute for
// a unit, from 0 (isolated) to 10.
const maxExposure = 3.0

// TestUnits: systemd knows all settings of the units, and finds little to attack.
func TestUnits(t *testing.T) {
	t.Parallel()
	need(t, "systemd-analyze")
	dir := t.TempDir()
	output(t, need(t, "dpkg-deb"), "-x", result(t, "lockstep_*_"+debianArchitecture()+".deb"), dir)
	files, err := filepath.Glob(filepath.Join(dir, units, "*"))
	if err != nil || len(files) != 5 {
		t.Fatalf("units: %q, %v, want 5", files, err)
	}
	for _, f := range files {
		out, err := exec.Command("systemd-analyze", "verify", "--man=no", f).CombinedOutput()
		for line := range strings.Lines(string(out)) {
			// The program is not installed here.
			if strings.Contains(line, "lockstep") && !strings.Contains(line, "is not executable") {
				t.Errorf("systemd-analyze verify: %v: %s", err, line)
			}
		}
		if !strings.HasSuffix(f, ".service") {
			continue
		}
		summary := output(t, "systemd-analyze", "security", "--offline=true", "--no-pager", f)
		_, exposure, _ := strings.Cut(summary, "Overall exposure level for ")
		exposure, _, _ = strings.Cut(exposure, "\n")
		_, number, _ := strings.Cut(exposure, ": ")
		number, _, _ = strings.Cut(number, " ")
		value, err := strconv.ParseFloat(number, 64)
		t.Logf("exposure of %s, at most %.1f", exposure, maxExposure)
		if err != nil || value > maxExposure {
			t.Errorf("systemd-analyze security: exposure of %s is %q, want at most %.1f", f, number, maxExposure)
		}
	}
}

// TestDebianPackage installs the package into a clean Debian root, upgrades it, runs
// the commands of its units as their user, and removes it.
func TestDebianPackage(t *testing.T) {
	t.Parallel()
	pkg := result(t, "lockstep_*_"+debianArchitecture()+".deb")
	needRoot(t)
	root := cleanRoot(t, minimal...)
	// The configuration of dpkg on this machine may exclude manual pages.
	dpkg := func(args ...string) string {
		return output(t, "dpkg", append([]string{"--root=" + root, "--path-include=/usr/share/*"}, args...)...)
	}
	dpkg("-i", pkg)
	checkInstalled(t, root)
	runUnits(t, root)

	config := filepath.Join(root, "etc/lockstep/lockstep.yaml")
	changed := []byte("listen: 127.0.0.1:0\nsets: [{from: dir:/var/lib/lockstep/files}]\n")
	if err := os.WriteFile(config, changed, 0o644); err != nil {
		t.Fatal(err)
	}
	dpkg("-i", pkg)
	if got, err := os.ReadFile(config); err != nil || !bytes.Equal(got, changed) {
		t.Errorf("after an upgrade the configuration is %q, %v, want that of the operator", got, err)
	}
	before := filesBelow(t, filepath.Join(root, "var/lib/lockstep"))
	wants := filepath.Join(root, "etc/systemd/system/multi-user.target.wants")
	if err := os.MkdirAll(wants, 0o755); err != nil {
		t.Fatal(err)
	}
	enabled := filepath.Join(wants, "lockstep-follow@test.service")
	if err := os.Symlink("/usr/lib/systemd/system/lockstep-follow@.service", enabled); err != nil {
		t.Fatal(err)
	}
	dpkg("-r", "lockstep")
	if _, err := os.Lstat(filepath.Join(root, "usr/bin/lockstep")); !os.IsNotExist(err) {
		t.Errorf("the program is there after the removal: %v", err)
	}
	if _, err := os.Lstat(enabled); err != nil {
		t.Errorf("the removal disables units: %v", err)
	}
	if said := dpkg("-P", "lockstep"); !strings.Contains(said, "/var/lib/lockstep has the state") {
		t.Errorf("purging says %q, want a word about the state", said)
	}
	if _, err := os.Lstat(enabled); !os.IsNotExist(err) {
		t.Errorf("purging leaves units enabled: %v", err)
	}
	if after := filesBelow(t, filepath.Join(root, "var/lib/lockstep")); !slices.Equal(before, after) {
		t.Errorf("state and mirrors after purging: %q, want %q", after, before)
	}
}

// TestRPM installs the package for RPM into a root and removes it.
func TestRPM(t *testing.T) {
	t.Parallel()
	pkg := result(t, "lockstep-*."+map[string]string{"amd64": "x86_64", "arm64": "aarch64"}[runtime.GOARCH]+".rpm")
	need(t, "rpm")
	needRoot(t)
	root := cleanRoot(t, minimal...)
	rpm := func(args ...string) {
		// The root has no database of RPM that could satisfy what the package requires.
		output(t, "rpm", append([]string{"--root=" + root, "--dbpath=/var/lib/rpm", "--nodeps"}, args...)...)
	}
	rpm("--nosignature", "-i", pkg)
	checkInstalled(t, root)
	runUnits(t, root)
	before := filesBelow(t, filepath.Join(root, "var/lib/lockstep"))
	rpm("-e", "lockstep")
	if _, err := os.Lstat(filepath.Join(root, "usr/bin/lockstep")); !os.IsNotExist(err) {
		t.Errorf("the program is there after the removal: %v", err)
	}
	if after := filesBelow(t, filepath.Join(root, "var/lib/lockstep")); !slices.Equal(before, after) {
		t.Errorf("state and mirrors after the removal: %q, want %q", after, before)
	}
}

// checkInstalled checks what a package has installed below root.
func checkInstalled(t *testing.T, root string) {
	t.Helper()
	for _, path := range []string{
		"etc/lockstep/lockstep.yaml", "etc/lockstep/hub.env", "etc/lockstep/mirrors",
		"usr/share/man/man1/lockstep.1.gz", "usr/share/man/man1/lockstep-sync.1.gz",
		"usr/share/bash-completion/completions/lockstep", "usr/share/fish/vendor_completions.d/lockstep.fish",
		"usr/lib/sysusers.d/lockstep.conf", "usr/share/doc/lockstep/licenses.txt",
	} {
		info, err := os.Stat(filepath.Join(root, path))
		if err != nil {
			t.Error(err)
		} else if info.Sys().(*syscall.Stat_t).Uid != 0 || info.Mode().Perm()&0o022 != 0 {
			t.Errorf("%s does not belong to root alone: %s", path, info.Mode())
		}
	}
	user := asUser(t, root, "lockstep").Credential
	for _, path := range []string{"var/lib/lockstep", "var/lib/lockstep/files"} {
		info, err := os.Stat(filepath.Join(root, path))
		if err != nil {
			t.Error(err)
		} else if info.Sys().(*syscall.Stat_t).Uid != user.Uid {
			t.Errorf("%s does not belong to lockstep", path)
		}
	}
}

// runUnits runs the commands of all units as their users: a Source, a hub, and a mirror
// of the Source.
func runUnits(t *testing.T, root string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(root, "var/lib/lockstep/files/a.txt"), []byte("first"), 0o644); err != nil {
		t.Fatal(err)
	}
	anyPort := "LOCKSTEP_LISTEN=127.0.0.1:0"
	source := start(t, readUnit(t, root, "lockstep-serve.service").command(t, root, anyPort))
	hub := start(t, readUnit(t, root, "lockstep-hub.service").command(t, root, anyPort))
	settings := "SOURCE=" + source.address + "\n"
	if err := os.WriteFile(filepath.Join(root, "etc/lockstep/mirrors/test.env"), []byte(settings), 0o644); err != nil {
		t.Fatal(err)
	}
	if out, err := readUnit(t, root, "lockstep-sync@test.service").command(t, root).CombinedOutput(); err != nil {
		t.Fatalf("lockstep-sync@test: %v\n%s", err, out)
	}
	mirror := filepath.Join(root, "var/lib/lockstep/mirrors/test")
	await(t, filepath.Join(mirror, "a.txt"), "first")
	follow := start(t, readUnit(t, root, "lockstep-follow@test.service").command(t, root))
	if err := os.WriteFile(filepath.Join(root, "var/lib/lockstep/files/b.txt"), []byte("second"), 0o644); err != nil {
		t.Fatal(err)
	}
	await(t, filepath.Join(mirror, "b.txt"), "second")
	for _, s := range []*service{follow, hub, source} {
		s.end(t)
	}
	for _, path := range []string{"serve", "hub", "mirrors/test/.lockstep"} {
		if info, err := os.Stat(filepath.Join(root, "var/lib/lockstep", path)); err != nil || info.Mode().Perm()&0o077 != 0 {
			t.Errorf("the state in %s: %v, %v, want a directory of lockstep alone", path, info, err)
		}
	}
}

// await returns when a file has a content.
func await(t *testing.T, path, want string) {
	t.Helper()
	var got []byte
	for deadline := time.Now().Add(readyLimit); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		if got, _ = os.ReadFile(path); string(got) == want { // it may not be there yet
			return
		}
	}
	t.Fatalf("%s has %q, want %q", path, got, want)
}

// filesBelow lists what is below a directory.
func filesBelow(t *testing.T, dir string) []string {
	t.Helper()
	var files []string
	err := filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
		files = append(files, path)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// minimal are packages that have what maintainer scripts of other packages may expect.
var minimal = []string{"base-files", "base-passwd", "coreutils", "dash", "login", "passwd"}

// cleanRoot returns a directory with a Debian that consists of the packages given and
// of what they depend on. It is made from the packages that are installed here, so that
// it needs no network.
func cleanRoot(t *testing.T, names ...string) string {
	t.Helper()
	need(t, "dpkg")
	root := t.TempDir()
	for _, dir := range []string{"bin", "sbin", "lib", "lib64"} { // those of a merged /usr
		if target, err := os.Readlink("/" + dir); err == nil {
			if err := errors.Join(os.MkdirAll(filepath.Join(root, target), 0o755), os.Symlink(target, filepath.Join(root, dir))); err != nil {
				t.Fatal(err)
			}
		}
	}
	var list bytes.Buffer
	var status []string
	for _, p := range closure(t, names...) {
		for path := range strings.Lines(output(t, "dpkg-query", "-L", p)) {
			path = strings.TrimSpace(path)
			if _, err := os.Lstat(path); err == nil && path != "/." && !forReaders.MatchString(path) {
				list.WriteString(strings.TrimPrefix(path, "/") + "\n")
			}
		}
		for _, pattern := range []string{p + ".*", p + ":*.*"} {
			found, _ := filepath.Glob("/var/lib/dpkg/info/" + pattern) // the pattern is well-formed
			for _, path := range found {
				list.WriteString(strings.TrimPrefix(path, "/") + "\n")
			}
		}
		status = append(status, output(t, "dpkg-query", "-s", p))
	}
	pack := exec.Command("tar", "-C", "/", "--no-recursion", "-cf", "-", "-T", "-")
	pack.Stdin = &list
	unpack := exec.Command("tar", "-C", root, "-xf", "-")
	var err error
	if unpack.Stdin, err = pack.StdoutPipe(); err != nil {
		t.Fatal(err)
	}
	if err := pack.Start(); err != nil {
		t.Fatal(err)
	}
	if out, err := unpack.CombinedOutput(); err != nil {
		t.Fatalf("unpack: %v\n%s", err, out)
	}
	if err := pack.Wait(); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{"dev", "mnt", "proc", "root", "run", "sys", "tmp", "var/lib/dpkg/info", "var/lib/dpkg/updates", "var/lib/dpkg/triggers", "var/log"} {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	files := map[string]string{
		"etc/passwd": readFile(t, "/usr/share/base-passwd/passwd.master"), "etc/group": readFile(t, "/usr/share/base-passwd/group.master"),
		"var/lib/dpkg/status": strings.Join(status, "\n"), "var/lib/dpkg/available": "",
		"dev/null": "", // scripts only write to it
	}
	for line := range strings.Lines(files["etc/passwd"]) {
		name, _, _ := strings.Cut(line, ":")
		files["etc/shadow"] += name + ":*:19000:0:99999:7:::\n"
	}
	for line := range strings.Lines(files["etc/group"]) {
		name, _, _ := strings.Cut(line, ":")
		files["etc/gshadow"] += name + ":*::\n"
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(root, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(root, 0o755); err != nil {
		t.Fatal(err)
	}
	return root
}

// forReaders matches files that no program needs.
var forReaders = regexp.MustCompile(`^/usr/share/(doc|man|locale|info)/`)

// readFile returns the text of a file.
func readFile(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// closure returns packages with all that they depend on, of what is installed here.
func closure(t *testing.T, names ...string) []string {
	t.Helper()
	depends, provided := map[string]string{}, map[string]string{}
	for line := range strings.Lines(output(t, "dpkg-query", "-W", "-f", "${Package}\t${Pre-Depends}, ${Depends}\t${Provides}\n")) {
		f := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		depends[f[0]] = f[1]
		for p := range strings.SplitSeq(f[2], ",") {
			provided[packageName(p)] = f[0]
		}
	}
	found := map[string]bool{}
	var add func(name string) bool
	add = func(name string) bool {
		if _, ok := depends[name]; !ok {
			name = provided[name]
		}
		if name == "" {
			return false
		}
		if found[name] {
			return true
		}
		found[name] = true
		for dependency := range strings.SplitSeq(depends[name], ",") {
			for alternative := range strings.SplitSeq(dependency, "|") {
				if add(packageName(alternative)) {
					break
				}
			}
		}
		return true
	}
	for _, name := range names {
		if !add(name) {
			t.Skipf("the package %s is not installed: this is no Debian to make a clean root from", name)
		}
	}
	return slices.Sorted(maps.Keys(found))
}

// packageName returns the name in an element of a dependency: "libc6 (>= 2.34)".
func packageName(element string) string {
	name, _, _ := strings.Cut(strings.TrimSpace(element), " ")
	name, _, _ = strings.Cut(name, ":")
	return name
}
