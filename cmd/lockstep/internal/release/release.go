// Package release knows the version of this binary.
package release

import (
	_ "embed"
	"runtime/debug"
	"strings"
)

// next is what the next release will be called. tools/dist reads the file, too.
//
//go:embed VERSION
var next string

// linked is the version of a binary that tools/dist has linked; it is empty in all
// others.
var linked string

// Version returns the version of this binary: the one it was linked with, the one that
// `go install` and `go build` record for a commit, or that of the next release.
func Version() string {
	if linked != "" {
		return linked
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" && info.Main.Version != "(devel)" {
		return strings.TrimPrefix(info.Main.Version, "v")
	}
	return strings.TrimSpace(next)
}
