package digest

import (
	"bytes"
	"encoding/hex"
	"testing"
)

// TestAppendUnhex puts each byte at each place of digits of several lengths, and
// compares with encoding/hex.
func TestAppendUnhex(t *testing.T) {
	const digits = "0123456789abcdefABCDEF9876543210fedcbaFEDC"
	for n := 0; n <= len(digits); n += 2 {
		for at := range n {
			for c := range 256 {
				text := []byte(digits[:n])
				text[at] = byte(c)
				want, err := hex.DecodeString(string(text))
				got, ok := AppendUnhex([]byte("x"), text)
				if ok != (err == nil) || ok && !bytes.Equal(got, append([]byte("x"), want...)) {
					t.Fatalf("%q: %x, %t; want %x, %v", text, got, ok, want, err)
				}
			}
		}
	}
}
