package digest

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"strings"

	"lockstep/internal/xmlscan"
)

// maxValues is how many values of one attribute are examined: it stops
// attributes that consist of nothing else.
const maxValues = 16

// Values passes each usable value of the hash attribute s to add, which reports
// whether it accepted it, and each deviation to warn.
func Values(s string, add func(Algorithm, []byte) bool, warn func(string)) {
	n := 0
	for value := range strings.FieldsFuncSeq(s, func(r rune) bool { return r == ' ' || r == '\t' || r == '\n' || r == '\r' }) {
		if n++; n > maxValues {
			warn("too many hash values")
			return
		}
		token, text, found := strings.Cut(value, ":")
		a, alias := Lookup(token)
		switch {
		case !found:
			warn(fmt.Sprintf("hash %q has no algorithm", xmlscan.Clip(value)))
			continue
		case a == 0:
			continue // an unknown algorithm is allowed, and ignored
		case alias:
			warn(fmt.Sprintf("algorithm spelt %q", xmlscan.Clip(token)))
		}
		digest, plain := Decode(a, text)
		switch {
		case digest == nil:
			warn(fmt.Sprintf("%s digest %q is neither hex nor base64 of the right length", a, xmlscan.Clip(text)))
			continue
		case !plain:
			warn(fmt.Sprintf("%s digest in base64", a))
		}
		if !add(a, digest) {
			warn(fmt.Sprintf("a second %s digest", a))
		}
	}
}

// Decode parses a digest in hex or, as a deviation, in base64 (RS-HASH-04).
func Decode(a Algorithm, text string) (digest []byte, plain bool) {
	if len(text) == 2*a.Size() {
		if d, err := hex.DecodeString(text); err == nil {
			return d, true
		}
	}
	text = strings.TrimRight(text, "=")
	for _, enc := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
		if d, err := enc.DecodeString(text); err == nil && len(d) == a.Size() {
			return d, false
		}
	}
	return nil, false
}

// CutPlain splits the first value off a hash attribute of the form that the
// Writer produces. It reports whether the value has that form; whether digits
// are hex digits is up to [AppendUnhex].
func CutPlain(values []byte) (a Algorithm, digits, rest []byte, ok bool) {
	i := bytes.IndexByte(values, ':')
	if i < 0 {
		return 0, nil, nil, false
	}
	switch string(values[:i]) {
	case "md5":
		a = MD5
	case "sha-256":
		a = SHA256
	case "sha-1":
		a = SHA1
	case "sha-512":
		a = SHA512
	case "sha-384":
		a = SHA384
	default:
		return 0, nil, nil, false
	}
	values = values[i+1:]
	n := 2 * info[a].size
	switch {
	case len(values) < n, len(values) == n+1, len(values) > n && values[n] != ' ':
		return 0, nil, nil, false
	case len(values) == n:
		return a, values, nil, true
	}
	return a, values[:n], values[n+1:], true
}
