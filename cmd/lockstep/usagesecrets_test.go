package main

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// TestUsageShowsNoSecrets: a flag that is refused may hold a password: the message
// shows none.
func TestUsageShowsNoSecrets(t *testing.T) {
	t.Parallel()
	const secret, at = "s3cretpw", "http://user:s3cretpw@"
	dir := t.TempDir()
	for _, args := range [][]string{
		{"sync", "http://127.0.0.2:9/", "mirror", "--proxy", at + "h:bad"},
		{"sync", "http://127.0.0.2:9/", "mirror", "--header", secret},
		{"sync", "http://127.0.0.2:9/", "s3://bucket/x", "--state", "state"},
		{"follow", "http://127.0.0.2:9/", "mirror", "--callback", at + "127.0.0.1:0/"},
		{"hub", "--listen", "127.0.0.1:0", "--state", "hub", "--public-url", at + "h/"},
		{"serve", dir, "--listen", "127.0.0.1:0", "--state", "serve", "--hub", "http://h.example/", "--hub-token", at + "h.example/=file"},
	} {
		cmd := exec.Command("lockstep", args...)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "AWS_ENDPOINT_URL="+at+"127.0.0.2:9", "AWS_ACCESS_KEY_ID=k", "AWS_SECRET_ACCESS_KEY="+secret)
		out, err := cmd.CombinedOutput()
		if code, _ := exitCodeOf(err); code != 2 || strings.Contains(string(out), secret) {
			t.Errorf("%s: exit %d, %s, want 2 and no password", strings.Join(args, " "), code, out)
		}
	}
}
