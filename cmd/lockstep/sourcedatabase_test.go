package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"lockstep/cmd/lockstep/internal/stateplace"
	"lockstep/storage/postgres/postgrestest"
)

// stateDir returns the directory of a state, or the local one of a state in a database.
func stateDir(t testing.TB, state string) string {
	t.Helper()
	place, err := stateplace.Parse(state, os.LookupEnv)
	if err != nil {
		t.Fatal(err)
	}
	return place.Dir
}

// A publisher publishes a directory with its state in one place.
type publisher struct {
	testing.TB
	args []string
	out  string
}

func newPublisher(t testing.TB, state string, args ...string) *publisher {
	out := filepath.Join(t.TempDir(), "out")
	return &publisher{t, append([]string{"publish", "--base-url", "http://x.org/", "--out", out, "--state", state}, args...), out}
}

// run publishes, and returns what it said.
func (p *publisher) run() string {
	p.Helper()
	out, err := exec.Command("lockstep", p.args...).CombinedOutput()
	if err != nil {
		p.Fatalf("%v\n%s", err, out)
	}
	return string(out)
}

var (
	datetime   = regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z`)
	packed     = regexp.MustCompile(`hash="sha-256:[0-9a-f]+" length="\d+" type="application/zip"`)
	generation = regexp.MustCompile(`\d{8}T\d{6}\.\d{7}Z`)
)

// documents returns the documents by their names, both without times.
func (p *publisher) documents() map[string]string {
	p.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(p.out, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || strings.HasSuffix(path, ".gz") || strings.HasSuffix(path, ".zip") || strings.Contains(path, "/.lockstep/") {
			return err
		}
		text, err := os.ReadFile(path)
		rel, _ := filepath.Rel(p.out, path)
		all[generation.ReplaceAllString(rel, "GENERATION")] = generation.ReplaceAllString(packed.ReplaceAllString(datetime.ReplaceAllString(string(text), "TIME"), "ZIP"), "GENERATION")
		return err
	})
	if err != nil {
		p.Fatal(err)
	}
	return all
}

// TestPublishFromDatabase: with its state in PostgreSQL publish writes the documents that it writes
// with a state in a directory, also if the local directory is lost between runs.
func TestPublishFromDatabase(t *testing.T) {
	t.Parallel()
	database := postgrestest.URL(t)
	local := stateDir(t, database)
	room := t.TempDir()
	at := func(name string) string { return filepath.Join(room, name) }
	write := func(name, text string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(at(name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(at(name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		old := time.Now().Add(-time.Hour).Truncate(time.Second) // a list that has just been written is read twice
		if err := os.Chtimes(at(name), old, old); err != nil {
			t.Fatal(err)
		}
	}
	write("site.yaml", "sets:\n  - {name: files, from: dir:files, uri: http://x.org/files/, resource_dump: {every: 1ms}, change_list: {entries: 10}}\n  - {name: items, from: jsonl:items.jsonl}\n")
	for i := range 40 {
		write(fmt.Sprintf("files/%d/%d.txt", i%3, i), fmt.Sprint(i))
	}
	write("files/.secret", "hidden")
	write("items.jsonl", `{"uri":"http://a.org/1"}`+"\n"+`{"uri":"http://a.org/2"}`+"\n")
	inDatabase, inDirectory := newPublisher(t, database, "--config", at("site.yaml")), newPublisher(t, at("state"), "--config", at("site.yaml"))
	for round := range 5 {
		for _, p := range []*publisher{inDatabase, inDirectory} {
			if said := p.run(); !strings.Contains(said, "published") {
				t.Errorf("round %d of %v: %s", round, p.args, said)
			}
		}
		want, got := inDirectory.documents(), inDatabase.documents()
		for name, text := range want {
			if got[name] != text {
				t.Errorf("round %d: %s is\n%s\nwant\n%s", round, name, got[name], text)
			}
		}
		for name := range got {
			if _, ok := want[name]; !ok {
				t.Errorf("round %d: %s is only published from the database", round, name)
			}
		}
		checkNothingDangles(t, inDatabase.out, "http://x.org/")
		if t.Failed() {
			return
		}
		if round%2 == 0 {
			if err := os.RemoveAll(local); err != nil {
				t.Fatal(err)
			}
		}
		for i := range 7 {
			write(fmt.Sprintf("files/%d/%d.txt", i%3, i+round), fmt.Sprint("round ", round, i))
		}
		if err := os.Remove(at(fmt.Sprintf("files/%d/%d.txt", (20+round)%3, 20+round))); err != nil {
			t.Fatal(err)
		}
		write("items.jsonl", fmt.Sprintf("{\"uri\":\"http://a.org/1\",\"length\":%d}\n{\"uri\":\"http://a.org/%d\"}\n", round, round+3))
	}
	inDatabase.run()
	if said := inDatabase.run(); !strings.Contains(said, "nothing changed") {
		t.Errorf("a run without changes says: %s", said)
	}
	validated(t, "lockstep", inDatabase.out)
}

// TestStaleLocalDirectory: what the local directory of an earlier process says is not believed.
func TestStaleLocalDirectory(t *testing.T) {
	t.Parallel()
	database := postgrestest.URL(t)
	local := stateDir(t, database)
	items := filepath.Join(t.TempDir(), "items.jsonl")
	old := time.Now().Add(-time.Hour).Truncate(time.Second)
	p := newPublisher(t, database, "jsonl:"+items)
	publish := func(lines string) string {
		t.Helper()
		if err := os.WriteFile(items, []byte(lines), 0o644); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(items, old, old); err != nil {
			t.Fatal(err)
		}
		p.args[1] = "jsonl:" + items
		p.run()
		list, err := os.ReadFile(filepath.Join(p.out, "resourcesync", "main", "resourcelist.xml"))
		if err != nil {
			t.Fatal(err)
		}
		return string(list)
	}
	p.args = append([]string{"publish", ""}, p.args[1:len(p.args)-1]...)
	const one, two = `{"uri":"http://a.org/1"}` + "\n", `{"uri":"http://a.org/2"}` + "\n"
	publish(one + two)
	if err := os.Rename(local, local+".first"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(local + ".first") })
	if list := publish(one); strings.Contains(list, "http://a.org/2<") {
		t.Fatalf("on another machine:\n%s", list)
	}
	if err := os.RemoveAll(local); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(local+".first", local); err != nil {
		t.Fatal(err)
	}
	if list := publish(one + two); !strings.Contains(list, "http://a.org/2<") {
		t.Errorf("on the first machine again:\n%s", list)
	}
}

// TestServeLosesLocalDirectory: a Source with its state in PostgreSQL loses nothing when its local
// directory is lost: what applications wrote is published, no document gets other content, and a
// mirror is in step afterwards.
func TestServeLosesLocalDirectory(t *testing.T) {
	t.Parallel()
	database := postgrestest.URL(t)
	local := stateDir(t, database)
	room := t.TempDir()
	at := func(name string) string { return filepath.Join(room, name) }
	listen := freeAddress(t)
	write := func(name, text string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(at(name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(at(name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 20 {
		write(fmt.Sprintf("files/%d.txt", i), fmt.Sprint(i))
	}
	write("token", "secret\n")
	write("site.yaml", fmt.Sprintf("state: %q\nlisten: %s\napi_token_file: token\nsets:\n  - {name: files, from: dir:files, uri: http://%s/files/, change_list: {entries: 4}}\n  - {name: items, from: api}\n", database, listen, listen))
	serve := func() *process {
		t.Helper()
		p, err := startReady(exec.CommandContext(t.Context(), "lockstep", "serve", "--config", at("site.yaml")))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(p.kill)
		return p
	}
	put := func(p *process, key, uri, body string) string {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPut, p.address+"-/api/v1/sets/items/resources?uri="+url.QueryEscape(uri), strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Authorization", "Bearer secret")
		req.Header.Set("Idempotency-Key", key)
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		return resp.Status + " " + resp.Header.Get("Idempotency-Replayed")
	}
	// Parts, by their names: what is at such an address never changes.
	parts := map[string]string{}
	look := func() {
		t.Helper()
		dir := filepath.Join(local, "documents")
		err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !generation.MatchString(d.Name()) || strings.Contains(path, "/.lockstep/") {
				return err
			}
			text, err := os.ReadFile(path)
			rel, _ := filepath.Rel(dir, path)
			switch was, ok := parts[rel]; {
			case !ok || !strings.Contains(was, "until="): // the open part of a Change List grows
				parts[rel] = string(text)
			case was != string(text):
				t.Errorf("%s was\n%s\nand is\n%s", rel, was, text)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	var ats []string
	for round := range 4 {
		p := serve()
		uri := fmt.Sprintf("http://elsewhere.example/%d", round)
		if got := put(p, "key", "http://elsewhere.example/once", `{"length":1}`); got != "201 Created " && round == 0 || round > 0 && !strings.HasSuffix(got, " true") {
			t.Errorf("round %d: a request with the same key is answered with %q", round, got)
		}
		if got := put(p, "key "+uri, uri, "{}"); got != "201 Created " {
			t.Errorf("round %d: a new resource is answered with %q", round, got)
		}
		for i := range 7 {
			name := fmt.Sprintf("files/%d.txt", i+round)
			write(name, fmt.Sprint("round ", round, i))
		}
		write(fmt.Sprintf("files/new-%d.txt", round), "new")
		waitForListed(t, p.address, "items", uri)
		waitForListed(t, p.address, "files", fmt.Sprintf("new-%d.txt", round))
		for earlier := range round {
			waitForListed(t, p.address, "items", fmt.Sprintf("http://elsewhere.example/%d<", earlier))
		}
		out, err := exec.CommandContext(t.Context(), "lockstep", "sync", p.address, at("mirror"), "--set", "files").CombinedOutput()
		if err != nil {
			t.Fatalf("round %d: sync: %v\n%s", round, err, out)
		}
		out, err = exec.CommandContext(t.Context(), "lockstep", "status", "--state", database).CombinedOutput()
		if err != nil || !bytes.Contains(out, []byte("items")) {
			t.Errorf("round %d: status: %v\n%s", round, err, out)
		}
		look()
		list, err := get(p.address + "resourcesync/items/resourcelist.xml")
		if err != nil {
			t.Fatal(err)
		}
		ats = append(ats, regexp.MustCompile(`at="([^"]*)"`).FindStringSubmatch(list)[1])
		if round > 0 && ats[round] <= ats[round-1] {
			t.Errorf("the lists are of %v", ats)
		}
		if round == 2 {
			if code, err := p.end(syscall.SIGTERM); err != nil || code != exitOK {
				t.Fatalf("ended with %d, %v\n%s", code, err, p.stderr)
			}
			continue // with the same local directory
		}
		if _, err := p.end(syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		look()
		if err := os.RemoveAll(local); err != nil {
			t.Fatal(err)
		}
	}
}

