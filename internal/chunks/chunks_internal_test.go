package chunks

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"testing"
	"testing/iotest"
)

const bufferSize = 256 << 10

var classes = []Class{
	{Until: 64 << 20, Min: 4 << 10, Avg: 16 << 10, Max: 64 << 10},
	{Until: 1 << 30, Min: 16 << 10, Avg: 64 << 10, Max: 256 << 10},
	{Min: 256 << 10, Avg: 1 << 20, Max: 4 << 20},
}

// TestReader: the chunks add up to the content, at every position in a large
// one, and the last is marked.
func TestReader(t *testing.T) {
	t.Parallel()
	p := make([]byte, 6<<20)
	_, _ = rand.NewChaCha8([32]byte{2}).Read(p) // never fails
	for _, off := range []int64{0, classes[0].Until - 300_000, classes[1].Until - 1<<20, 1 << 40} {
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
				if got := rejoined(t, &Reader{r: r, buf: make([]byte, bufferSize), classes: classes, off: off}); !bytes.Equal(got, p[:size]) {
					t.Errorf("%s, %d bytes at %d: %d other ones", name, size, off, len(got))
				}
			}
		}
	}
}

func rejoined(t *testing.T, c *Reader) (all []byte) {
	t.Helper()
	for n := 0; ; n++ {
		chunk, last, err := c.Next()
		if err != nil || len(chunk) == 0 && n > 0 || len(chunk) > classes[2].Max {
			t.Fatalf("chunk %d of %d bytes, %v", n, len(chunk), err)
		}
		if all = append(all, chunk...); last {
			return all
		}
	}
}

// TestReaderStuck: reading from a Reader that never returns data ends with an
// error.
func TestReaderStuck(t *testing.T) {
	t.Parallel()
	c := NewReader(stuck{}, make([]byte, bufferSize), classes)
	if _, _, err := c.Next(); !errors.Is(err, io.ErrNoProgress) {
		t.Errorf("Next = %v, want io.ErrNoProgress", err)
	}
}

type stuck struct{}

func (stuck) Read([]byte) (int, error) { return 0, nil }
