package main

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// TestMalformedAddresses: the value of a flag that cannot be an address is wrong usage, which
// the message says, before anything is opened or made.
func TestMalformedAddresses(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.Mkdir(dir+"/files", 0o700); err != nil {
		t.Fatal(err)
	}
	listen := []string{"127.0.0.1", "127.0.0.1:x", "127.0.0.1:99999", "127.0.0.1:-1", "[::1", "a b:80", "127.0.0.1:8080/x"}
	url := []string{"x", "http://", "http://h:x/", "http://h:99999/", "http://[::1/"}
	shared := []string{"serve", "api:", "--state", "postgres://u@127.0.0.1:1/x", "--base-url", "http://h/", "--shared", "--shared-at"}
	for _, tt := range []struct {
		args   []string
		values []string
	}{
		{[]string{"explore", "--listen"}, listen},
		{[]string{"serve", "files", "--state", "serve", "--listen"}, listen},
		{[]string{"hub", "--state", "hub", "--listen"}, listen},
		{[]string{"simulate", "--listen"}, listen},
		{[]string{"follow", "http://127.0.0.2:9/", "mirror", "--listen"}, listen},
		{shared, append(listen, "127.0.0.1:", "127.0.0.1:0")},
		{[]string{"serve", "files", "--state", "serve", "--listen", "127.0.0.1:0", "--admin"}, append(listen, "unix:")},
		{[]string{"hub", "--state", "hub", "--listen", "127.0.0.1:0", "--admin"}, append(listen, "unix:")},
		{[]string{"follow", "http://127.0.0.2:9/", "mirror", "--admin"}, append(listen, "unix:")},
		{[]string{"status", "--admin"}, append(listen, "unix:", "http://127.0.0.1:80/")},
		{[]string{"serve", "files", "--state", "serve", "--listen", "127.0.0.1:0", "--base-url"}, url},
		{[]string{"serve", "files", "--state", "serve", "--listen", "127.0.0.1:0", "--uri"}, url},
		{[]string{"serve", "files", "--state", "serve", "--listen", "127.0.0.1:0", "--hub"}, url},
		{[]string{"publish", "files", "--out", "out", "--base-url"}, url},
		{[]string{"publish", "files", "--out", "out", "--base-url", "http://h/", "--uri"}, url},
		{[]string{"publish", "files", "--out", "out", "--base-url", "http://h/", "--hub"}, url},
		{[]string{"snippet", "nginx", "--out", "out", "--base-url"}, url},
		{[]string{"simulate", "--listen", "127.0.0.1:0", "--base-url"}, url},
		{[]string{"hub", "--state", "hub", "--listen", "127.0.0.1:0", "--public-url"}, url},
		{[]string{"hub", "--state", "hub", "--listen", "127.0.0.1:0", "--publish-prefix"}, url},
		{[]string{"follow", "http://127.0.0.2:9/", "mirror", "--callback"}, url},
		{[]string{"sync", "http://127.0.0.2:9/", "mirror", "--proxy"}, url},
		{[]string{"sync", "http://127.0.0.2:9/", "mirror", "--ping-url"}, url},
		{[]string{"validate", "files", "--base-url"}, url},
		{[]string{"map", "a", "--source"}, url[1:]}, // without a scheme it is a host
	} {
		for _, value := range tt.values {
			args := append(tt.args[:len(tt.args):len(tt.args)], value)
			cmd := exec.Command("lockstep", args...)
			cmd.Dir = dir
			out, err := cmd.CombinedOutput()
			flag := args[len(args)-2]
			if code, _ := exitCodeOf(err); code != 2 || !strings.Contains(string(out), flag) && !strings.Contains(string(out), value) {
				t.Errorf("%s: exit %d, %s, want 2 and a message about %s", strings.Join(args, " "), code, out, flag)
			}
		}
	}
}
