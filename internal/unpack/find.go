package unpack

import (
	"net/url"
	"sort"
	"strings"

	"golang.org/x/text/unicode/norm"
)

// manifest is the name of a package's manifest (RS-ZIP-01).
const manifest = "manifest.xml"

// maxFolded caps the names stored in a second form.
const maxFolded = 25_000

// key returns the name without leading slashes.
func (m *Member) key() string { return strings.TrimLeft(m.Name, "/") }

// Find returns the member for a path in the manifest (RS-ZIP-05): by its exact
// name, ignoring leading slashes; else percent-decoded; else by Unicode NFC;
// else with backslashes as slashes. If the manifest is in a folder, paths are
// relative to that. An ambiguous path finds nothing.
func (d *Directory) Find(path string) (*Member, bool) {
	path = strings.TrimLeft(path, "/")
	if d.below != "" {
		if i := d.search(d.below + path); i >= 0 {
			return &d.Members[i], true
		}
	}
	i := d.search(path)
	if i < 0 {
		return nil, false
	}
	return &d.Members[i], true
}

// search returns the index of the member for path, or -1.
func (d *Directory) search(path string) int {
	if i := d.exact(path); i >= 0 {
		return i
	}
	decoded, err := url.PathUnescape(path)
	if err != nil || decoded == path {
		decoded = ""
	}
	if decoded = strings.TrimLeft(decoded, "/"); decoded != "" {
		if i := d.exact(decoded); i >= 0 {
			return i
		}
	}
	d.fold.Do(d.foldNames)
	for _, p := range []string{path, decoded} {
		if p == "" {
			continue
		}
		f := strings.TrimLeft(folded(p), "/")
		i := d.exact(f)
		k, ok := d.folded[f]
		switch {
		case ok && i < 0:
			return int(k)
		case i >= 0 && !ok:
			return i
		}
	}
	return -1
}

// exact returns the index of the member with that name, or -1.
func (d *Directory) exact(key string) int {
	i := sort.Search(len(d.byName), func(i int) bool { return d.Members[d.byName[i]].key() >= key })
	if i == len(d.byName) || d.Members[d.byName[i]].key() != key {
		return -1
	}
	return int(d.byName[i])
}

// folded returns the form in which names with different spellings are equal.
func folded(name string) string {
	return norm.NFC.String(strings.ReplaceAll(name, `\`, "/"))
}

// foldNames stores the names that are not in that form.
func (d *Directory) foldNames() {
	d.folded = map[string]int32{}
	for i := range d.Members {
		key := d.Members[i].key()
		f := strings.TrimLeft(folded(key), "/")
		if f == key || f == "" {
			continue
		}
		if _, ok := d.folded[f]; ok {
			d.folded[f] = -1
		} else if len(d.folded) < maxFolded {
			d.folded[f] = int32(i)
		}
	}
}

// Manifest returns the package's manifest and its folder: "" for the root,
// where it should be; else the only folder directly below the root that has one
// (RS-ZIP-07). It returns nil if there is none.
func (d *Directory) Manifest() (m *Member, folder string) {
	i := d.exact(d.below + manifest)
	if i < 0 {
		return nil, ""
	}
	return &d.Members[i], strings.TrimSuffix(d.below, "/")
}

// findBelow looks for a manifest that is not at the root.
func (d *Directory) findBelow() {
	if d.exact(manifest) >= 0 {
		return
	}
	for i := range d.Members {
		folder, ok := strings.CutSuffix(d.Members[i].key(), "/"+manifest)
		if !ok || folder == "" || strings.Contains(folder, "/") {
			continue
		}
		if d.below != "" {
			d.below = ""
			return
		}
		d.below = folder + "/"
	}
}
