//go:build unix

package blob_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"lockstep/blob"
)

const crashRoot = "BLOB_TEST_CRASH_ROOT"

func TestMain(m *testing.M) {
	if root := os.Getenv(crashRoot); root != "" {
		if err := commitForever(root); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	os.Exit(m.Run())
}

// sealed returns content that shows whether it is whole.
func sealed(seed uint64) []byte {
	r := rand.New(rand.NewPCG(seed, 0))
	body := bytes.Repeat(fmt.Appendf(nil, "%d ", seed), 1+r.IntN(5000))
	sum := sha256.Sum256(body)
	return append(body, hex.EncodeToString(sum[:])...)
}

func whole(b []byte) bool {
	if len(b) < 64 {
		return false
	}
	sum := sha256.Sum256(b[:len(b)-64])
	return hex.EncodeToString(sum[:]) == string(b[len(b)-64:])
}

// commitForever commits and removes batches until it is killed.
func commitForever(root string) error {
	d, err := blob.NewDir(root, blob.DirOptions{})
	if err != nil {
		return err
	}
	ctx := context.Background()
	for seed := rand.Uint64(); ; {
		var ws []blob.Writer
		for range 1 + seed%30 {
			seed++
			w, err := d.Create(ctx, fmt.Sprintf("d%d/e%d/f%d", seed%3, seed%5, seed%101))
			if err != nil {
				return err
			}
			content := sealed(seed)
			half := len(content) / 2
			if _, err := w.Write(content[:half]); err != nil {
				return err
			}
			if _, err := w.Write(content[half:]); err != nil {
				return err
			}
			ws = append(ws, w)
		}
		if err := d.Commit(ctx, ws...); err != nil {
			return err
		}
		if _, err := os.Stdout.Write([]byte{'.'}); err != nil {
			return err
		}
		seed++
		if err := d.Remove(ctx, ws[0].Name(), fmt.Sprintf("d0/e0/f%d", seed%101)); err != nil {
			return err
		}
	}
}

// A kill at any moment leaves whole blobs and, in the temporary directory
// alone, what Sweep removes.
func TestDirKilled(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	seen, left := 0, 0
	for i := range 12 {
		var stderr bytes.Buffer
		child := exec.Command(os.Args[0])
		child.Env = append(os.Environ(), crashRoot+"="+root)
		child.Stderr = &stderr
		commits, err := child.StdoutPipe()
		must(t, err)
		must(t, child.Start())
		before := rand.IntN(8)
		if i == 0 {
			before++ // however slow the machine is, something has been committed
		}
		if _, err := io.ReadFull(commits, make([]byte, before)); err != nil {
			t.Errorf("kill %d: %v before it", i, err)
		}
		time.Sleep(time.Duration(rand.IntN(10_000)) * time.Microsecond)
		must(t, child.Process.Kill())
		_ = child.Wait() // killed
		if stderr.Len() > 0 {
			t.Fatalf("child: %s", stderr.String())
		}

		d := newDir(t, root, blob.DirOptions{})
		for info, err := range d.List(t.Context(), "") {
			must(t, err)
			r, err := d.Open(t.Context(), info.Name)
			must(t, err)
			b, err := io.ReadAll(r)
			must(t, err)
			must(t, r.Close())
			if !whole(b) {
				t.Fatalf("kill %d: %q is not whole: %d bytes", i, info.Name, len(b))
			}
			seen++
		}
		for _, name := range tree(t, root) {
			if !strings.HasSuffix(name, "/") && !strings.HasPrefix(name, ".lockstep/tmp/") && !strings.HasPrefix(name, "d") {
				t.Errorf("kill %d: left %q", i, name)
			}
		}
		n, err := d.Sweep(t.Context(), slices.Values([]string{}))
		must(t, err)
		left += n
		if entries, err := os.ReadDir(filepath.Join(root, ".lockstep/tmp")); err != nil && !os.IsNotExist(err) || len(entries) > 0 {
			t.Errorf("kill %d: after Sweep: %v, %v", i, entries, err)
		}
	}
	if seen == 0 || left == 0 {
		t.Errorf("saw %d blobs and %d leftovers: the test tests nothing", seen, left)
	}
}
