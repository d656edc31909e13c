package filename

import (
	"errors"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// namesBy is a directory with its own comparison and storage of names.
type namesBy struct {
	key, kept func(string) string
	refuses   func(string) bool
	err       error
	names     map[string]string
}

func (n *namesBy) Make(name string) error {
	if n.err != nil {
		return n.err
	}
	if n.refuses != nil && n.refuses(name) {
		return fs.ErrInvalid
	}
	n.names[n.key(name)] = n.kept(name)
	return nil
}

func (n *namesBy) Has(name string) (bool, error) { _, ok := n.names[n.key(name)]; return ok, nil }
func (n *namesBy) Names() ([]string, error)      { return slices.Collect(maps.Values(n.names)), nil }

func TestFolds(t *testing.T) {
	t.Parallel()
	same := func(s string) string { return s }
	nfd := func(s string) string { return norm.NFD.String(s) }
	noDot := func(s string) string { return strings.TrimRight(s, ". ") }
	for _, tt := range []struct {
		name      string
		key, kept func(string) string
		refuses   func(string) bool
		want      bool
	}{
		{"ext4", same, same, nil, false},
		{"folds ASCII", strings.ToLower, same, nil, true},
		{"folds by Unicode", fold, same, nil, true},
		{"takes NFD for NFC", nfd, same, nil, true},
		{"keeps NFD", nfd, nfd, nil, true},
		{"changes to NFD", same, nfd, nil, true},
		{"drops dots", noDot, noDot, nil, true},
		{"keeps no dots", same, noDot, nil, true},
		{"wants UTF-8", same, same, func(s string) bool { return !utf8.ValidString(s) }, true},
		{"refuses colons", same, same, func(s string) bool { return strings.Contains(s, ":") }, true},
		{"refuses controls", same, same, func(s string) bool { return strings.Contains(s, "\n") }, true},
	} {
		got, err := folds(&namesBy{key: tt.key, kept: tt.kept, refuses: tt.refuses, names: map[string]string{}})
		if got != tt.want || err != nil {
			t.Errorf("%s: folds = %v, %v, want %v", tt.name, got, err, tt.want)
		}
	}
	if _, err := folds(&namesBy{err: syscall.ENOSPC}); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("folds on a full disk = %v, want ENOSPC", err)
	}
}

func TestProbePortableLeavesNothing(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.MkdirAll(dir+"/probe/left by a kill", 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := ProbePortable(dir); err != nil {
		t.Fatal(err)
	}
	if left, err := os.ReadDir(dir); len(left) > 0 || err != nil {
		t.Errorf("left %v, %v", left, err)
	}
	if _, err := ProbePortable(dir + "/none"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("ProbePortable of nothing = %v, want ErrNotExist", err)
	}
}
