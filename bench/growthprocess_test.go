//go:build linux

package bench

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"lockstep/blob"
	"lockstep/catalog"
	"lockstep/destination"
	"lockstep/destination/journal"
	"lockstep/internal/faultclock"
	"lockstep/internal/fetch"
	"lockstep/resourcesync"
	"lockstep/source"
	"lockstep/storage/postgres"
	"lockstep/storage/sqlite"
)

// A grownProcess is a Source or a Destination that carries out the steps it is sent.
type grownProcess struct {
	*exec.Cmd
	to   io.WriteCloser
	from *bufio.Scanner
}

// A grownResult is the result of a step.
type grownResult struct {
	Seconds float64
	Written int64
	Error   string
}

func startGrown(b *testing.B, role string, args ...string) *grownProcess {
	b.Helper()
	p := &grownProcess{Cmd: exec.Command(os.Args[0], args...)}
	p.Env = append(os.Environ(), roleVar+"="+role)
	p.Stderr = os.Stderr
	var err error
	if p.to, err = p.StdinPipe(); err != nil {
		b.Fatal(err)
	}
	out, err := p.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	p.from = bufio.NewScanner(out)
	if err := p.Start(); err != nil {
		b.Fatal(err)
	}
	return p
}

func (p *grownProcess) do(b *testing.B, step string, args ...int) (r grownResult) {
	b.Helper()
	line := step
	for _, a := range args {
		line += " " + strconv.Itoa(a)
	}
	_, err := fmt.Fprintln(p.to, line)
	if err == nil && !p.from.Scan() {
		err = errors.Join(io.ErrUnexpectedEOF, p.from.Err())
	}
	if err == nil {
		err = json.Unmarshal(p.from.Bytes(), &r)
	}
	if err == nil && r.Error != "" {
		err = errors.New(r.Error)
	}
	if err != nil {
		b.Fatalf("%s: %v", line, err)
	}
	return r
}

// end ends the process and returns its peak memory in MiB.
func (p *grownProcess) end(b *testing.B) float64 {
	b.Helper()
	peak := peakMemory(p.Process.Pid, p.Args)
	_ = p.to.Close() // it ends
	if err := p.Wait(); err != nil {
		b.Fatal(err)
	}
	return math.Round(float64(peak) / (1 << 20))
}

// grownSteps carries out steps from standard input.
func grownSteps(step func(name string, args []int) error) error {
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		words := strings.Fields(lines.Text())
		var args []int
		for _, w := range words[1:] {
			n, err := strconv.Atoi(w)
			if err != nil {
				return err
			}
			args = append(args, n)
		}
		var r grownResult
		before, start := writtenBytes(), time.Now()
		if err := step(words[0], args); err != nil {
			r.Error = err.Error()
		}
		r.Seconds, r.Written = time.Since(start).Seconds(), writtenBytes()-before
		if err := json.NewEncoder(os.Stdout).Encode(&r); err != nil {
			return err
		}
	}
	return lines.Err()
}

// A grownState is a state in either engine.
type grownState interface {
	Catalog() catalog.Catalog
	Journal() journal.Journal
	Close() error
}

type sqliteState struct{ *sqlite.DB }

func (s sqliteState) Catalog() catalog.Catalog { return s.DB.Catalog() }
func (s sqliteState) Journal() journal.Journal { return s.DB.Journal() }

type postgresState struct {
	*postgres.DB
	owner *postgres.Owner
}

func (s postgresState) Catalog() catalog.Catalog { return s.DB.Catalog() }
func (s postgresState) Journal() journal.Journal { return s.DB.Journal() }
func (s postgresState) Close() error             { return errors.Join(s.owner.Close(), s.DB.Close()) }

func openGrown(engine, place string, clock func() time.Time) (grownState, error) {
	if engine == "sqlite" {
		db, err := sqlite.Options{Clock: clock}.Open(place)
		return sqliteState{db}, err
	}
	db, err := postgres.Options{Clock: clock, Scratch: os.TempDir()}.Open(context.Background(), place)
	if err != nil {
		return nil, err
	}
	owner, err := db.Own(context.Background(), postgres.OwnOptions{Name: "benchmark"})
	return postgresState{db, owner}, err
}

// grownBatch is how many rows are written in a transaction.
const grownBatch = 10_000

