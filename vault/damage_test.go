package vault_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"lockstep/blob"
	"lockstep/vault"
)

// raw returns the bytes of a blob.
func raw(t testing.TB, store blob.Store, name string) []byte {
	t.Helper()
	r, err := store.Open(context.Background(), name)
	must(t, err)
	defer r.Close()
	b, err := io.ReadAll(r)
	must(t, err)
	return b
}

// write replaces a blob.
func write(t testing.TB, store blob.Store, name string, b []byte) {
	t.Helper()
	w, err := store.Create(context.Background(), name)
	must(t, err)
	defer w.Close()
	_, err = w.Write(b)
	must(t, err)
	must(t, store.Commit(context.Background(), w))
}

func nameOf(d vault.Digest) string { return d.String()[:2] + "/" + d.String() }

// A shelf is a vault with a few contents that share chunks.
type shelf struct {
	store blob.Mem
	all   [][]byte
	ds    []vault.Digest
}

func newShelf(t testing.TB, compress bool) *shelf {
	r := rng(20)
	s := &shelf{}
	v := vault.New(&s.store, vault.Options{Compress: compress})
	b := slices.Concat(random(r, 70_000), bytes.Repeat([]byte("text that gets smaller "), 1000))
	for i := range 3 {
		if i > 0 {
			b = slices.Clone(b)
			copy(b[(i-1)*60_000+5000:], random(r, 50)) // in different chunks
		}
		s.all = append(s.all, b)
		s.ds = append(s.ds, put(t, v, b, s.ds...))
	}
	s.all = append(s.all, []byte("small"), nil)
	s.ds = append(s.ds, put(t, v, []byte("small")), put(t, v, nil))
	return s
}

// TestFlipped: a flipped bit anywhere is detected, the blob is named, and no
// damaged byte is returned.
func TestFlipped(t *testing.T) {
	t.Parallel()
	for _, compress := range []bool{false, true} {
		s := newShelf(t, compress)
		for i, d := range s.ds {
			good := raw(t, &s.store, nameOf(d))
			step := max(1, len(good)/15) // of the part with the chunks
			for at := 0; at < len(good); at++ {
				if at > 16 && at < len(good)-70 && at%step != 0 {
					continue
				}
				if compress && at == 12 && i < 3 {
					continue // a bit of the zstd frame without meaning
				}
				bad := slices.Clone(good)
				bad[at] ^= 1 << (at % 8)
				write(t, &s.store, nameOf(d), bad)
				s.wantNamed(t, i, at)
			}
			write(t, &s.store, nameOf(d), good)
		}
	}
}

// wantNamed checks all contents after a byte of damaged's blob was changed.
func (s *shelf) wantNamed(t *testing.T, damaged, at int) {
	t.Helper()
	ctx := context.Background()
	v := vault.New(&s.store, vault.Options{})
	for i, d := range s.ds {
		err := v.Verify(ctx, d)
		var de *vault.DamagedError
		switch is := errors.As(err, &de); {
		case is && (de.Digest != d || de.Blob != nameOf(s.ds[damaged])):
			t.Errorf("content %d, byte %d of %d flipped: %v", i, at, damaged, err)
		case !is && (err != nil || i == damaged):
			t.Errorf("content %d, byte %d of %d flipped: Verify = %v", i, at, damaged, err)
		}
		got, err := read(v, d)
		if err == nil && !bytes.Equal(got, s.all[i]) || !bytes.HasPrefix(s.all[i], got) {
			t.Errorf("content %d, byte %d of %d flipped: read other bytes, %v", i, at, damaged, err)
		}
	}
}

// TestTruncated: the same for blobs that became shorter or longer, or were
// removed.
func TestTruncated(t *testing.T) {
	t.Parallel()
	s := newShelf(t, false)
	for i, d := range s.ds {
		good := raw(t, &s.store, nameOf(d))
		for _, n := range []int{0, 1, 7, 8, 20, 31, 32, 40, len(good) / 2, len(good) - 4, len(good) - 1, len(good) + 1, len(good) + 4} {
			if n < len(good)+5 && n != len(good) {
				write(t, &s.store, nameOf(d), append(slices.Clone(good), 0, 0, 0, 0)[:n])
				s.wantNamed(t, i, n)
			}
		}
		must(t, s.store.Remove(context.Background(), nameOf(d)))
		v := vault.New(&s.store, vault.Options{})
		for j, other := range s.ds {
			_, err := read(v, other)
			var de *vault.DamagedError
			switch errors.As(err, &de); {
			case j == i && !errors.Is(err, fs.ErrNotExist),
				j != i && err != nil && (de == nil || de.Blob != nameOf(d)):
				t.Errorf("content %d, %d is gone: %v", j, i, err)
			}
		}
		write(t, &s.store, nameOf(d), good)
	}
}

