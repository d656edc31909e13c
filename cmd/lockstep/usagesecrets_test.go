package main

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"lockstep/cmd/lockstep/internal/config"
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

// TestInvalidAddressShowsNoSecrets: a password with a slash in it makes an address invalid.
// No part of it is in the message, whichever argument or flag it was given to.
func TestInvalidAddressShowsNoSecrets(t *testing.T) {
	t.Parallel()
	const secret = "s3cret"
	dir := t.TempDir()
	if err := os.Mkdir(dir+"/files", 0o700); err != nil {
		t.Fatal(err)
	}
	for _, address := range []string{"http://user:s3cret/s3cret@h.invalid/", "http://user:s3cret?s3cret@h.invalid/", "http://user:s3cret%zz@h.invalid/"} {
		for _, args := range [][]string{
			{"sync", address, "mirror"},
			{"sync", "atom-pmh:" + address, "mirror"},
			{"sync", "http://127.0.0.2:9/", "mirror", "--proxy", address},
			{"sync", "http://127.0.0.2:9/", "mirror", "--ping-url", address},
			{"sync", "http://127.0.0.2:9/", "mirror", "--map", address},
			{"hub", "--listen", "127.0.0.1:0", "--state", "hub", "--publish-prefix", address},
			{"hub", "--listen", "127.0.0.1:0", "--state", "hub", "--public-url", address},
			{"serve", "files", "--listen", "127.0.0.1:0", "--state", "serve", "--base-url", address},
			{"serve", "files", "--listen", "127.0.0.1:0", "--state", "serve", "--uri", address},
			{"serve", "files", "--listen", "127.0.0.1:0", "--state", "serve", "--hub", address},
			{"serve", "files", "--listen", "127.0.0.1:0", "--state", "serve", "--contents", address},
			{"serve", "files", "--listen", "127.0.0.1:0", "--state", "serve", "--hub-publish-prefix", address},
			{"serve", "sitemap:" + address, "--listen", "127.0.0.1:0", "--state", "serve"},
			{"publish", "files", "--out", address, "--base-url", "http://h.invalid/"},
			{"publish", "files", "--out", "out", "--base-url", address},
			{"snippet", "nginx", "--out", "out", "--base-url", address},
			{"simulate", "--listen", "127.0.0.1:0", "--base-url", address},
			{"map", "x", "--mirror", address},
			{"state", "info", address},
			{"status", address},
		} {
			cmd := exec.Command("lockstep", args...)
			cmd.Dir = dir
			cmd.Env = append(os.Environ(), "AWS_ENDPOINT_URL="+address)
			out, err := cmd.CombinedOutput()
			if code, _ := exitCodeOf(err); code == 0 || strings.Contains(string(out), secret) {
				t.Errorf("%s: exit %d, %s, want an error and no password", strings.Join(args, " "), code, out)
			}
		}
	}
}

// TestNoSchemeShowsNoSecrets: an address without a scheme may hold a password, too. It is
// in no output, and in no file of the mirror.
func TestNoSchemeShowsNoSecrets(t *testing.T) {
	t.Parallel()
	const secret, source = "s3cretpw", "user:s3cretpw@127.0.0.1:1/"
	dir := t.TempDir()
	mirrors := "mirrors:\n- {name: a, source: \"" + source + "\", dest: there, retries: 0}\n"
	if err := os.WriteFile(dir+"/mirrors.yaml", []byte(mirrors), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		args []string
		code int
	}{
		{[]string{"sync", source, "mirror", "--retries", "0", "--metrics-file", "m.prom", "--on-failure", "cat >failure"}, 1},
		{[]string{"sync", source, "mirror", "--retries", "0", "--json"}, 1},
		{[]string{"status", "mirror", "--json"}, 1},
		{[]string{"audit", source, "mirror", "--retries", "0", "--json"}, 1},
		{[]string{"explore", source, "--retries", "0", "--json"}, 1},
		{[]string{"sync", "--config", "mirrors.yaml", "--json"}, 1},
		{[]string{"map", source}, 2},
		{[]string{"publish", "sitemap:" + source + "sitemap.xml", "--out", "out", "--base-url", "http://127.0.0.1/"}, 1},
	} {
		cmd := exec.Command("lockstep", tt.args...)
		cmd.Dir = dir
		out, err := cmd.CombinedOutput()
		if code, _ := exitCodeOf(err); code != tt.code || strings.Contains(string(out), secret) {
			t.Errorf("%s: exit %d, %s, want %d and no password", strings.Join(tt.args, " "), code, out, tt.code)
		}
	}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || d.Name() == "mirrors.yaml" {
			return err
		}
		text, err := os.ReadFile(path)
		if strings.Contains(path+string(text), secret) {
			t.Errorf("%s has the password", path)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}

	c, err := config.Parse([]byte("sets:\n- name: all\n  upstreams:\n  - from: resourcesync:http://a.example/\n  - from: \"resourcesync:http://" + source + "\"\n"))
	if err != nil {
		t.Fatal(err)
	}
	if got, want := c.Sets[0].Origin.Name(), "resourcesync:http://a.example/, http://127.0.0.1:1/"; got != want {
		t.Errorf("a set with two upstreams is named %s, want %s", got, want)
	}
}
