package chunkdelta_test

import (
	"bytes"
	"crypto/sha256"
	"io"
	"math/rand/v2"

	"lockstep/internal/chunkdelta"
)

// tb is what *testing.T and *rapid.T share.
type tb interface {
	Helper()
	Fatal(...any)
}

func must(t tb, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func noise(seed byte, n int) []byte {
	b := make([]byte, n)
	_, _ = rand.NewChaCha8([32]byte{seed}).Read(b) // never fails
	return b
}

// index returns the stored index of content, read again.
func index(t tb, content []byte) *chunkdelta.Index {
	t.Helper()
	x, err := chunkdelta.ReadIndex(bytes.NewReader(storedIndex(t, content)), sha256.Sum256(content))
	must(t, err)
	return x
}

func storedIndex(t tb, content []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	s := chunkdelta.NewScanner(&b, nil)
	must(t, s.Scan(bytes.NewReader(content)))
	must(t, s.EndIndex(sha256.Sum256(content)))
	return b.Bytes()
}

// delta makes the delta from one content to another.
func delta(t tb, old, content []byte) []byte {
	t.Helper()
	s := chunkdelta.NewScanner(nil, index(t, old))
	must(t, s.Scan(bytes.NewReader(content)))
	d, err := s.Delta()
	must(t, err)
	return d
}

// parse parses a delta that must be one.
func parse(t tb, p []byte) *chunkdelta.Delta {
	t.Helper()
	d, err := chunkdelta.Parse(p)
	must(t, err)
	return d
}

// apply returns the result of d.
func apply(t tb, d *chunkdelta.Delta, old []byte) []byte {
	t.Helper()
	got, err := io.ReadAll(d.Reader(bytes.NewReader(old)))
	must(t, err)
	return got
}
