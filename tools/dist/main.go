// Command dist builds what a release of Lockstep consists of:
//
//	go run -C tools ./dist [-out DIR] [-only SYSTEM/PROCESSOR,...]
//
// For every platform there are an archive and a list of the modules in the binary
// (SBOM), for Linux also packages for Debian and RPM, and images for containers.
// SHA256SUMS has the checksums. The same commit and the same version of Go give the
// same bytes: all times are that of the commit, all owners and modes are fixed, and
// nothing of the machine gets in.
package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"
)

// A target is a platform that binaries are built for.
type target struct{ system, processor string }

func (t target) String() string { return t.system + "/" + t.processor }

// fileName is the name of the program.
func (t target) fileName() string {
	if t.system == "windows" {
		return "lockstep.exe"
	}
	return "lockstep"
}

// targets are the platforms of a release.
func targets() []target {
	return []target{
		{"linux", "amd64"}, {"linux", "arm64"},
		{"darwin", "amd64"}, {"darwin", "arm64"},
		{"windows", "amd64"}, {"windows", "arm64"},
	}
}

// A release is what is being built.
type release struct {
	version string
	time    time.Time // of the commit
	commit  string
	out     string // directory of the results
	stage   string // directory of intermediate files
}

// name returns the name of a result.
func (r *release) name(suffix string) string { return "lockstep_" + r.version + "_" + suffix }

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	root := flag.String("C", "..", "the `DIRECTORY` of the repository")
	out := flag.String("out", "dist", "write to `DIRECTORY`, below that of the repository if it is relative")
	only := flag.String("only", "", "build for these `PLATFORMS` only, such as linux/amd64,windows/arm64")
	version := flag.String("version", "", "the `VERSION`, where there is no git (default: from git)")
	flag.Parse()
	if err := run(ctx, *root, *out, *only, *version); err != nil {
		fmt.Fprintln(os.Stderr, "dist:", err)
		os.Exit(1)
	}
}

// run builds a release of the repository in root.
func run(ctx context.Context, root, out, only, version string) error {
	if err := os.Chdir(root); err != nil {
		return err
	}
	chosen, err := choose(only)
	if err != nil {
		return err
	}
	r, err := describe(ctx, version)
	if err != nil {
		return err
	}
	if r.out, err = filepath.Abs(out); err != nil {
		return err
	}
	if r.stage, err = os.MkdirTemp("", "lockstep-dist-"); err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(r.stage) }() // what is left is in the temporary directory
	if err := emptyDirectory(r.out); err != nil {
		return err
	}
	fmt.Printf("lockstep %s, %s\n", r.version, r.time.Format(time.RFC3339))
	if err := r.writeAll(ctx, chosen); err != nil {
		return err
	}
	return r.writeSums()
}

// choose returns the targets that -only names; all of them if it is empty.
func choose(only string) ([]target, error) {
	if only == "" {
		return targets(), nil
	}
	var chosen []target
	for name := range strings.SplitSeq(only, ",") {
		i := slices.IndexFunc(targets(), func(t target) bool { return t.String() == name })
		if i < 0 {
			return nil, fmt.Errorf("unknown platform %q: want some of %v", name, targets())
		}
		chosen = append(chosen, targets()[i])
	}
	return chosen, nil
}

// emptyDirectory creates dir, or removes the results of an earlier run from it. A
// directory with anything else in it is not touched.
func emptyDirectory(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	for _, e := range entries {
		if n := e.Name(); !strings.HasPrefix(n, "lockstep") && n != sumsFile && n != composeFile {
			return fmt.Errorf("%s has files that are no results of dist, such as %s: name another directory with -out", dir, n)
		}
	}
	for _, e := range entries {
		if err := os.Remove(filepath.Join(dir, e.Name())); err != nil {
			return err
		}
	}
	return os.MkdirAll(dir, 0o755)
}

// writeAll builds the binaries and writes what is made of them.
func (r *release) writeAll(ctx context.Context, chosen []target) error {
	own, err := r.build(ctx, host())
	if err != nil {
		return err
	}
	texts, err := r.documentation(ctx, own)
	if err != nil {
		return err
	}
	var images []image
	for _, t := range chosen {
		started := time.Now()
		b := own
		if t != host() {
			if b, err = r.build(ctx, t); err != nil {
				return err
			}
		}
		if err := r.writeArchive(b, texts); err != nil {
			return err
		}
		if err := r.writeSBOM(b); err != nil {
			return err
		}
		if t.system == "linux" {
			if err := r.writePackages(b, texts); err != nil {
				return err
			}
			m, err := r.newImage(b)
			if err != nil {
				return err
			}
			images = append(images, m)
		}
		fmt.Printf("%-14s  %4.1f MB stripped, %s\n", t, float64(len(b.program))/1e6, time.Since(started).Round(100*time.Millisecond))
	}
	if len(images) == 0 {
		return nil
	}
	return r.writeImages(images)
}

// host is the platform that dist runs on.
func host() target { return target{runtime.GOOS, runtime.GOARCH} }

// sumsFile has the checksums of all results.
const sumsFile = "SHA256SUMS"

// writeSums writes the checksums, as sha256sum --check reads them.
func (r *release) writeSums() error {
	entries, err := os.ReadDir(r.out)
	if err != nil {
		return err
	}
	var sums bytes.Buffer
	for _, e := range entries {
		data, err := os.ReadFile(filepath.Join(r.out, e.Name()))
		if err != nil {
			return err
		}
		fmt.Fprintf(&sums, "%x  %s\n", sha256.Sum256(data), e.Name())
	}
	return r.write(sumsFile, sums.Bytes())
}

// write writes a result.
func (r *release) write(name string, data []byte) error {
	return os.WriteFile(filepath.Join(r.out, name), data, 0o644)
}
