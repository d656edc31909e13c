// Package newerstate reports state that a newer version of the program has written.
package newerstate

import (
	"errors"
	"fmt"
)

// Err is what each error about such state wraps.
var Err = errors.New("written by a newer version of lockstep")

// Document returns the error for a document of a layout that this version, which knows those up
// to known, does not know.
func Document(name string, layout, known int) error {
	return fmt.Errorf("read %s: %w (layout %d, this one knows %d)", name, Err, layout, known)
}
