package main

import (
	"bytes"
	"context"
	"debug/buildinfo"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// A binary is the program for one platform.
type binary struct {
	target
	path    string
	program []byte
	info    *buildinfo.BuildInfo
	modules []module // what is linked into it, by path
}

// build links the program for t: static, without symbols and paths of this machine.
func (r *release) build(ctx context.Context, t target) (*binary, error) {
	b := &binary{target: t, path: filepath.Join(r.stage, t.system+"_"+t.processor, t.fileName())}
	path, err := goTool(ctx, "list", "-m")
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=false",
		"-tags=nopgxregisterdefaulttypes", // see storage/postgres
		"-ldflags=-s -w -X "+path+"/cmd/lockstep/internal/release.linked="+r.version, "-o", b.path, "./cmd/lockstep")
	// Settings of this machine must not change the result. Variables override the file
	// of `go env -w` unless they are empty.
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS="+t.system, "GOARCH="+t.processor,
		"GOAMD64=v1", "GOARM64=v8.0", "GOFLAGS=-mod=readonly", "GOEXPERIMENT=", "GOFIPS140=off")
	cmd.Stderr = os.Stderr
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("build for %s: %w", t, err)
	}
	if b.program, err = os.ReadFile(b.path); err != nil {
		return nil, err
	}
	if b.info, err = buildinfo.Read(bytes.NewReader(b.program)); err != nil {
		return nil, err
	}
	return b, b.findModules(ctx)
}

// documentation returns the manual pages and completion scripts, which own prints, and
// the files that every archive has, by file name.
func (r *release) documentation(ctx context.Context, own *binary) (map[string][]byte, error) {
	lockstep := func(args ...string) ([]byte, error) {
		cmd := exec.CommandContext(ctx, own.path, args...)
		cmd.Env = []string{fmt.Sprintf("SOURCE_DATE_EPOCH=%d", r.time.Unix())}
		out, err := cmd.Output()
		return out, commandError(cmd, err)
	}
	dir := filepath.Join(r.stage, "man")
	if _, err := lockstep("man", dir); err != nil {
		return nil, err
	}
	pages, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	texts := map[string][]byte{}
	for _, p := range pages {
		if texts["man/"+p.Name()], err = os.ReadFile(filepath.Join(dir, p.Name())); err != nil {
			return nil, err
		}
	}
	for shell, name := range map[string]string{"bash": "lockstep.bash", "zsh": "_lockstep", "fish": "lockstep.fish", "powershell": "lockstep.ps1"} {
		if texts["completions/"+name], err = lockstep("completion", shell); err != nil {
			return nil, err
		}
	}
	for _, name := range []string{"README.md", "CHANGELOG.md", "LICENSE"} {
		if texts[name], err = os.ReadFile(name); err != nil {
			return nil, err
		}
	}
	return texts, nil
}

// goTool runs the go command in the repository.
func goTool(ctx context.Context, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "go", args...)
	out, err := cmd.Output()
	return strings.TrimSpace(string(out)), commandError(cmd, err)
}

// commandError adds to an error of a command what it was and what it said.
func commandError(cmd *exec.Cmd, err error) error {
	if err == nil {
		return nil
	}
	said := ""
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		said = ": " + strings.TrimSpace(string(exit.Stderr))
	}
	return fmt.Errorf("%s: %w%s", strings.Join(cmd.Args, " "), err, said)
}
