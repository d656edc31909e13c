package lexical

import (
	"bytes"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// TestPlainURL checks that what is taken for a URI of the usual form passes each of the
// checks that it saves, and that the usual ones are taken for it.
func TestPlainURL(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := []byte(rapid.SampledFrom([]string{"http://", "https://", "ftp://", "HTTP://", "http:/"}).Draw(t, "scheme") +
			rapid.StringOfN(rapid.RuneFrom([]rune("aZ0.-:/@%_é \x00\x7f<?#&'[]|")), 0, 80, -1).Draw(t, "rest"))
		if PlainURL(text) && (!URI(string(text)) || !Requestable(text) || bytes.ContainsAny(text, "@%")) {
			t.Fatalf("%q is taken for a plain URL", text)
		}
	})
	for _, text := range []string{"http://a/", "https://a.example:8080/x?y=z&k='v'#f", "http://a"} {
		if long := text + strings.Repeat("/long", 20); !PlainURL([]byte(text)) || strings.HasSuffix(text, "/") && !PlainURL([]byte(long)) {
			t.Errorf("%q is not taken for a plain URL", text)
		}
	}
}
