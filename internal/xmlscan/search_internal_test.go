package xmlscan

import (
	"bytes"
	"strings"
	"testing"
)

// TestSearchEnds puts each byte that ends or changes a text or a value at each place
// of one, in front of and behind its end.
func TestSearchEnds(t *testing.T) {
	for _, search := range []struct {
		end   byte
		stops string
		find  func(b []byte) (int, bool)
	}{
		{'<', "&\r]", textEnd},
		{'"', "&<\t\r\n", func(b []byte) (int, bool) { return valueEnd(b, '"') }},
		{'\'', "&<\t\r\n", func(b []byte) (int, bool) { return valueEnd(b, '\'') }},
	} {
		for length := range 80 {
			for _, stop := range []byte(search.stops) {
				for at := range length {
					b := []byte(strings.Repeat("é;", length)[:length])
					b[at] = stop
					if n, _ := search.find(b); n != -1 {
						t.Fatalf("%q has no %c: position %d, want -1", b, search.end, n)
					}
					for end := range length {
						if end == at {
							continue
						}
						b := bytes.Clone(b)
						b[end] = search.end
						if n, plain := search.find(b); n != end || plain != (at > end) {
							t.Fatalf("%q: the first %c is at %d, plain: %t; want %d, %t", b, search.end, n, plain, end, at > end)
						}
					}
				}
			}
		}
	}
}
