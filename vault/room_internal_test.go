package vault

import (
	"bytes"
	"io"
	"math/rand/v2"
	"testing"

	"lockstep/blob"
)

// TestRoom reads a little of many contents at a time, as slow readers do: together
// they use no more than the allowed memory, and each reads the right bytes.
func TestRoom(t *testing.T) {
	t.Parallel()
	for _, compress := range []bool{false, true} {
		content := make([]byte, 3<<20)
		for i := range content {
			content[i] = byte(rand.IntN(16)) // compressible
		}
		store, err := blob.NewDir(t.TempDir(), blob.DirOptions{})
		if err != nil {
			t.Fatal(err)
		}
		defer store.Close()
		v := New(store, Options{Compress: compress})
		const room = 1 << 20
		v.room = newRoom(room)
		d, _, err := v.Put(t.Context(), bytes.NewReader(content))
		if err != nil {
			t.Fatal(err)
		}
		readers := make([]*Reader, 200)
		held := func() (n int64) {
			for _, r := range readers {
				if r != nil {
					n += int64(cap(r.data) + cap(r.chunks.stored))
				}
			}
			return n
		}
		piece := make([]byte, 1000)
		for i := range readers {
			if readers[i], err = v.Open(t.Context(), d); err != nil {
				t.Fatal(err)
			}
			for _, off := range []int64{0, 1000, rand.Int64N(2 << 20)} {
				if _, err := readers[i].ReadAt(piece, off); err != nil || !bytes.Equal(piece, content[off:off+1000]) {
					t.Fatalf("reader %d at %d: other bytes than were put, %v", i, off, err)
				}
			}
		}
		if n := held(); n > room {
			t.Errorf("%d readers hold %d bytes, want at most %d", len(readers), n, room)
		}
		if got, err := io.ReadAll(readers[len(readers)-1]); err != nil || !bytes.Equal(got, content) {
			t.Errorf("a reader without room reads other bytes, %v", err)
		}
		for _, r := range readers {
			if err := r.Close(); err != nil {
				t.Error(err)
			}
		}
		if v.room.used != 0 || len(v.room.loans) != 0 {
			t.Errorf("when all are closed %d bytes are in use, and %d lent", v.room.used, len(v.room.loans))
		}
	}
}