// TestSwapped: a blob under another's name is detected.
func TestSwapped(t *testing.T) {
	t.Parallel()
	s := newShelf(t, false)
	write(t, &s.store, nameOf(s.ds[3]), raw(t, &s.store, nameOf(s.ds[4])))
	s.wantNamed(t, 3, -1)
}

// TestHealed: a content known to be damaged is repaired when it is put again, and
// so are contents that use it; until then nothing new relies on it.
func TestHealed(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	for _, trust := range []bool{false, true} {
		s := newShelf(t, false)
		s.spoil(t, 0, 35_000)
		var log strings.Builder
		v := vault.New(&s.store, vault.Options{Trust: trust, Logger: slog.New(slog.NewTextHandler(&log, nil))})
		if _, err := read(v, s.ds[2]); err == nil {
			t.Fatal("read what is damaged")
		}
		if !strings.Contains(log.String(), nameOf(s.ds[0])) || !strings.Contains(log.String(), s.ds[2].String()) {
			t.Errorf("log does not name what is damaged: %s", log.String())
		}
		if _, ok, err := v.Has(ctx, s.ds[2]); ok || err != nil {
			t.Errorf("Has = %t, %v of what cannot be read", ok, err)
		}
		next := edited(rng(21), s.all[2], 1, 50)
		put(t, v, next, s.ds[2], s.ds[0], s.ds[1])
		wantContent(t, v, next)
		put(t, v, s.all[2], s.ds[2])
		wantContent(t, v, s.all[2])
		put(t, v, s.all[0])
		s.wantSound(t, v)
	}
}

// spoil flips a bit of a blob; a negative position counts from its end.
func (s *shelf) spoil(t *testing.T, i, at int) {
	t.Helper()
	bad := raw(t, &s.store, nameOf(s.ds[i]))
	if at < 0 {
		at += len(bad)
	}
	bad[at] ^= 1
	write(t, &s.store, nameOf(s.ds[i]), bad)
}

func (s *shelf) wantSound(t *testing.T, v *vault.Vault) {
	t.Helper()
	for i, d := range s.ds {
		if err := v.Verify(context.Background(), d); err != nil {
			t.Errorf("content %d is not healed: %v", i, err)
		}
	}
}

// TestNotInherited: new contents do not use damaged data, wherever it is and
// even if it was not detected before; a content that is put again is repaired.
func TestNotInherited(t *testing.T) {
	t.Parallel()
	for _, at := range []int{0, 5000, 35_000, -3, -30, -400} {
		for i := range 3 {
			s := newShelf(t, i == 1)
			if i > 0 && at > 100 {
				at = 20 // in its only chunk
			}
			s.spoil(t, i, at)
			v := vault.New(&s.store, vault.Options{})
			next := edited(rng(21), s.all[2], 1, 50)
			put(t, v, next, s.ds[2])
			wantContent(t, v, next)
			for _, b := range s.all {
				put(t, v, b, s.ds[2], s.ds[0])
				wantContent(t, v, b)
			}
			s.wantSound(t, v)
		}
	}
}

// TestHealedTable: the same for a damaged table of a blob that others use; and
// a sweep leaves the blob alone.
func TestHealedTable(t *testing.T) {
	t.Parallel()
	for i := range 2 {
		s := newShelf(t, false)
		s.spoil(t, i, -40)
		v := vault.New(&s.store, vault.Options{})
		sweep(t, v, s.ds[2])
		wantContent(t, v, s.all[2])
		put(t, v, s.all[i], s.ds[2])
		wantContent(t, v, s.all[i])
		wantContent(t, v, s.all[2])
		s.spoil(t, 2, -40)
		if sw := sweep(t, v, s.ds[2]); sw.Damaged != 1 {
			t.Errorf("swept %+v, want one damaged", sw)
		}
	}
}
