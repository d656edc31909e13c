package readers

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"

	"lockstep/cmd/lockstep/internal/term"
)

// tokenBytes is the number of random bytes in a token: it cannot be guessed, and its hash
// needs no salt.
const tokenBytes = 32

// Make returns a new token for a reader, and the line with its hash.
func Make(name string) (token, entry string, err error) {
	if name == "" || name == strings.TrimSuffix(FilePrefix, ":") || strings.ContainsAny(name, ": \t\r\n#") {
		return "", "", term.Usage(fmt.Errorf("%q cannot be the name of a reader", name), "choose a name without colons, blanks and #, as alice")
	}
	b := make([]byte, tokenBytes)
	_, _ = rand.Read(b) // never fails
	token = hex.EncodeToString(b)
	sum := sha256.Sum256([]byte(token))
	return token, name + ":" + tokenPrefix + hex.EncodeToString(sum[:]), nil
}
