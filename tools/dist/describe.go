package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"
)

// versionFile has what the next release will be called; binaries that are not linked
// by dist say so as well.
const versionFile = "cmd/lockstep/internal/release/VERSION"

// describe returns the version and time of what is built: those of the commit, or the
// version given and SOURCE_DATE_EPOCH.
func describe(ctx context.Context, version string) (*release, error) {
	r := &release{version: version}
	epoch, fixed := os.LookupEnv("SOURCE_DATE_EPOCH")
	if !fixed || version == "" {
		if err := r.askGit(ctx); err != nil {
			return nil, err
		}
	}
	if version != "" {
		r.version = version
	}
	if fixed {
		seconds, err := strconv.ParseInt(epoch, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("SOURCE_DATE_EPOCH=%s: not a number of seconds", epoch)
		}
		r.time = time.Unix(seconds, 0).UTC()
	}
	return r, nil
}

// askGit describes the commit that is checked out. Neither the depth of the clone nor
// the clock matters. A commit with a tag vX.Y.Z is that release; any other one is the
// next release in the making, such as 0.1.0-dev.20260115120000+g0123456789ab, which
// sorts by the time of the commit and before 0.1.0. Changes that are not committed
// add "dirty".
func (r *release) askGit(ctx context.Context) error {
	about, err := git(ctx, "log", "-1", "--format=%ct %H")
	if err != nil {
		return fmt.Errorf("%w; without git, give -version and set SOURCE_DATE_EPOCH", err)
	}
	seconds, commit, _ := strings.Cut(about, " ")
	unix, err := strconv.ParseInt(seconds, 10, 64)
	if err != nil || len(commit) < 12 {
		return fmt.Errorf("git log: unexpected output %q", about)
	}
	r.time, r.commit = time.Unix(unix, 0).UTC(), commit
	changed, err := git(ctx, "status", "--porcelain")
	if err != nil {
		return err
	}
	next, err := os.ReadFile(versionFile)
	if err != nil {
		return err
	}
	tag, err := git(ctx, "describe", "--tags", "--exact-match", "--match", "v[0-9]*", "HEAD")
	r.version = commitVersion(strings.TrimSpace(string(next)), r.time, commit, tag, changed != "")
	_ = err // a commit without a tag is an error of git describe
	return nil
}

// commitVersion returns the version of a commit; tag is empty if it has none.
func commitVersion(next string, at time.Time, commit, tag string, dirty bool) string {
	version, mark := strings.TrimPrefix(tag, "v"), "+"
	if tag == "" {
		version, mark = next+"."+at.Format("20060102150405")+"+g"+commit[:12], "."
	}
	if dirty {
		version += mark + "dirty"
	}
	return version
}

// git runs git in the repository, even if the checkout belongs to another user.
func git(ctx context.Context, args ...string) (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	cmd := exec.CommandContext(ctx, "git", append([]string{"-c", "safe.directory=" + dir}, args...)...)
	out, err := cmd.Output()
	return strings.TrimSpace(string(out)), commandError(cmd, err)
}
