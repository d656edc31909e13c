package main

import (
	"context"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
)

// TestDocs runs what README and guides tell people to type: every command in
// a block marked sh, in order, in an empty directory. "lockstep serve" and
// "lockstep simulate" go to the background until the next one, unless they are
// to fail; a comment "# exit 3" is the exit code that is promised.
func TestDocs(t *testing.T) {
	t.Parallel()
	root := filepath.Join("..", "..")
	docs, err := filepath.Glob(filepath.Join(root, "docs", "guide", "*.md"))
	if err != nil || len(docs) == 0 {
		t.Fatalf("no guides: %v", err)
	}
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
	serves       = regexp.MustCompile(`^lockstep (serve|simulate)\b`)
	wantExit     = regexp.MustCompile(`# exit (\d+)$`)
)

// docsPort is the port the documents speak of; the tests take free ones.
const docsAddress = "127.0.0.1:8080"

// runGuide runs commands in an empty directory.
func runGuide(t *testing.T, commands []string) {
	dir, bin := t.TempDir(), t.TempDir()
	program, err := exec.LookPath("lockstep") // the test binary under this name, by testscript
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(program, filepath.Join(bin, "lockstep")); err != nil {
		t.Fatal(err)
	}
	address := freeAddress(t)
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
	var server *process
	for _, text := range commands {
		code := 0
		if m := wantExit.FindStringSubmatch(text); m != nil {
			code, _ = strconv.Atoi(m[1]) // \d+
		}
		command, ok := translate(text, address)
		if !ok {
			continue
		}
		cmd := exec.CommandContext(t.Context(), "bash", "-c", command)
		cmd.Dir, cmd.Env = dir, env
		if serves.MatchString(command) && !wantExit.MatchString(command) {
			if server != nil {
				if got, err := server.end(os.Interrupt); got != exitInterrupted {
					t.Fatalf("serve ended with %d, %v, want %d", got, err, exitInterrupted)
				}
			}
			cmd.Args[2] = "exec " + command + listenFlag(command, address)
			if server, err = startReady(cmd); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(server.kill)
			continue
		}
		out, err := cmd.CombinedOutput()
		if got, err := exitCodeOf(err); err != nil || got != code {
			t.Fatalf("%s\nexit code %d, want %d; %v\n%s", text, got, code, err, out)
		}
	}
	validDirs(t, dir)
}

// listenFlag makes serve listen where the translated commands will look.
func listenFlag(command, address string) string {
	if strings.Contains(command, "--config") {
		return "" // the file says it
	}
	return " --listen " + address
}

// translate turns a documented command into one to run in the test, if it is
// to be run at all: the tests do not run themselves, and the binary that is
// built is the one that runs.
func translate(command, address string) (string, bool) {
	switch {
	case strings.HasPrefix(command, "go test"), strings.HasPrefix(command, "go build"):
		return "", false
	}
	command = strings.ReplaceAll(command, docsAddress, address)
	command = strings.ReplaceAll(command, "go run ./cmd/lockstep", "lockstep")
	command = strings.ReplaceAll(command, "./lockstep", "lockstep")
	return command, true
}

// freeAddress returns an address nobody listens on now.
func freeAddress(t *testing.T) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	return l.Addr().String()
}
