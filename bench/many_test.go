//go:build linux

package bench

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

var (
	manyFiles = flag.Int("many.files", 100_000, "resources of BenchmarkSyncMany")
	manyTools = flag.String("many.tools", "curl64,curl256,aria2c,rclone", "what it sets beside")
)

// BenchmarkSyncMany sets the first sync of many small resources, verified,
// atomic and recorded, beside what people copy URIs with. All write the same
// files into new directories; a tool that is not installed is left out.
func BenchmarkSyncMany(b *testing.B) {
	src := startSource(b, *manyFiles, 0)
	tools := copyTools(b, src)
	for b.Loop() {
		times := map[string][]float64{}
		var rss int64
		for range *syncRounds {
			dest := benchDir(b, "lockstep-sync-")
			s, r, _ := src.sync(b, dest)
			times["sync"], rss = append(times["sync"], s), max(rss, r)
			_ = os.RemoveAll(dest) // on a memory disk
			for name, command := range tools {
				out := benchDir(b, "lockstep-"+name+"-")
				s, _ := timed(b, command(out))
				times[name] = append(times[name], s)
				if *syncRounds > len(times[name]) { // the last one stays to be looked at
					_ = os.RemoveAll(out) // likewise
					continue
				}
				if n := countFiles(b, out); n != *manyFiles {
					b.Fatalf("%s wrote %d files of %d", name, n, *manyFiles)
				}
				_ = os.RemoveAll(out) // likewise
			}
		}
		best := 0.0
		for name, s := range times {
			m := median(s)
			b.ReportMetric(m, name+"-s")
			if name != "sync" && (best == 0 || m < best) {
				best = m
			}
		}
		b.ReportMetric(float64(rss)/(1<<20), "sync-MB")
		if best > 0 {
			b.ReportMetric(median(times["sync"])/best, "sync/best")
		}
	}
}

func countFiles(b *testing.B, dir string) int {
	b.Helper()
	n := 0
	err := filepath.WalkDir(dir, func(_ string, e os.DirEntry, err error) error {
		if err == nil && e.Type().IsRegular() {
			n++
		}
		return err
	})
	if err != nil {
		b.Fatal(err)
	}
	return n
}

// copyTools returns the commands that copy every resource of src to a directory.
func copyTools(b *testing.B, src *origin) map[string]func(out string) *exec.Cmd {
	b.Helper()
	curl := func(most string) func(string) *exec.Cmd {
		list := curlList(b, src)
		return func(out string) *exec.Cmd {
			return exec.Command("curl", "--silent", "--no-progress-meter", "--fail", "--parallel", "--parallel-max", most,
				"--create-dirs", "--output-dir", out, "--config", list)
		}
	}
	var aria, names bytes.Buffer
	for i := range src.files {
		path := strings.TrimPrefix(resourcePath(i), "/")
		fmt.Fprintf(&aria, "%s/%s\n  out=%s\n", src.base, path, path)
		fmt.Fprintln(&names, path)
	}
	ariaList, nameList := writeList(b, "aria2c.txt", aria.Bytes()), writeList(b, "rclone.txt", names.Bytes())
	all := map[string]func(string) *exec.Cmd{
		"curl64":  curl("64"),
		"curl256": curl("256"),
		"aria2c": func(out string) *exec.Cmd {
			return exec.Command("aria2c", "--quiet", "-j16", "-x1", "--file-allocation=none", "-d", out, "-i", ariaList)
		},
		// Without HEAD requests and without looking what is there: the most it can.
		"rclone": func(out string) *exec.Cmd {
			return exec.Command("rclone", "copy", "--config", "", "--http-url", src.base, "--http-no-head", "--files-from-raw", nameList,
				"--no-traverse", "--no-check-dest", "--ignore-times", "--transfers", "64", "--checkers", "64", ":http:", out)
		},
	}
	chosen := map[string]func(string) *exec.Cmd{}
	for name := range strings.SplitSeq(*manyTools, ",") {
		if command := all[name]; command != nil {
			if _, err := exec.LookPath(command("").Args[0]); err == nil {
				chosen[name] = command
			}
		}
	}
	return chosen
}

func writeList(b *testing.B, name string, text []byte) string {
	b.Helper()
	name = filepath.Join(b.TempDir(), name)
	if err := os.WriteFile(name, text, 0o644); err != nil {
		b.Fatal(err)
	}
	return name
}
