// Package seal encrypts the secrets of subscribers at rest.
package seal

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"errors"
	"fmt"

	"lockstep/hub/hubstore"
)

const sealKey = 32 // bytes: AES-256

var errSeal = errors.New("the secret was sealed with another key")

// A Seal encrypts secrets with a key.
type Seal struct{ aead cipher.AEAD }

// New returns a Seal with a key of 32 bytes; nil: a random one.
func New(secret []byte) (*Seal, error) {
	if secret == nil {
		secret = make([]byte, sealKey)
		rand.Read(secret)
	}
	if len(secret) != sealKey {
		return nil, fmt.Errorf("hub: the key that seals secrets has %d bytes, not %d", len(secret), sealKey)
	}
	block, err := aes.NewCipher(secret)
	if err != nil {
		return nil, err
	}
	aead, err := cipher.NewGCM(block)
	if err != nil {
		return nil, err
	}
	return &Seal{aead}, nil
}

// Seal encrypts the secret of the subscription key for the store. The result is
// bound to the key, so that it cannot be moved to the row of another
// subscription. For an empty secret it returns nil: there is none (WS-H-08).
func (x *Seal) Seal(key hubstore.Key, secret []byte) []byte {
	if len(secret) == 0 {
		return nil
	}
	nonce := make([]byte, x.aead.NonceSize(), x.aead.NonceSize()+len(secret)+x.aead.Overhead())
	rand.Read(nonce)
	return x.aead.Seal(nonce, nonce, secret, []byte(key))
}

// Unseal is the inverse of Seal.
func (x *Seal) Unseal(key hubstore.Key, sealed []byte) ([]byte, error) {
	if len(sealed) == 0 {
		return nil, nil
	}
	n := x.aead.NonceSize()
	if len(sealed) < n {
		return nil, errSeal
	}
	secret, err := x.aead.Open(nil, sealed[:n], sealed[n:], []byte(key))
	if err != nil {
		return nil, errSeal
	}
	return secret, nil
}
