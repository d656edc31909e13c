package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"lockstep/storage/postgres/postgrestest"
)

// TestContentsElsewhere: with its state in PostgreSQL, and contents at a place that lasts, a Source keeps
// versions, patches and Change Dumps whatever becomes of the machine it runs on.
func TestContentsElsewhere(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"bucket", "directory"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			contentsElsewhere(t, kind)
		})
	}
}

func contentsElsewhere(t *testing.T, kind string) {
	database := postgrestest.URL(t)
	local := stateDir(t, database)
	endpoint, stop, err := startBuckets()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	room := t.TempDir()
	at := func(name string) string { return filepath.Join(room, name) }
	contents := "s3://kept/source/"
	if kind == "directory" {
		contents = "kept" // beside the configuration
	}
	listen := freeAddress(t)
	run := func(config, state, contents string) *exec.Cmd {
		cmd := exec.CommandContext(t.Context(), "lockstep", "serve", "--config", at(config), "--state", state)
		if contents != "" {
			cmd.Args = append(cmd.Args, "--contents", contents)
		}
		for name, value := range bucketEnv(endpoint) {
			cmd.Env = append(cmd.Environ(), name+"="+value)
		}
		return cmd
	}
	text := func(version int) string { // of several chunks, so that versions share some
		var b strings.Builder
		for i := range 20_000 {
			if i == 7000 {
				i = -version
			}
			fmt.Fprintf(&b, "line %d\n", i)
		}
		return b.String()
	}
	write := func(name, text string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(at(name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(at(name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for name, documents := range map[string]string{"site.yaml": "source", "other.yaml": "other"} {
		write(name, fmt.Sprintf("listen: %s\ndocuments: s3://documents/%s\ncontents: %s\nsets:\n  - {from: dir:files, versions: keep, patches: true, change_dump: {every: 1ms}}\n", listen, documents, contents))
	}
	changeList := func(p *process, changes int) (list string) {
		t.Helper()
		waitFor(t, fmt.Sprint(changes, " changes"), func() bool {
			list, err = get(p.address + "resourcesync/main/changelist.xml")
			return err == nil && strings.Count(list, `change="updated"`) == changes
		})
		return list
	}
	const versions = 3
	write("files/a.txt", text(0))
	for version := range versions {
		p, err := startReady(run("site.yaml", database, ""))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(p.kill)
		if version > 0 {
			write("files/a.txt", text(version))
		}
		list := changeList(p, version)
		if n := strings.Count(list, `rel="http://www.openarchives.org/rs/terms/patch"`); n != version {
			t.Fatalf("%d changes have %d patches:\n%s", version, n, list)
		}
		var timeMap string
		waitFor(t, "the version", func() bool {
			timeMap, err = get(p.address + "timemap/" + p.address + "a.txt")
			return err == nil && strings.Count(timeMap, "memento\"; datetime") == version+1
		})
		for i, m := range regexp.MustCompile(`<([^>]*)>; rel="[^"]*memento"`).FindAllStringSubmatch(timeMap, -1) {
			if got, err := get(m[1]); err != nil || got != text(i) {
				t.Errorf("version %d: %d bytes, %v", i, len(got), err)
			}
		}
		if version > 0 {
			waitFor(t, "the Change Dump", func() bool {
				dump, err := get(p.address + "resourcesync/main/changedump.xml")
				return err == nil && strings.Contains(dump, "<loc>")
			})
		}
		if out, err := exec.CommandContext(t.Context(), "lockstep", "validate", p.address).CombinedOutput(); err != nil {
			t.Errorf("validate: %v\n%s", err, out)
		}
		if _, err := p.end(syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		if err := os.RemoveAll(local); err != nil {
			t.Fatal(err)
		}
	}
	for _, refused := range []struct {
		config, state, contents, want string
		code                          int
	}{
		{"other.yaml", postgrestest.URL(t), "", "has the contents of another state", exitRefused},
		{"site.yaml", database, at("empty"), "what this Source has kept for versions, patches and Change Dumps is in ", exitRefused},
		{"site.yaml", database, at("files/kept"), "would lie inside", exitUsage},
		{"site.yaml", database, "s3://documents/source/kept", "would lie inside", exitUsage},
		{"site.yaml", database, "http://127.0.0.1/", "want a directory or s3://BUCKET/PREFIX", exitUsage},
	} {
		out, err := run(refused.config, refused.state, refused.contents).CombinedOutput()
		if code, _ := exitCodeOf(err); code != refused.code || !strings.Contains(string(out), refused.want) {
			t.Errorf("%s %s: exit code %d\n%s\nwant %d and %q", refused.state, refused.contents, code, out, refused.code, refused.want)
		}
	}
}
