package site

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"lockstep/cmd/lockstep/internal/config"
	"lockstep/cmd/lockstep/internal/contentplace"
	"lockstep/cmd/lockstep/internal/mirror"
	"lockstep/cmd/lockstep/internal/term"
	"lockstep/internal/statedir"
)

// checkPlaces rejects places that overlap: the documents and the state of a Source must
// not be published as its resources.
func checkPlaces(o Options) error {
	if err := contentplace.Check(o.Contents, o.Documents, o.Sets); err != nil {
		return err
	}
	for _, c := range o.Sets {
		if from := c.Origin.String(); mirror.IsBucket(from) && mirror.IsBelow(from, o.Documents) {
			return term.Usage(fmt.Errorf("the documents in %s would lie inside %s and be published as resources", o.Documents, from),
				"write them elsewhere, or to "+from+" itself")

		}
		if file := c.Origin.File(); file != "" && len(o.Sets) == 1 {
			if _, err := os.Stat(file); errors.Is(err, fs.ErrNotExist) {
				return fmt.Errorf("%s does not exist", c.Origin.WithoutUser())
			}
		}
		dir := c.Origin.Dir()
		if dir == "" {
			continue
		}
		if real, err := statedir.RealPath(dir); err == nil && slices.Contains(strings.Split(filepath.ToSlash(real), "/"), ".lockstep") {
			return term.Usage(fmt.Errorf("%s is inside a directory called .lockstep, where lockstep keeps its own state: it is never published", dir),
				"publish the directory that contains it, or copy the files elsewhere")

		}
		switch info, err := os.Stat(dir); {
		case errors.Is(err, fs.ErrNotExist) && len(o.Sets) > 1:
			// The scan reports it, and the other sets are published.
		case errors.Is(err, fs.ErrNotExist):
			return term.Usagef("%s does not exist", dir)
		case err != nil:
			return term.Usage(err, "")
		case !info.IsDir():
			return term.Usagef("%s is not a directory", dir)
		case len(o.Sets) == 1: // scanning reports each of several
			if err := checkReadable(dir); err != nil {
				return err
			}
		}
		if rel, ok := statedir.Inside(dir, o.State.Dir); ok && !strings.Contains("/"+rel+"/", "/.lockstep/") {
			return term.Usage(fmt.Errorf("the state directory %s lies inside %s and would be published", o.State.Dir, dir),
				"give a --state elsewhere, or below "+filepath.Join(dir, ".lockstep"))

		}
		if rel, ok := statedir.Inside(dir, o.Documents); ok && rel != "." && !strings.Contains("/"+rel+"/", "/.lockstep/") {
			return term.Usage(fmt.Errorf("the documents in %s would lie inside %s and be published as resources", o.Documents, dir),
				"write them to a directory elsewhere, or to "+dir+" itself")

		}
	}
	return nil
}

// Beside reports whether the documents are stored where the resources of a set are.
func Beside(from config.Address, documents string) bool {
	if dir := from.Dir(); dir != "" {
		return statedir.Same(dir, documents)
	}
	return mirror.IsBucket(documents) && strings.TrimSuffix(from.String(), "/") == strings.TrimSuffix(documents, "/")
}
