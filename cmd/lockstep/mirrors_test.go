package main

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// sitemapServer serves a plain Sitemap with one resource.
func sitemapServer(t *testing.T) string {
	t.Helper()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/sitemap.xml" {
			_, _ = fmt.Fprintf(w, `<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"><url><loc>http://%s/a.txt</loc></url></urlset>`, r.Host)
			return
		}
		_, _ = w.Write([]byte("a"))
	}))
	t.Cleanup(srv.Close)
	return srv.URL + "/sitemap.xml"
}

// silentServer accepts connections and answers nothing.
func silentServer(t *testing.T) string {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			t.Cleanup(func() { _ = c.Close() })
		}
	}()
	return "http://" + l.Addr().String() + "/sitemap.xml"
}

// start runs the program in dir until the end of the test.
func start(t *testing.T, dir string, args ...string) (cmd *exec.Cmd, out *syncBuffer) {
	t.Helper()
	program, err := exec.LookPath("lockstep")
	if err != nil {
		t.Fatal(err)
	}
	cmd, out = exec.CommandContext(t.Context(), program, args...), &syncBuffer{}
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, out, out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return cmd, out
}

// await waits until out has text.
func await(t *testing.T, out *syncBuffer, text string) {
	t.Helper()
	for deadline := time.Now().Add(readyLimit); !strings.Contains(out.String(), text); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("never wrote %q:\n%s", text, out)
		}
	}
}

// TestMirrorsKeepSecrets: credentials in the address of a Source, or beside it, are in nothing
// that sync and follow write.
func TestMirrorsKeepSecrets(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	source := strings.Replace(sitemapServer(t), "http://", "http://user:secret1@", 1)
	config := fmt.Sprintf("mirrors:\n- {source: '%s', dest: one, header: 'X-Key: secret2'}\n- {source: 'http://u:secret3@127.0.0.1:1/', dest: two, retries: 0}\n", source)
	if err := os.WriteFile(filepath.Join(dir, "m.yaml"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{"follow", "--config", "m.yaml", "--json"}, {"follow", "--config", "m.yaml"}, {"follow", source, "one", "--json"},
		{"sync", "--config", "m.yaml", "--json"}, {"sync", "--config", "m.yaml"}, {"audit", "--config", "m.yaml", "--json"},
	} {
		cmd, out := start(t, dir, append(args, "--log-level", "debug")...)
		if args[0] == "follow" {
			await(t, out, "ready: ")
			if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
				t.Fatal(err)
			}
		}
		_ = cmd.Wait() // some of them fail
		if text := out.String(); strings.Contains(text, "secret") || !strings.Contains(text, "/sitemap.xml") {
			t.Errorf("%s wrote\n%s", strings.Join(args, " "), text)
		}
	}
}

// TestMirrorsDoNotWait: servers that do not answer keep no other mirror from its turn,
// even if there is one turn at a time. The signal ends them all.
func TestMirrorsDoNotWait(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	config := "timeout: 10m\nmirrors:\n"
	for i := range 3 {
		config += fmt.Sprintf("  - {source: '%s', dest: silent%d}\n", silentServer(t), i)
	}
	config += fmt.Sprintf("  - {source: '%s', dest: quick}\n", sitemapServer(t))
	if err := os.WriteFile(filepath.Join(dir, "m.yaml"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd, out := start(t, dir, "sync", "-q", "--config", "m.yaml", "--parallel", "1")
	for deadline := time.Now().Add(readyLimit); ; time.Sleep(10 * time.Millisecond) {
		if _, err := os.Stat(filepath.Join(dir, "quick", "a.txt")); err == nil {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("the mirror that is quick was not written:\n%s", out)
		}
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if code, err := exitCodeOf(cmd.Wait()); err != nil || code != exitInterrupted {
		t.Errorf("exit code %d, %v, want %d\n%s", code, err, exitInterrupted, out)
	}
	if text := out.String(); !strings.HasSuffix(text, "interrupted\nhint: progress is saved; run the same command again to continue\n") || strings.Contains(text, "silent") {
		t.Errorf("it wrote\n%s", text)
	}
}
