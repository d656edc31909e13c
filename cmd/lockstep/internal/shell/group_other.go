//go:build !unix

package shell

import "os/exec"

// ownGroup has no process groups to make here: the context ends cmd alone.
func ownGroup(*exec.Cmd) (end func()) { return func() {} }
