//go:build unix

package dir

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"lockstep/intake/internal/filestat"
)

// TestTrees: the tree of this system and the one that serves every system
// answer alike.
func TestTrees(t *testing.T) {
	t.Parallel()
	dir, outside := t.TempDir(), t.TempDir()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	at := func(rel string) string { return filepath.Join(dir, rel) }
	must(os.WriteFile(filepath.Join(outside, "secret"), []byte("secret"), 0o644))
	must(os.MkdirAll(at("d/e"), 0o755))
	must(os.WriteFile(at("d/e/f\xff"), []byte("hello"), 0o644))
	must(os.Link(at("d/e/f\xff"), at("hard")))
	must(syscall.Mkfifo(at("pipe"), 0o644))
	for link, target := range map[string]string{
		"link": "d/e/f\xff", "dirlink": "d", "deep": "dirlink/e/../e/f\xff", "none": "x", "loop": "loop",
		"out": "../" + filepath.Base(outside) + "/secret", "abs": at("hard"), "d/up": "../hard", "topipe": "pipe",
	} {
		must(os.Symlink(target, at(link)))
	}
	own, err := openTree(dir)
	must(err)
	defer own.close()
	r, err := os.OpenRoot(dir)
	must(err)
	portable := &rootTree{root: r}
	defer portable.close()
	rels := []string{
		".", "d", "d/e", "d/e/f\xff", "hard", "pipe", "link", "dirlink", "dirlink/e", "dirlink/e/f\xff", "deep", "none", "loop", "out", "abs",
		"d/up", "topipe", "missing", "d/missing", "hard/x", "pipe/x", "out/x",
	}
	for _, rel := range rels {
		if diff := cmp.Diff(answers(portable, rel), answers(own, rel)); diff != "" {
			t.Errorf("%q (-portable +own):\n%s", rel, diff)
		}
	}
}

// answers returns the results of all methods of t for rel.
func answers(t tree, rel string) []string {
	var out []string
	say := func(what string, st filestat.Stat, err error) {
		switch {
		case err == nil:
			out = append(out, what+": "+string(st.AppendToken(nil, ""))+" "+string('0'+rune(st.Kind)))
		case vanished(err):
			out = append(out, what+": vanished")
		case escaped(err):
			out = append(out, what+": escaped")
		default:
			out = append(out, what+": "+err.Error())
		}
	}
	st, err := t.lstat(rel)
	say("lstat", st, err)
	st, err = t.stat(rel)
	say("stat", st, err)
	if err == nil && (st.Kind == filestat.File) {
		for _, follow := range []bool{false, true} {
			f, err := t.openFile(rel, follow)
			if err == nil {
				st, err = f.stat()
				_ = f.Close()
			}
			say("openFile", st, err)
		}
	}
	h, err := t.openDir(rel)
	say("openDir", filestat.Stat{}, err)
	if err != nil {
		return out
	}
	defer h.close()
	var names []string
	_ = h.read(func(name []byte, k filestat.Kind) {
		st, err := h.lstat(name)
		names = append(names, string(name)+string('0'+rune(k)))
		say("lstat "+string(name), st, err)
	})
	slices.Sort(names)
	slices.Sort(out)
	return append(out, strings.Join(names, " "))
}
