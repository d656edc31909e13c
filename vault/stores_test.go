package vault_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http/httptest"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"

	"lockstep/blob"
	"lockstep/blob/faultfs"
	"lockstep/blob/s3"
	"lockstep/vault"
)

func TestDir(t *testing.T) {
	t.Parallel()
	for seed := range uint64(2) {
		store, err := blob.NewDir(t.TempDir(), blob.DirOptions{})
		must(t, err)
		t.Cleanup(func() { _ = store.Close() })
		randomLife(t, rng(200+seed), store, 30)
		// Larger than what a spool holds in memory.
		v := vault.New(store, vault.Options{})
		b := random(rng(201), 2<<20)
		put(t, v, b)
		wantContent(t, v, b)
	}
}

// bucket returns an empty bucket.
func bucket(t *testing.T) blob.Store {
	t.Helper()
	backend := s3mem.New()
	must(t, backend.CreateBucket("bucket"))
	server := httptest.NewServer(gofakes3.New(backend).Server())
	t.Cleanup(server.Close)
	b, err := s3.New(s3.Options{Endpoint: server.URL, Bucket: "bucket", AccessKey: "key", SecretKey: "secret"})
	must(t, err)
	return b
}

func TestBucket(t *testing.T) {
	t.Parallel()
	store := bucket(t)
	randomLife(t, rng(300), store, 25)
	// Larger than what a spool holds in memory.
	v := vault.New(store, vault.Options{})
	b := random(rng(301), 3<<20)
	put(t, v, b)
	wantContent(t, v, b)
}

// TestFailing: whichever operation of a Put or a Sweep fails, or is the last before
// a power cut, the vault has what it says it has, and lacks nothing that is needed.
func TestFailing(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	r := rng(40)
	versions := [][]byte{random(r, 80_000)}
	for i := range 5 {
		versions = append(versions, edited(r, versions[i], 2, 50))
	}
	for n := range 60 {
		faults := &faultfs.Faults{At: 1 + n/2, Err: syscall.EIO, Count: 1}
		if n%2 == 1 {
			faults.Mode = faultfs.PowerCut
		}
		store := &faultfs.Store{Store: new(blob.Mem), Faults: faults, Bare: n%4 > 1}
		v := vault.New(store, vault.Options{})
		failed := 0
		var kept []vault.Digest
		for i, b := range versions {
			d, _, err := v.Put(ctx, bytes.NewReader(b), kept...)
			if err != nil {
				failed++
				if faults.Restart(); faults.Mode == faultfs.PowerCut {
					v = vault.New(store, vault.Options{})
				}
				d = put(t, v, b, kept...)
			}
			if kept = append(kept, d); i%3 == 2 {
				kept = kept[len(kept)-1:]
				if _, err := v.Sweep(ctx, of(kept...)); err != nil {
					failed++
					faults.Restart()
					v = vault.New(store, vault.Options{}) // it may have crashed
				}
			}
			for _, old := range versions[:i+1] {
				_, ok, err := v.Has(ctx, digestOf(old))
				must(t, err)
				if err := v.Verify(ctx, digestOf(old)); ok && err != nil {
					t.Fatalf("operation %d failed: Has says yes, but %v", n, err)
				}
			}
			for _, d := range kept {
				must(t, v.Verify(ctx, d))
			}
		}
		if n < 40 && failed != 1 {
			t.Errorf("operation %d: %d failed", n, failed)
		}
		sweep(t, v)
		sweep(t, v)
		if _, left := bytesIn(t, store); left != 0 {
			t.Errorf("operation %d failed: %d blobs left", n, left)
		}
	}
}

// TestBeside: all operations at once, on the same contents.
func TestBeside(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	v := vault.New(&blob.Mem{}, vault.Options{})
	r := rng(50)
	versions := [][]byte{random(r, 60_000)}
	for i := range 7 {
		versions = append(versions, edited(r, versions[i], 2, 20))
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		defer cancel()
		began := time.Now()
		for sweeps := 0; (sweeps < 3 || time.Since(began) < time.Second) && ctx.Err() == nil; sweeps++ {
			if _, err := v.Sweep(ctx, of()); err != nil && ctx.Err() == nil {
				t.Error(err)
			}
		}
	})
	for worker := range 4 {
		wg.Go(func() {
			r := rng(uint64(60 + worker))
			for ctx.Err() == nil {
				if err := besideOnce(ctx, v, versions, r.IntN); err != nil && ctx.Err() == nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
}

// besideOnce puts or finds a few contents under a hold, and reads them.
func besideOnce(ctx context.Context, v *vault.Vault, versions [][]byte, intn func(int) int) error {
	release := v.Hold()
	defer release()
	var have []int
	for range 1 + intn(3) {
		i := intn(len(versions))
		d := digestOf(versions[i])
		_, ok, err := v.Has(ctx, d)
		if err != nil {
			return err
		}
		if !ok {
			like := digestOf(versions[intn(len(versions))])
			if _, _, err := v.Put(ctx, bytes.NewReader(versions[i]), like); err != nil {
				return err
			}
		}
		have = append(have, i)
	}
	for _, i := range have {
		r, err := v.Open(ctx, digestOf(versions[i]))
		if err != nil {
			return err
		}
		got, err := io.ReadAll(r)
		_ = r.Close() // only read from
		if err != nil {
			return err
		}
		if !bytes.Equal(got, versions[i]) {
			return errors.New("other bytes")
		}
	}
	return nil
}
