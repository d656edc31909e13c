package destination_test

import (
	"errors"
	"flag"
	"os"
	"testing"

	"go.uber.org/goleak"

	"lockstep/storage/postgres/postgrestest"
)

// faultStep is how many writes apart the faults of tests are that let each write
// of a run fail in turn.
var faultStep = flag.Int("fault.step", 3, "let every n-th write fail, from a random one on; 1 for each")

// TestMain puts temporary files in memory where there is room for them: the tests
// sync thousands of small files, none of which has to outlive a power cut. Those
// that set TMPDIR choose the place themselves.
func TestMain(m *testing.M) {
	if err := flag.Set("rapid.checks", "40"); err != nil { // the default: a flag of the command line comes later
		panic(err)
	}
	tests, dir := tests{m}, memoryDir()
	if os.Getenv("TMPDIR") != "" || dir == "" {
		goleak.VerifyTestMain(tests)
		return
	}
	dir, err := os.MkdirTemp(dir, "lockstep-destination-")
	if err != nil {
		goleak.VerifyTestMain(tests)
		return
	}
	if err := errors.Join(os.Chmod(dir, 0o711), os.Setenv("TMPDIR", dir)); err != nil { // PostgreSQL has a user of its own
		panic(err)
	}
	goleak.VerifyTestMain(tests, goleak.Cleanup(func(code int) {
		_ = os.RemoveAll(dir) // only litter
		os.Exit(code)
	}))
}

// tests runs the tests, and then ends the PostgreSQL that they have started.
type tests struct{ *testing.M }

func (t tests) Run() int { return postgrestest.Main(t.M) }
