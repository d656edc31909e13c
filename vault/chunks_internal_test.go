package vault

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"testing"
	"testing/iotest"
)

// TestChunker: the chunks add up to the content, at every position in a large
// one, and the last is marked.
func TestChunker(t *testing.T) {
	t.Parallel()
	p := make([]byte, 6<<20)
	_, _ = rand.NewChaCha8([32]byte{2}).Read(p) // never fails
	for _, off := range []int64{0, classes[0].until - 300_000, classes[1].until - 1<<20, 1 << 40} {
		for _, size := range []int{0, 1, bufferSize - 1, bufferSize, bufferSize + 1, 2 * bufferSize, len(p)} {
			if size == len(p) && off == 0 {
				continue // same as in the next class
			}
			for name, r := range map[string]io.Reader{
				"plain": bytes.NewReader(p[:size]),
				"half":  iotest.HalfReader(bytes.NewReader(p[:size])),
				"eof":   iotest.DataErrReader(bytes.NewReader(p[:size])),
			} {
				if size == len(p) && name != "plain" {
					continue
				}
				if got := rejoined(t, &chunker{r: r, buf: make([]byte, bufferSize), off: off}); !bytes.Equal(got, p[:size]) {
					t.Errorf("%s, %d bytes at %d: %d other ones", name, size, off, len(got))
				}
			}
		}
	}
}

func rejoined(t *testing.T, c *chunker) (all []byte) {
	t.Helper()
	for n := 0; ; n++ {
		chunk, last, err := c.next()
		if err != nil || len(chunk) == 0 && n > 0 || len(chunk) > maxChunk {
			t.Fatalf("chunk %d of %d bytes, %v", n, len(chunk), err)
		}
		if all = append(all, chunk...); last {
			return all
		}
	}
}

// TestChunkerStuck: reading from a Reader that never returns data ends with an
// error.
func TestChunkerStuck(t *testing.T) {
	t.Parallel()
	c := chunker{r: stuck{}, buf: make([]byte, bufferSize)}
	if _, _, err := c.next(); !errors.Is(err, io.ErrNoProgress) {
		t.Errorf("next = %v, want io.ErrNoProgress", err)
	}
}

type stuck struct{}

func (stuck) Read([]byte) (int, error) { return 0, nil }
