// Package release knows the version of this binary.
package release

import "runtime/debug"

// release is what the next release will be called; `go install` of a tagged
// version has its own.
const release = "0.1.0-dev"

// Version returns the version of this binary.
func Version() string {
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" && info.Main.Version != "(devel)" {
		return info.Main.Version
	}
	return release
}