// TestDatabaseIsRestored: the history of a Source restarts whose database was restored from a backup.
func TestDatabaseIsRestored(t *testing.T) {
	t.Parallel()
	database, other := postgrestest.URL(t), postgrestest.URL(t)
	room := t.TempDir()
	at := func(name string) string { return filepath.Join(room, name) }
	if err := os.WriteFile(at("items.jsonl"), []byte(`{"uri":"http://a.org/1"}`+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	run := func(args ...string) string {
		t.Helper()
		out, err := exec.CommandContext(t.Context(), "lockstep", args...).CombinedOutput()
		if err != nil {
			t.Fatalf("lockstep %s: %v\n%s", strings.Join(args, " "), err, out)
		}
		return string(out)
	}
	publish := func(state string) string {
		t.Helper()
		return run("publish", "jsonl:"+at("items.jsonl"), "--out", at("out"), "--base-url", "http://x.org/", "--state", state)
	}
	publish(database)
	for _, args := range [][]string{{"info", database}, {"check", database}, {"backup", database, at("backup.tar.gz")}, {"restore", at("backup.tar.gz"), other}} {
		run(append([]string{"state"}, args...)...)
	}
	if said := publish(other); !strings.Contains(said, "the history of changes restarts") {
		t.Errorf("after the restoration: %s", said)
	}
	if said := publish(other); strings.Contains(said, "restarts") {
		t.Errorf("the second time: %s", said)
	}
}

// TestPasswordOfDatabase: the password in the URL of a database is not in what is printed, nor in the
// name of the local directory.
func TestPasswordOfDatabase(t *testing.T) {
	t.Parallel()
	const password = "tell-nobody"
	u, err := url.Parse(postgrestest.URL(t))
	if err != nil {
		t.Fatal(err)
	}
	user := u.Query().Get("user")
	if u.User != nil {
		user = u.User.Username()
	}
	u.User = url.UserPassword(user, password)
	local := stateDir(t, u.String())
	if strings.Contains(local, password) {
		t.Errorf("the local directory is %s", local)
	}
	files := t.TempDir()
	p, err := startReady(exec.CommandContext(t.Context(), "lockstep", "serve", files, "--listen", "127.0.0.1:0", "--state", u.String(), "--verbose"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.kill)
	said := p.out.String() + p.stderr.String()
	if code, err := p.end(syscall.SIGTERM); err != nil || code != exitOK {
		t.Fatalf("ended with %d, %v", code, err)
	}
	cmd := exec.CommandContext(t.Context(), "lockstep", "serve", files, "--listen", "127.0.0.1:0", "--state", u.String(), "--json")
	var out syncBuffer
	cmd.Stdout = &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "the line of serve --json", func() bool { return strings.Contains(out.String(), "\n") })
	_ = cmd.Process.Kill()
	_ = cmd.Wait() // it was killed
	var line struct{ State string }
	if err := json.Unmarshal([]byte(out.String()), &line); err != nil || !strings.HasPrefix(line.State, "postgres://") {
		t.Errorf("serve --json prints %s, %v", out.String(), err)
	}
	u.Path = "/no-such-database"
	_, stdout, stderr := lockstepRun(t, "serve", files, "--listen", "127.0.0.1:0", "--state", u.String())
	if !strings.Contains(stderr, "no-such-database") {
		t.Errorf("a database that does not exist: %s", stderr)
	}
	for _, text := range []string{said, out.String(), stdout, stderr} {
		if strings.Contains(text, password) {
			t.Errorf("printed with the password:\n%s", text)
		}
	}
}
