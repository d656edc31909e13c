package blob

import (
	"context"
	"flag"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"
)

var cutSteps = flag.Int("cut.steps", 12, "steps of each life in TestPowerCuts")

// absentFile is the file of a name that has none; others are numbered from 1.
const absentFile = 0

// A cutDisk follows the operations of a Dir, and knows which files each name may
// have after a power cut: a name is durable when its directory was synced, the bytes
// of a file when it was. Names that are not durable may be on disk or not, each by
// itself.
type cutDisk struct {
	t     *testing.T
	check func()

	mu      sync.Mutex // guards what follows
	files   int
	synced  map[int]bool
	now     map[string]int   // file of each name; directories are files whose bytes are synced
	durable map[string]int   // as of the last sync of the directory
	pending map[string][]int // files the name had since then
}

func newCutDisk(t *testing.T, d *Dir) *cutDisk {
	c := &cutDisk{t: t, synced: map[int]bool{}, now: map[string]int{}, durable: map[string]int{}, pending: map[string][]int{}}
	c.check = func() {}
	d.trace, d.sync.trace = c.did, c.did
	return c
}

func (c *cutDisk) did(op traceOp, names ...string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch op {
	case traceCreate, traceMkdir:
		c.files++
		c.synced[c.files] = op == traceMkdir
		c.set(names[0], c.files)
	case traceWrite:
		c.synced[c.now[names[0]]] = false
	case traceRename:
		c.set(names[1], c.now[names[0]])
		c.set(names[0], absentFile)
	case traceRemove:
		c.set(names[0], absentFile)
	case traceSync:
		c.synced[c.now[names[0]]] = true
	case traceSyncDir:
		for name := range c.now {
			if dir, _ := split(name); dir == names[0] {
				c.settle(name)
			}
		}
	case traceSyncAll:
		for name, file := range c.now {
			c.settle(name)
			c.synced[file] = true
		}
	}
	for name := range c.now {
		if strings.HasPrefix(name, defaultTmp) {
			continue
		}
		for file := range c.possible(name) {
			if file != absentFile && !c.synced[file] {
				c.t.Errorf("after operation %d on %q, a power cut may leave %q without its bytes", op, names, name)
			}
		}
	}
	c.check()
}

func (c *cutDisk) set(name string, file int) {
	c.now[name] = file
	c.pending[name] = append(c.pending[name], file)
}

func (c *cutDisk) settle(name string) {
	c.durable[name] = c.now[name]
	delete(c.pending, name)
}

// possible returns the files that a name may have after a power cut.
func (c *cutDisk) possible(name string) map[int]bool {
	files := map[int]bool{c.durable[name]: true}
	for _, file := range c.pending[name] {
		files[file] = true
	}
	for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
		if c.durable[dir] == absentFile || slices.Contains(c.pending[dir], absentFile) {
			files[absentFile] = true
		}
	}
	return files
}

// want reports an error if a power cut may leave another file than file at name.
func (c *cutDisk) want(what, name string, file int) {
	c.t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	if got := c.possible(name); !maps.Equal(got, map[int]bool{file: true}) {
		c.t.Errorf("after %s, a power cut may leave %q with files %v, want %d", what, name, got, file)
	}
}

func (c *cutDisk) file(name string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now[name]
}

// TestPowerCuts commits, replaces, moves and removes blobs, and considers after each
// operation on the disk what a power cut may leave: what was reported as done is
// there, what is replaced or moved is never missing, and no name is without its bytes.
func TestPowerCuts(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	for seed := range uint64(4) {
		random := rand.New(rand.NewPCG(seed, 1))
		d, err := NewDir(t.TempDir(), DirOptions{KeepEmpty: seed%2 == 0})
		if err != nil {
			t.Fatal(err)
		}
		defer d.Close()
		c := newCutDisk(t, d)
		live := map[string]int{}
		name := func() string { return fmt.Sprintf("d%d/e%d/f%d", random.IntN(3), random.IntN(3), random.IntN(9)) }
		for range *cutSteps {
			switch random.IntN(5) {
			case 0:
				gone := name()
				if err := d.Remove(ctx, gone); err != nil {
					t.Fatal(err)
				}
				c.want("Remove", gone, absentFile)
				delete(live, gone)
			case 1:
				from, to := name(), name()
				file, there := live[from]
				if _, taken := live[to]; !there || taken || path.Dir(from) == path.Dir(to) {
					continue
				}
				c.check = func() {
					if c.durable[from] == absentFile && c.possible(to)[absentFile] { // until then the rename happens as a whole, or not
						t.Errorf("while %q is moved to %q, a power cut may lose it", from, to)
					}
				}
				err := d.Move(ctx, from, to)
				if c.check = func() {}; err != nil {
					t.Fatal(err)
				}
				c.want("Move", to, file)
				c.want("Move", from, absentFile)
				delete(live, from)
				live[to] = file
			default:
				batch := map[string]Writer{}
				for range 1 + random.IntN(2*syncEach) {
					batch[name()] = nil
				}
				old := maps.Clone(live)
				c.check = func() {
					for name := range batch {
						if old[name] != absentFile && c.possible(name)[absentFile] {
							t.Errorf("while %q is replaced, a power cut may lose it", name)
						}
					}
				}
				for name := range batch {
					w, err := d.Create(ctx, name)
					if err == nil {
						_, err = io.WriteString(w, "content")
					}
					if err == nil && random.IntN(2) == 0 {
						_, err = w.(Sealer).Seal()
					}
					if err != nil {
						t.Fatal(err)
					}
					batch[name] = w
				}
				err := d.Commit(ctx, slices.Collect(maps.Values(batch))...)
				if c.check = func() {}; err != nil {
					t.Fatal(err)
				}
				for name := range batch {
					live[name] = c.file(name)
				}
			}
			for name, file := range live {
				c.want("that", name, file)
			}
		}
	}
}
