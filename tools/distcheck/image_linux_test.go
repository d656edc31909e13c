package distcheck

import (
	"archive/tar"
	"compress/gzip"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// minCertificates is fewer than there are certificate authorities that browsers trust.
const minCertificates = 100

// TestImage unpacks the image and runs its command, as its user, in its own root.
func TestImage(t *testing.T) {
	t.Parallel()
	archive := result(t, "lockstep_*_linux_"+runtime.GOARCH+"_image.tar")
	needRoot(t)
	layout, root := t.TempDir(), t.TempDir()
	unpack(t, layout, openFile(t, archive))
	var index struct{ Manifests []descriptor }
	readJSON(t, filepath.Join(layout, "index.json"), &index)
	var manifest struct {
		Config descriptor
		Layers []descriptor
	}
	readJSON(t, blob(layout, index.Manifests[0]), &manifest)
	var image struct {
		Architecture string
		Config       struct {
			User            string
			Env             []string
			Entrypoint, Cmd []string
			WorkingDir      string
		}
	}
	readJSON(t, blob(layout, manifest.Config), &image)
	for _, l := range manifest.Layers {
		z, err := gzip.NewReader(openFile(t, blob(layout, l)))
		if err != nil {
			t.Fatal(err)
		}
		unpack(t, root, z)
	}
	if err := os.Chmod(root, 0o755); err != nil {
		t.Fatal(err)
	}
	if image.Architecture != runtime.GOARCH {
		t.Errorf("the image is for %s", image.Architecture)
	}

	user, group, _ := strings.Cut(image.Config.User, ":")
	uid, err1 := strconv.ParseUint(user, 10, 32)
	gid, err2 := strconv.ParseUint(group, 10, 32)
	if err := errors.Join(err1, err2); err != nil || uid == 0 || gid == 0 {
		t.Fatalf("the user of the image is %q, %v, want one that is not root", image.Config.User, err)
	}
	command := func(args ...string) *exec.Cmd {
		args = append(image.Config.Entrypoint, args...)
		return &exec.Cmd{Path: args[0], Args: args, Dir: image.Config.WorkingDir, Env: append(image.Config.Env, "LOCKSTEP_LISTEN=127.0.0.1:0"),
			SysProcAttr: &syscall.SysProcAttr{Chroot: root, Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}}
	}
	if out, err := command("version").Output(); err != nil || !strings.HasPrefix(string(out), "lockstep ") {
		t.Errorf("lockstep version = %q, %v", out, err)
	}
	if err := os.WriteFile(filepath.Join(root, "var/lib/lockstep/files/a.txt"), []byte("first"), 0o644); err != nil {
		t.Fatal(err)
	}
	source := start(t, command(image.Config.Cmd...))
	if out, err := command("status", "--state", "/var/lib/lockstep/serve").CombinedOutput(); err != nil {
		t.Errorf("the health check of compose.yaml: %v\n%s", err, out)
	}
	if out, err := command("sync", source.address, "mirror").CombinedOutput(); err != nil {
		t.Errorf("sync: %v\n%s", err, out)
	}
	await(t, filepath.Join(root, image.Config.WorkingDir, "mirror/a.txt"), "first")
	source.end(t)
	countCertificates(t, filepath.Join(root, "etc/ssl/certs/ca-certificates.crt"))
}

// countCertificates checks that a file has the certificates of many authorities.
func countCertificates(t *testing.T, path string) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	count := 0
	for block, rest := pem.Decode(data); block != nil; block, rest = pem.Decode(rest) {
		c, err := x509.ParseCertificate(block.Bytes)
		if err != nil || !c.IsCA {
			t.Errorf("certificate %d: %v, want one of an authority", count, err)
		}
		count++
	}
	t.Logf("the image has the certificates of %d authorities", count)
	if count < minCertificates {
		t.Errorf("the image has %d certificates, want at least %d", count, minCertificates)
	}
}

// A descriptor names a blob of an image layout.
type descriptor struct{ Digest string }

// blob returns the path of a blob.
func blob(layout string, d descriptor) string {
	return filepath.Join(layout, "blobs", strings.ReplaceAll(d.Digest, ":", "/"))
}

func openFile(t *testing.T, path string) *os.File {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	return f
}

func readJSON(t *testing.T, path string, v any) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(data, v)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// unpack unpacks a tar archive into dir, with owners and modes.
func unpack(t *testing.T, dir string, archive io.Reader) {
	t.Helper()
	for r := tar.NewReader(archive); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil || !filepath.IsLocal(h.Name) {
			t.Fatalf("unpack %q: %v", h.Name, err)
		}
		path, mode := filepath.Join(dir, h.Name), h.FileInfo().Mode()
		if mode.IsDir() {
			err = os.MkdirAll(path, 0o755)
		} else {
			var data []byte
			if data, err = io.ReadAll(r); err == nil {
				err = withoutFork(func() error { return os.WriteFile(path, data, 0o644) })
			}
		}
		if err = errors.Join(err, os.Lchown(path, h.Uid, h.Gid), os.Chmod(path, mode)); err != nil {
			t.Fatal(err)
		}
	}
}
