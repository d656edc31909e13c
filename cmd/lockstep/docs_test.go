package main

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"lockstep/internal/freeport"
)

// TestDocs runs what README and guides tell people to type: every command in
// a block marked sh, in order, in an empty directory. What stays (serve,
// simulate, hub, follow) goes to the background until the next of its kind, or
// the end, unless it is to fail; a comment "# exit 3" is the exit code that is
// promised.
func TestDocs(t *testing.T) {
	t.Parallel()
	root := filepath.Join("..", "..")
	docs, err := filepath.Glob(filepath.Join(root, "docs", "guide", "*.md"))
	if err != nil || len(docs) == 0 {
		t.Fatalf("no guides: %v", err)
	}
	ownMachine := filepath.Join(root, "docs", "guide", "walkthrough.md") // tools/distcheck runs it
	docs = slices.DeleteFunc(docs, func(path string) bool { return path == ownMachine })
	for _, path := range append(docs, filepath.Join(root, "README.md")) {
		t.Run(filepath.Base(path), func(t *testing.T) {
			t.Parallel()
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			commands := shellCommands(string(text))
			if len(commands) == 0 {
				t.Fatal("no block is marked sh")
			}
			runGuide(t, commands)
		})
	}
}

// shellCommands returns the commands of the blocks marked sh. What spans lines
// (here documents) is one command.
func shellCommands(text string) []string {
	var commands []string
	inside, end := false, ""
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		switch {
		case end != "": // of a here document
			commands[len(commands)-1] += "\n" + line
			if line == end {
				end = ""
			}
		case !inside:
			inside = line == "```sh"
		case line == "```":
			inside = false
		case line != "":
			commands = append(commands, line)
			if m := hereDocument.FindStringSubmatch(line); m != nil {
				end = m[1]
			}
		}
	}
	return commands
}

var (
	hereDocument = regexp.MustCompile(`<<'(\w+)'`)
	stays        = regexp.MustCompile(`^lockstep (serve|simulate|hub|follow)\b`)
	docsAddress  = regexp.MustCompile(`127\.0\.0\.1:80\d\d`) // the tests take free ones
	wantExit     = regexp.MustCompile(`# exit (\d+)$`)
)

// docsListen is where serve, simulate and hub listen unless they are told.
const docsListen = "127.0.0.1:8080"

// runGuide runs commands in an empty directory.
func runGuide(t *testing.T, commands []string) {
	for _, tool := range []string{"curl", "openssl", "python3", "unzip"} {
		word := regexp.MustCompile(`\b` + tool + `\b`)
		if _, err := exec.LookPath(tool); err != nil && slices.ContainsFunc(commands, word.MatchString) {
			t.Skipf("%s is not installed; CI runs this guide", tool)
		}
	}
	dir, bin := t.TempDir(), t.TempDir()
	program, err := exec.LookPath("lockstep") // the test binary under this name, by testscript
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(program, filepath.Join(bin, "lockstep")); err != nil {
		t.Fatal(err)
	}
	addresses := docsAddresses{t: t, free: map[string]string{}}
	env := append(os.Environ(), "HOME="+filepath.Join(dir, "home"), "XDG_STATE_HOME="+filepath.Join(dir, "state-home"),
		"PATH="+bin+string(os.PathListSeparator)+os.Getenv("PATH"))
	endpoint, stop, err := startBuckets()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	for name, value := range bucketEnv(endpoint) {
		env = append(env, name+"="+value)
	}
	staying := map[string]*process{}
	for _, text := range commands {
		code := 0
		if m := wantExit.FindStringSubmatch(text); m != nil {
			code, _ = strconv.Atoi(m[1]) // \d+
		}
		command, ok := addresses.translate(text)
		if !ok {
			continue
		}
		cmd := exec.CommandContext(t.Context(), "bash", "-c", command)
		cmd.Dir, cmd.Env = dir, env
		if m := stays.FindStringSubmatch(command); m != nil && !wantExit.MatchString(command) {
			kind := strings.Replace(m[1], "simulate", "serve", 1)
			if background, ok := strings.CutSuffix(command, " &"); ok { // it stays beside what follows
				command, kind = background, command
			}
			endStaying(t, kind, staying[kind])
			cmd.Args[2] = "exec " + command + addresses.listenFlag(command)
			p, err := startReady(cmd)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(p.kill)
			staying[kind] = p
			continue
		}
		out, err := cmd.CombinedOutput()
		if got, err := exitCodeOf(err); err != nil || got != code {
			t.Fatalf("%s\nexit code %d, want %d; %v\n%s", text, got, code, err, out)
		}
	}
	validDirs(t, dir)
}

// endStaying ends what stays in the background, if anything.
func endStaying(t *testing.T, kind string, p *process) {
	t.Helper()
	if p == nil {
		return
	}
	if got, err := p.end(os.Interrupt); got != exitInterrupted {
		t.Fatalf("%s ended with %d, %v, want %d", kind, got, err, exitInterrupted)
	}
}

// docsAddresses are the addresses of one guide: for each it speaks of, one that
// is free.
type docsAddresses struct {
	t    *testing.T
	free map[string]string
}

func (d docsAddresses) of(documented string) string {
	if d.free[documented] == "" {
		d.free[documented] = freeAddress(d.t)
	}
	return d.free[documented]
}

// listenFlag makes serve and hub listen where the translated commands will
// look.
func (d docsAddresses) listenFlag(command string) string {
	if strings.Contains(command, "--config") || strings.Contains(command, "--listen") {
		return "" // said already
	}
	if stays.FindStringSubmatch(command)[1] == "follow" {
		return ""
	}
	return " --listen " + d.of(docsListen)
}

// translate turns a documented command into one to run in the test, if it is
// to be run at all: the tests do not run themselves, and the binary that is
// built is the one that runs.
func (d docsAddresses) translate(command string) (string, bool) {
	switch {
	case strings.HasPrefix(command, "go test"), strings.HasPrefix(command, "go build"):
		return "", false
	}
	command = docsAddress.ReplaceAllStringFunc(command, d.of)
	command = strings.ReplaceAll(command, "go run ./cmd/lockstep", "lockstep")
	command = strings.ReplaceAll(command, "./lockstep", "lockstep")
	return command, true
}

// freeAddress returns an address nobody listens on now.
func freeAddress(t testing.TB) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	address, err := freeport.Address(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return address
}
