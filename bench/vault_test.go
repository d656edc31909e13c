//go:build linux

package bench

import (
	"bytes"
	"context"
	"flag"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"lockstep/blob"
	"lockstep/vault"
)

var (
	vaultVersions = flag.Int("vault.versions", 100, "how many versions BenchmarkVaultVersions keeps; the bar is set for 1000")
	vaultSize     = flag.Int("vault.size", 10_000_000, "bytes of each of them")
)

// A keeper is a program that keeps versions of a file.
type keeper struct {
	name string
	init []string
	keep func(repo, file string, i int) []string
}

var keepers = []keeper{
	{"restic", []string{"init"}, func(_, file string, _ int) []string { return []string{"backup", "--quiet", "--no-cache", file} }},
	{"borg", []string{"init", "--encryption", "none"}, func(_, file string, i int) []string {
		return []string{"create", "::" + time.Unix(int64(i), 0).UTC().Format("20060102150405"), file}
	}},
}

// A cost is what it takes to keep versions.
type cost struct{ wall, cpu time.Duration }

func (c *cost) add(o cost) { c.wall, c.cpu = c.wall+o.wall, c.cpu+o.cpu }

// BenchmarkVaultVersions sets the vault, bytes and time, beside restic and borg
// that keep the same versions of a file of 10 MB, each of which differs from the
// last by one percent: in one place, and in ten. Theirs are processes, so their
// processor time is also given without what they take to start and to keep an
// empty file ("net"); it says more than the clock where others are at work.
func BenchmarkVaultVersions(b *testing.B) {
	for _, tt := range []struct {
		name   string
		places int
	}{{"run", 1}, {"spread", 10}} {
		b.Run(tt.name, func(b *testing.B) {
			for b.Loop() {
				ours, size, rate := keepInVault(b, tt.places)
				b.ReportMetric(ours.wall.Seconds(), "vault-s")
				b.ReportMetric(ours.cpu.Seconds(), "vault-cpu-s")
				b.ReportMetric(float64(size)/1e6, "vault-MB")
				b.ReportMetric(rate, "read-MB/s")
				for _, k := range keepers {
					if _, err := exec.LookPath(k.name); err != nil {
						b.Logf("no yardstick: %s is not installed", k.name)
						continue
					}
					theirs, net, bytes := k.run(b, tt.places)
					b.ReportMetric(theirs.wall.Seconds(), k.name+"-s")
					b.ReportMetric(net.Seconds(), k.name+"-net-cpu-s")
					b.ReportMetric(float64(bytes)/1e6, k.name+"-MB")
					b.ReportMetric(ours.wall.Seconds()/theirs.wall.Seconds(), "time/"+k.name)
					b.ReportMetric(ours.cpu.Seconds()/net.Seconds(), "net-cpu/"+k.name)
					b.ReportMetric(float64(size)/float64(bytes), "bytes/"+k.name)
				}
			}
		})
	}
}

// edits yields the versions, always the same.
func edits(places int, each func(i int, version []byte)) {
	r := rand.New(rand.NewChaCha8([32]byte{1}))
	fill := func(p []byte) {
		for i := range p {
			p[i] = byte(r.Uint32())
		}
	}
	content := make([]byte, *vaultSize)
	fill(content)
	for i := range *vaultVersions {
		if i > 0 {
			for range places {
				n := *vaultSize / 100 / places
				at := r.IntN(*vaultSize - n)
				fill(content[at : at+n])
			}
		}
		each(i, content)
	}
}

// keepInVault returns what it takes to keep the versions, how many bytes they are
// then, and how many MB a second the last is read and verified with.
func keepInVault(b *testing.B, places int) (c cost, size int64, rate float64) {
	dir := benchDir(b, "lockstep-vault-")
	store, err := blob.NewDir(dir, blob.DirOptions{})
	if err != nil {
		b.Fatal(err)
	}
	defer store.Close()
	ctx := context.Background()
	v := vault.New(store, vault.Options{Compress: true})
	var last vault.Digest
	edits(places, func(_ int, version []byte) {
		start, before := time.Now(), processorTime(b)
		if last, _, err = v.Put(ctx, bytes.NewReader(version), last); err != nil {
			b.Fatal(err)
		}
		c.add(cost{time.Since(start), processorTime(b) - before})
	})
	start := time.Now()
	if err := v.Verify(ctx, last); err != nil {
		b.Fatal(err)
	}
	rate = float64(*vaultSize) / 1e6 / time.Since(start).Seconds()
	return c, bytesBelow(b, dir), rate
}

// run has the program keep the versions. net is its processor time without what
// it takes to start as often.
func (k keeper) run(b *testing.B, places int) (c cost, net time.Duration, size int64) {
	dir := benchDir(b, "lockstep-"+k.name+"-")
	repo, file := filepath.Join(dir, "repo"), filepath.Join(dir, "file")
	do := func(args ...string) cost {
		cmd := exec.Command(k.name, args...)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "RESTIC_REPOSITORY="+repo, "RESTIC_PASSWORD=x", "BORG_REPO="+repo,
			"BORG_BASE_DIR="+dir, "HOME="+dir, "BORG_UNKNOWN_UNENCRYPTED_REPO_ACCESS_IS_OK=yes")
		began := time.Now()
		if out, err := cmd.CombinedOutput(); err != nil {
			b.Fatalf("%s: %v: %s", k.name, err, out)
		}
		return cost{time.Since(began), cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()}
	}
	do(k.init...)
	before := bytesBelow(b, repo)
	edits(places, func(i int, version []byte) {
		if err := os.WriteFile(file, version, 0o600); err != nil {
			b.Fatal(err)
		}
		c.add(do(k.keep(repo, file, i)...))
	})
	size = bytesBelow(b, repo) - before
	var idle []float64
	for i := range 5 {
		if err := os.WriteFile(file, nil, 0o600); err != nil {
			b.Fatal(err)
		}
		idle = append(idle, do(k.keep(repo, file, 1<<20+i)...).cpu.Seconds())
	}
	return c, c.cpu - time.Duration(median(idle)*float64(*vaultVersions)*float64(time.Second)), size
}

// bytesBelow returns how many bytes the files in a directory have.
func bytesBelow(b *testing.B, dir string) (n int64) {
	err := filepath.WalkDir(dir, func(_ string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return err
		}
		info, err := e.Info()
		if err == nil {
			n += info.Size()
		}
		return err
	})
	if err != nil {
		b.Fatal(err)
	}
	return n
}
