package vault_test

import (
	"bufio"
	"context"
	"encoding/hex"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"lockstep/blob"
	"lockstep/vault"
)

var kills = flag.Int("kills", 6, "how often TestKilled kills")

// TestKilled: a process that puts and sweeps, and is killed at any moment, leaves
// every content that it has reported as put and not as no longer needed.
func TestKilled(t *testing.T) {
	t.Parallel()
	if dir := os.Getenv("VAULT_TEST_KILL"); dir != "" {
		live(t, dir)
		return
	}
	dir := t.TempDir()
	for round := range *kills {
		c := exec.Command(os.Args[0], "-test.run=^TestKilled$")
		c.Env = append(os.Environ(), "VAULT_TEST_KILL="+dir)
		must(t, c.Start())
		// However busy the machine is, the first process puts something.
		for deadline := time.Now().Add(time.Minute); round == 0 && len(neededIn(t, dir)) == 0 && time.Now().Before(deadline); {
			time.Sleep(time.Millisecond)
		}
		time.Sleep(time.Duration(100+rand.IntN(300)) * time.Millisecond)
		must(t, c.Process.Kill())
		_ = c.Wait() // killed
		v := vault.New(openDir(t, dir), vault.Options{})
		needed := neededIn(t, dir)
		for _, d := range needed {
			if err := v.Verify(context.Background(), d); err != nil {
				t.Errorf("round %d: %v", round, err)
			}
			if _, ok, err := v.Has(context.Background(), d); !ok || err != nil {
				t.Errorf("round %d: Has %s = %t, %v", round, d, ok, err)
			}
		}
		t.Logf("round %d: %d contents", round, len(needed))
		if round == *kills-1 && len(needed) == 0 {
			t.Error("no content to look at")
		}
	}
}

func openDir(t testing.TB, dir string) *blob.Dir {
	t.Helper()
	store, err := blob.NewDir(filepath.Join(dir, "vault"), blob.DirOptions{})
	must(t, err)
	t.Cleanup(func() { _ = store.Close() })
	return store
}

// neededIn reads the log of live: digests of needed contents, and with a minus of
// those no longer needed.
func neededIn(t testing.TB, dir string) (ds []vault.Digest) {
	t.Helper()
	f, err := os.Open(filepath.Join(dir, "needed"))
	if os.IsNotExist(err) {
		return nil
	}
	must(t, err)
	defer f.Close()
	needed := make(map[vault.Digest]bool)
	for sc := bufio.NewScanner(f); sc.Scan(); {
		var d vault.Digest
		line, gone := strings.CutPrefix(sc.Text(), "-")
		if n, err := hex.Decode(d[:], []byte(line)); n < len(d) || err != nil {
			continue // killed while writing it
		}
		if needed[d] = !gone; gone {
			delete(needed, d)
		}
	}
	for d := range needed {
		ds = append(ds, d)
	}
	return ds
}

// live puts and sweeps until it is killed.
func live(t *testing.T, dir string) {
	ctx := context.Background()
	r := rand.New(rand.NewPCG(rand.Uint64(), 1))
	v := vault.New(openDir(t, dir), vault.Options{Compress: true})
	f, err := os.OpenFile(filepath.Join(dir, "needed"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	must(t, err)
	needed := neededIn(t, dir)
	base := random(rng(30), 300_000) // the same in each process
	versions := [][]byte{base}
	for i := 0; ; i++ {
		b := edited(r, versions[r.IntN(len(versions))], 1+r.IntN(5), 100)
		versions = append(versions, b)
		var like []vault.Digest
		if len(needed) > 0 {
			like = append(like, needed[r.IntN(len(needed))])
		}
		d := put(t, v, b, like...)
		_, err := fmt.Fprintf(f, "\n%s\n", d)
		must(t, err)
		needed = append(needed, d)
		if i%8 != 7 {
			continue
		}
		for len(needed) > 5 {
			k := r.IntN(len(needed))
			_, err := fmt.Fprintf(f, "\n-%s\n", needed[k])
			must(t, err)
			needed = append(needed[:k], needed[k+1:]...)
		}
		_, err = v.Sweep(ctx, of(needed...))
		must(t, err)
	}
}
