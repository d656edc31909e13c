package websub

import (
	"crypto/hmac"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"slices"
	"strings"
	"sync"
)

// SignatureHeader is the header field that carries a signature.
const SignatureHeader = "X-Hub-Signature"

// DefaultMethod is the default signing method of a hub (WS-X-03).
const DefaultMethod = "sha256"

// maxSignatures caps the signatures of one message that are checked.
const maxSignatures = 16

var (
	// ErrUnsigned reports a message without a required signature.
	ErrUnsigned = errors.New("there is no signature")
	// ErrSignature reports a message without a valid signature.
	ErrSignature = errors.New("the signature does not match")
)

// Methods returns the names of the signing methods, weakest first (WS-X-02).
func Methods() []string { return []string{"sha1", "sha256", "sha384", "sha512"} }

// newHash returns the constructor of a method's hash, or nil.
func newHash(method string) func() hash.Hash {
	switch method {
	case "sha1":
		return sha1.New
	case "sha256":
		return sha256.New
	case "sha384":
		return sha512.New384
	case "sha512":
		return sha512.New
	}
	return nil
}

// Sign returns the signature of body as a header value: "sha256=<lower-case
// hex>" (WS-X-01).
func Sign(method string, secret, body []byte) (string, error) {
	s, err := NewSigner(method, secret)
	if err != nil {
		return "", err
	}
	return s.Sign(body), nil
}

// A Signer signs many messages with one secret. It is safe for concurrent use.
type Signer struct {
	method string
	mu     sync.Mutex // guards mac
	mac    hash.Hash
}

// NewSigner returns a Signer, or an error if the method does not exist.
func NewSigner(method string, secret []byte) (*Signer, error) {
	h := newHash(method)
	if h == nil {
		return nil, fmt.Errorf("sign: unknown method %q, not one of %s", method, strings.Join(Methods(), ", "))
	}
	return &Signer{method: method, mac: hmac.New(h, secret)}, nil
}

// Sign returns the signature of body, like [Sign].
func (s *Signer) Sign(body []byte) string {
	sum := s.sum(make([]byte, 0, sha512.Size), body)
	b := make([]byte, 0, len("sha512=")+2*sha512.Size) // of a constant size: not on the heap
	b = append(append(b, s.method...), '=')
	return string(hex.AppendEncode(b, sum))
}

func (s *Signer) sum(dst, body []byte) []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mac.Reset()
	_, _ = s.mac.Write(body) // never fails
	return s.mac.Sum(dst)
}

// Verify checks the values of the signature header of a message with that body
// and returns the method of the valid signature (WS-X-04). One valid signature
// is enough (WS-X-07). allowed are the accepted methods; default: all. Without a
// secret nothing is checked: a signature without an agreed secret means nothing
// (WS-X-10). Otherwise the error is [ErrUnsigned] or [ErrSignature].
func Verify(values []string, secret, body []byte, allowed ...string) (method string, err error) {
	return verify(values, secret, allowed, body)
}

// SignPublication returns the signature of a publication to a hub as a header
// value. It covers the topic as named by its Link with rel=self, a line feed,
// the value of its Date header, another line feed, and the body. It is therefore
// valid for no other topic, and only for a short time.
func SignPublication(method string, token []byte, topic, date string, body []byte) (string, error) {
	h := newHash(method)
	if h == nil {
		return "", fmt.Errorf("sign: unknown method %q, not one of %s", method, strings.Join(Methods(), ", "))
	}
	return method + "=" + hex.EncodeToString(mac(h, token, publicationHead(topic, date), body)), nil
}

// VerifyPublication checks a signature of [SignPublication], like [Verify] does
// for a delivery. The caller decides whether the date is recent and the
// publication new.
func VerifyPublication(values []string, token []byte, topic, date string, body []byte, allowed ...string) (method string, err error) {
	return verify(values, token, allowed, publicationHead(topic, date), body)
}

func publicationHead(topic, date string) []byte { return []byte(topic + "\n" + date + "\n") }

func mac(h func() hash.Hash, secret []byte, parts ...[]byte) []byte {
	m := hmac.New(h, secret)
	for _, p := range parts {
		_, _ = m.Write(p) // never fails
	}
	return m.Sum(nil)
}

func verify(values []string, secret []byte, allowed []string, parts ...[]byte) (method string, err error) {
	if len(secret) == 0 {
		return "", nil
	}
	sums := map[string][]byte{} // each computed once, however many signatures use it
	looked := 0
	for _, v := range values {
		for part := range strings.SplitSeq(v, ",") {
			if part = strings.TrimSpace(part); part == "" {
				continue
			}
			if looked++; looked > maxSignatures {
				return "", ErrSignature
			}
			name, digits, _ := strings.Cut(part, "=")
			name = strings.ToLower(strings.TrimSpace(name))
			h := newHash(name)
			if h == nil || len(allowed) > 0 && !slices.Contains(allowed, name) {
				continue
			}
			got, err := hex.DecodeString(strings.TrimSpace(digits))
			if err != nil {
				continue
			}
			if sums[name] == nil {
				sums[name] = mac(h, secret, parts...)
			}
			if hmac.Equal(got, sums[name]) {
				return name, nil
			}
		}
	}
	if looked == 0 {
		return "", ErrUnsigned
	}
	return "", ErrSignature
}
