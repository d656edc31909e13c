package main

import (
	"flag"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"lockstep/storage/postgres/postgrestest"
)

var update = flag.Bool("update", false, "rewrite the golden parts of scripts from what the commands print")

func TestMain(m *testing.M) {
	testscript.Main(tests{m}, map[string]func(){"lockstep": main})
}

// tests are those of this package, and what is to be ended after them.
type tests struct{ m *testing.M }

// Run implements [testscript.TestingM]. Most tests here wait for processes that
// they started, so more tests run at a time than there are processors, unless
// -parallel says how many.
func (t tests) Run() int {
	flag.Parse()
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "test.parallel" })
	if !given {
		if err := flag.Set("test.parallel", strconv.Itoa(3*runtime.GOMAXPROCS(0))); err != nil {
			panic(err)
		}
	}
	state, err := os.MkdirTemp("", "lockstep-state-") // not the user's
	if err != nil {
		panic(err)
	}
	defer func() { _ = os.RemoveAll(state) }() // what is left is in the temporary directory
	if err := os.Setenv("XDG_STATE_HOME", state); err != nil {
		panic(err)
	}
	// Else each server of a test that ends closes connections that requests of others are about to use.
	http.DefaultTransport = struct{ http.RoundTripper }{http.DefaultTransport}
	return postgrestest.Main(t.m)
}

// TestScript runs the binary as a user does, by the scripts in testdata/script.
// Besides the commands of testscript they may use those of [world].
func TestScript(t *testing.T) {
	t.Parallel()
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		UpdateScripts:       *update,
		RequireExplicitExec: true,
		Setup: func(env *testscript.Env) error {
			env.Setenv("HOME", filepath.Join(env.WorkDir, "home"))
			env.Setenv("XDG_STATE_HOME", filepath.Join(env.WorkDir, "home", "state"))
			env.Values[worldKey{}] = &world{running: map[string]*process{}}
			env.Defer(func() { validDirs(t, env.WorkDir) })
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"source":      func(ts *testscript.TestScript, _ bool, args []string) { worldOf(ts).source(ts, args) },
			"address":     func(ts *testscript.TestScript, _ bool, args []string) { putAddress(t, ts, args) },
			"certificate": func(ts *testscript.TestScript, _ bool, args []string) { makeCertificate(t, ts, args) },
			"halt":        func(ts *testscript.TestScript, _ bool, args []string) { worldOf(ts).halt(ts, args) },
			"hangup":      func(ts *testscript.TestScript, _ bool, args []string) { worldOf(ts).hangup(ts, args) },
			"told":        func(ts *testscript.TestScript, _ bool, args []string) { worldOf(ts).told(ts, args) },
			"becomes":     func(ts *testscript.TestScript, _ bool, args []string) { worldOf(ts).becomes(ts, args) },
			"comes":       func(ts *testscript.TestScript, _ bool, args []string) { comes(ts, args) },
			"ended":       func(ts *testscript.TestScript, _ bool, args []string) { worldOf(ts).ended(ts, args) },
			"static":      func(ts *testscript.TestScript, _ bool, args []string) { worldOf(ts).static(ts, args) },
			"exit":        func(ts *testscript.TestScript, _ bool, args []string) { worldOf(ts).exit(ts, args) },
			"same":        func(ts *testscript.TestScript, _ bool, args []string) { worldOf(ts).same(ts, args) },
			"flip":        func(ts *testscript.TestScript, _ bool, args []string) { worldOf(ts).flip(ts, args) },
			"save":        func(ts *testscript.TestScript, _ bool, args []string) { worldOf(ts).save(ts, args) },
			"buckets":     func(ts *testscript.TestScript, _ bool, args []string) { worldOf(ts).buckets(ts, args) },
			"object":      func(ts *testscript.TestScript, _ bool, args []string) { worldOf(ts).object(ts, args) },
			"post":        func(ts *testscript.TestScript, _ bool, args []string) { worldOf(ts).post(ts, args) },
			"newer":       func(ts *testscript.TestScript, _ bool, args []string) { worldOf(ts).newer(ts, args) },
			"subscriber":  func(ts *testscript.TestScript, _ bool, args []string) { worldOf(ts).subscriber(ts, args) },
			"eventually":  func(ts *testscript.TestScript, _ bool, args []string) { worldOf(ts).eventually(ts, args) },
		},
	})
}
