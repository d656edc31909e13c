package column

import (
	"slices"
	"testing"
)

func FuzzStrings(f *testing.F) {
	f.Add(EncodeStrings([]string{"", "<https://example.org/>; rel=\"via\"", "\x00\xff"}))
	f.Add([]byte{0x80})
	f.Add([]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f, 'a'})
	f.Fuzz(func(t *testing.T, b []byte) {
		ss, err := DecodeStrings(b)
		if err != nil {
			return
		}
		if again, err := DecodeStrings(EncodeStrings(ss)); err != nil || !slices.Equal(again, ss) {
			t.Errorf("%q becomes %q, %v", ss, again, err)
		}
	})
}