// grownSource is the process of the Source: engine, place of the state, base URL, resources, and directory of the documents.
func grownSource(args []string) error {
	ctx, g := context.Background(), &grownCollection{base: args[2], versions: map[int]int{}}
	g.n, _ = strconv.Atoi(args[3])
	clock := faultclock.New(grownTime.Add(30 * 24 * time.Hour))
	state, err := openGrown(args[0], args[1], clock.Now)
	if err != nil {
		return err
	}
	defer state.Close()
	docs, err := blob.NewDir(args[4], blob.DirOptions{})
	if err != nil {
		return err
	}
	cat := state.Catalog()
	src, err := source.New(cat, docs, source.Options{BaseURL: g.base, Now: clock.Now, SmallSet: 1, Temp: filepath.Dir(args[4])})
	if err != nil {
		return err
	}
	set, err := source.CapabilityListURI(g.base, "main")
	if err != nil {
		return err
	}
	apply := func(all []int) error {
		for part := range slices.Chunk(all, grownBatch) {
			updates := make([]catalog.Update, len(part))
			for k, i := range part {
				updates[k] = g.update(i)
			}
			if _, err := cat.Apply(ctx, set, updates); err != nil {
				return err
			}
		}
		return nil
	}
	return grownSteps(func(step string, args []int) error {
		switch step {
		case "fill":
			updates := make([]catalog.Update, 0, grownBatch)
			for i := range g.n {
				if updates = append(updates, g.update(i)); len(updates) == grownBatch || i == g.n-1 {
					if _, err := cat.Apply(ctx, set, updates); err != nil {
						return err
					}
					updates = updates[:0]
				}
			}
			return nil
		case "change":
			clock.Step(time.Second)
			return apply(g.change(args[0], args[1], args[2] == 1))
		case "list":
			clock.Step(25 * time.Hour)
		default:
			clock.Step(time.Second)
		}
		r, err := src.Publish(ctx)
		if err == nil && step == "list" && !r.Sets[0].List {
			err = errors.New("no new Resource List")
		}
		return err
	})
}

// grownDestination is the process of the Destination: engine, place of the state, base URL, and resources.
func grownDestination(args []string) error {
	ctx, g := context.Background(), &grownCollection{base: args[2], versions: map[int]int{}}
	g.n, _ = strconv.Atoi(args[3])
	state, err := openGrown(args[0], args[1], nil)
	if err != nil {
		return err
	}
	defer state.Close()
	set, err := source.CapabilityListURI(g.base, "main")
	if err != nil {
		return err
	}
	j := state.Journal()
	client, err := fetch.New(fetch.Options{AllowPrivate: true})
	if err != nil {
		return err
	}
	defer client.Close()
	store := &grownStore{collection: g}
	d, err := destination.New(store, j, client, destination.Options{CheckLocal: destination.CheckNever})
	if err != nil {
		return err
	}
	all, err := destination.New(store, j, client, destination.Options{CheckLocal: destination.CheckNever, Baseline: true})
	if err != nil {
		return err
	}
	return grownSteps(func(step string, args []int) error {
		if step == "fill" {
			return g.record(ctx, j, set)
		}
		run := d
		if step == "compare" {
			run = all
		}
		r, err := run.Sync(ctx, g.base)
		if err != nil {
			return err
		}
		if r.Updated != int64(args[1]) || r.Created+r.Deleted > 0 || args[0] >= 0 && r.Unchanged != int64(args[0]) {
			return fmt.Errorf("%d created, %d updated, %d deleted, %d unchanged; want %d updated, and %d unchanged", r.Created, r.Updated, r.Deleted, r.Unchanged, args[1], args[0])
		}
		return nil
	})
}

// record writes the journal of a mirror that has everything.
func (g *grownCollection) record(ctx context.Context, j journal.Journal, set string) error {
	err := j.Record(ctx, journal.Batch{Save: map[string][]byte{
		"mirror": fmt.Appendf(nil, `{"origin":%q,"numbers":{%q:1}}`, strings.TrimSuffix(g.base, "/"), set),
		"counts": fmt.Appendf(nil, `{"1":%d}`, g.n),
		"set/1":  fmt.Appendf(nil, `{"uri":%q,"number":1,"complete":true}`, set),
	}})
	rows := journal.Batch{}
	for i := 0; i < g.n && err == nil; i++ {
		length, hashes, at := int64(len(g.content(i))), g.hashes(i), g.lastmod(i)
		stated := &journal.Stated{Lastmod: resourcesync.NewDatetime(at).WithGranularity(resourcesync.Second), Length: length, Hashes: hashes}
		rows.Put = append(rows.Put, journal.Held{URI: g.base + g.path(i), Path: g.path(i), Length: length, Lastmod: at, Hashes: hashes, Sets: []int{1}, Written: grownTime, Type: octets, Stated: stated})
		if len(rows.Put) == grownBatch || i == g.n-1 {
			err = j.Record(ctx, rows)
			rows.Put = rows.Put[:0]
		}
	}
	return err
}

// A grownStore has the contents of all resources, of which it keeps in memory those that were written.
type grownStore struct {
	blob.Mem
	collection *grownCollection
}

func (s *grownStore) Stat(ctx context.Context, name string) (blob.Info, error) {
	info, err := s.Mem.Stat(ctx, name)
	if !errors.Is(err, blob.ErrNotExist) {
		return info, err
	}
	i, ok := resourceNumber(name)
	if !ok || i >= s.collection.n {
		return info, err
	}
	return blob.Info{Name: name, Size: int64(len(s.collection.content(i))), ModTime: grownTime}, nil
}
