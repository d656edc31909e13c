package freeport_test

import (
	"net"
	"testing"

	"lockstep/internal/freeport"
)

func TestAddress(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for range 50 {
		address, err := freeport.Address(t.Context())
		if err != nil || seen[address] {
			t.Fatalf("Address = %s, %v; seen before: %t", address, err, seen[address])
		}
		seen[address] = true
		l, err := net.Listen("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = l.Close() })
	}
}
