package byteset

import (
	"math/rand/v2"
	"strings"
	"testing"
)

// TestIndex compares sets of all sizes with a search byte by byte, in texts of all
// lengths around that of a block.
func TestIndex(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	sets := []string{"", "<&]\r", "\"<&\x00\x01\x1f", " \x80\xff\x8f", "\x00\x11\x22\x33\x44\x55\x66\x77\x88\x99\xaa\xbb"}
	for range 300 {
		chars := make([]byte, rnd.IntN(40))
		for i := range chars {
			chars[i] = byte(rnd.Uint32())
		}
		sets = append(sets, string(chars))
	}
	for _, chars := range sets {
		has := func(c byte) bool { return strings.IndexByte(chars, c) >= 0 }
		set := New(has)
		for n := range 131 {
			text := make([]byte, n)
			for i := range text {
				for text[i] = byte(rnd.Uint32()); has(text[i]) && rnd.IntN(100) > 0; {
					text[i] = byte(rnd.Uint32())
				}
			}
			want := n
			for i := n - 1; i >= 0; i-- {
				if has(text[i]) {
					want = i
				}
			}
			if got := set.Index(text); got != want {
				t.Fatalf("set %q, text %q: position %d, want %d", chars, text, got, want)
			}
		}
	}
}

// TestEachByte puts each byte at each place of a text.
func TestEachByte(t *testing.T) {
	for _, chars := range []string{"<&]\r", "'<&\t\n\r", "\x80\x9f\xf0"} {
		set := New(func(c byte) bool { return strings.IndexByte(chars, c) >= 0 })
		for c := range 256 {
			for at := range 70 {
				text := []byte(strings.Repeat("a", 70))
				text[at] = byte(c)
				want := 70
				if strings.IndexByte(chars, byte(c)) >= 0 {
					want = at
				}
				if got := set.Index(text); got != want {
					t.Fatalf("set %q, byte %#x at %d: position %d, want %d", chars, c, at, got, want)
				}
			}
		}
	}
}
