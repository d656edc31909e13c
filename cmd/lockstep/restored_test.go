package main

import (
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestRestoredSource: a Source that is restored from a backup, which was made while it ran, does
// not have what applications wrote afterwards. A mirror that has it compares everything, and
// removes it, although no document says that it was deleted.
func TestRestoredSource(t *testing.T) {
	t.Parallel()
	room := t.TempDir()
	at := func(name string) string { return filepath.Join(room, name) }
	content := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = fmt.Fprint(w, r.URL.Path) }))
	t.Cleanup(content.Close)
	listen := freeAddress(t)
	serve := func() *process {
		t.Helper()
		p, err := startReady(exec.CommandContext(t.Context(), "lockstep", "serve", "api:", "--listen", listen, "--state", at("state")))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(p.kill)
		return p
	}
	run := func(args ...string) string {
		t.Helper()
		out, err := exec.CommandContext(t.Context(), "lockstep", args...).CombinedOutput()
		if err != nil {
			t.Fatalf("lockstep %s: %v\n%s", strings.Join(args, " "), err, out)
		}
		return string(out)
	}
	write := func(p *process, name string) {
		t.Helper()
		token, err := os.ReadFile(at("state/admin-token"))
		if err != nil {
			t.Fatal(err)
		}
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPut, p.address+"-/api/v1/sets/main/resources?uri="+content.URL+"/"+name, strings.NewReader("{}"))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(token)))
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode != http.StatusCreated {
			t.Fatalf("writing %s was answered by %s", name, resp.Status)
		}
		waitForListed(t, p.address, "main", content.URL+"/"+name)
	}
	mirrored := func() string {
		t.Helper()
		run("sync", "http://"+listen+"/", at("mirror"), "--allow-host", "*", "--max-delete", "100")
		var names []string
		err := filepath.WalkDir(at("mirror"), func(name string, d fs.DirEntry, err error) error {
			switch {
			case err != nil:
				return err
			case d.IsDir() && d.Name() == ".lockstep":
				return fs.SkipDir
			case !d.IsDir():
				names = append(names, d.Name())
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		return strings.Join(names, " ")
	}
	p := serve()
	write(p, "before")
	run("state", "backup", at("state"), at("backup.tar.gz"))
	write(p, "after")
	if got := mirrored(); got != "after before" {
		t.Fatalf("the mirror has %q", got)
	}
	p.kill()
	if err := os.Rename(at("state"), at("broken")); err != nil {
		t.Fatal(err)
	}
	run("state", "restore", at("backup.tar.gz"), at("state"))
	p = serve()
	write(p, "later")
	if got := mirrored(); got != "before later" {
		t.Errorf("the mirror has %q, want what the restored Source has", got)
	}
	if _, err := os.Stat(at("state/restored.json")); !os.IsNotExist(err) {
		t.Errorf("the mark of the restored state is still there: %v", err)
	}
	p.kill()
	p = serve()
	write(p, "last")
	if got := mirrored(); got != "before last later" {
		t.Errorf("after a restart the mirror has %q", got)
	}
}
