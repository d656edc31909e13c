package hub

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

func newSeal(secret []byte) (cipher.AEAD, error) {
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
	return cipher.NewGCM(block)
}

// seal encrypts the secret of the subscription key for the store. The result is
// bound to the key, so that it cannot be moved to the row of another
// subscription. For an empty secret it returns nil: there is none (WS-H-08).
func (h *Hub) seal(key hubstore.Key, secret []byte) []byte {
	if len(secret) == 0 {
		return nil
	}
	nonce := make([]byte, h.aead.NonceSize(), h.aead.NonceSize()+len(secret)+h.aead.Overhead())
	rand.Read(nonce)
	return h.aead.Seal(nonce, nonce, secret, []byte(key))
}

// unseal is the inverse of seal.
func (h *Hub) unseal(key hubstore.Key, sealed []byte) ([]byte, error) {
	if len(sealed) == 0 {
		return nil, nil
	}
	n := h.aead.NonceSize()
	if len(sealed) < n {
		return nil, errSeal
	}
	secret, err := h.aead.Open(nil, sealed[:n], sealed[n:], []byte(key))
	if err != nil {
		return nil, errSeal
	}
	return secret, nil
}
