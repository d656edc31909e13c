package main

import (
	"os"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"lockstep/cmd/lockstep/internal/certificate/certificatetest"
)

// makeCertificate: `certificate DIR HOST...` writes the TLS certificate DIR/cert.pem for
// the hosts, and its key DIR/key.pem.
func makeCertificate(t *testing.T, ts *testscript.TestScript, args []string) {
	if len(args) < 2 {
		ts.Fatalf("usage: certificate DIR HOST...")
	}
	dir := ts.MkAbs(args[0])
	ts.Check(os.MkdirAll(dir, 0o700))
	certificatetest.Make(t, time.Now().Add(365*24*time.Hour), args[1:]...).Write(t, dir)
}
