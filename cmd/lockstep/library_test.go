package main

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"lockstep/internal/statedir"
	"lockstep/mirror"
	"lockstep/publish"
)

// TestLibraryAndCommandsShareState publishes and mirrors with the packages publish
// and mirror and with the commands in turn: each continues what the other began,
// so their defaults are the same.
func TestLibraryAndCommandsShareState(t *testing.T) {
	t.Parallel()
	files, home, dest := t.TempDir(), t.TempDir(), filepath.Join(t.TempDir(), "mirror")
	if err := os.WriteFile(filepath.Join(files, "one.txt"), []byte("one"), 0o600); err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(http.FileServer(http.Dir(files)))
	t.Cleanup(server.Close)
	state, err := statedir.Default(files, true, func(name string) (string, bool) { return home, name == "XDG_STATE_HOME" })
	if err != nil {
		t.Fatal(err)
	}
	lockstep := func(args ...string) (result struct {
		Written bool
		Mode    string
		Created int
	}) {
		t.Helper()
		cmd := exec.Command("lockstep", append(args, "--json")...)
		cmd.Env = append(os.Environ(), "XDG_STATE_HOME="+home)
		out, err := cmd.Output()
		if err == nil {
			err = json.Unmarshal(out, &result)
		}
		if err != nil {
			t.Fatalf("lockstep %q: %v\n%s", args, err, out)
		}
		return result
	}

	if r, err := publish.Dir(t.Context(), files, publish.Options{BaseURL: server.URL, State: state}); err != nil || !r.Written {
		t.Fatalf("publish.Dir: %+v, %v", r, err)
	}
	if r := lockstep("publish", files, "--out", files, "--base-url", server.URL); r.Written {
		t.Errorf("publish after publish.Dir: %+v, want no change", r)
	}
	if r, err := publish.Dir(t.Context(), files, publish.Options{BaseURL: server.URL, State: state}); err != nil || r.Written {
		t.Errorf("publish.Dir after publish: %+v, %v, want no change", r, err)
	}
	if r, err := mirror.Sync(t.Context(), server.URL, dest, mirror.Options{}); err != nil || r.Created != 1 {
		t.Fatalf("mirror.Sync: %+v, %v", r, err)
	}
	if r := lockstep("sync", server.URL, dest); r.Created != 0 || r.Mode == "baseline" {
		t.Errorf("sync after mirror.Sync: %+v, want an incremental run without changes", r)
	}
	if r, err := mirror.Sync(t.Context(), server.URL, dest, mirror.Options{}); err != nil || r.Created != 0 || r.Mode == "baseline" {
		t.Errorf("mirror.Sync after sync: %+v, %v, want an incremental run without changes", r, err)
	}
}
