package content

import (
	"encoding/hex"
	"errors"
	"fmt"

	"lockstep/resourcesync"
)

// An Error reports content that is not what the Source describes: the
// resource changed since, or it is damaged.
type Error struct {
	URI  string
	What string // "hash md5" or "length"
	Want string
	Got  string
}

func (e *Error) Error() string {
	return fmt.Sprintf("verify %s: %s is %s, the Source states %s", e.URI, e.What, e.Got, e.Want)
}

// A Description is what the Source states of the content of a resource.
type Description struct {
	URI    string
	Length int64 // -1: not stated
	Hashes resourcesync.Hashes
}

// Verify checks content of so many bytes with these hashes against what the
// Source states. A hash that matches outweighs a length that does not: then the
// warning says so. One known hash that differs is a failure (RS-HASH-06).
func Verify(w Description, length int64, got resourcesync.Hashes) (warning string, err error) {
	verified := false
	for _, stated := range w.Hashes {
		digest := got.Get(stated.Algorithm)
		if digest == "" {
			continue // unknown to us: no check
		}
		if digest != stated.Digest {
			return "", &Error{URI: w.URI, What: "hash " + stated.Algorithm.String(), Want: hex.EncodeToString([]byte(stated.Digest)), Got: hex.EncodeToString([]byte(digest))}
		}
		verified = true
	}
	if w.Length < 0 || w.Length == length {
		return "", nil
	}
	wrong := &Error{URI: w.URI, What: "length", Want: fmt.Sprint(w.Length), Got: fmt.Sprint(length)}
	if verified {
		return wrong.Error() + "; the hash is right, so it was kept", nil
	}
	return "", wrong
}

// IsError reports whether err says that content is not what the Source
// describes.
func IsError(err error) bool {
	var wrong *Error
	return errors.As(err, &wrong)
}
