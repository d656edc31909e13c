package bitstream_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"

	"lockstep/bitstream"
	"lockstep/resourcesync"
)

// prose returns text that compresses a little, as real documents do.
func prose(seed uint64, n int) []byte {
	r := rand.New(rand.NewPCG(seed, 0))
	words := strings.Fields("resource sync capability list change dump manifest and the of a in which every entry has one")
	var b bytes.Buffer
	for b.Len() < n {
		fmt.Fprintf(&b, "%s %d ", words[r.IntN(len(words))], r.IntN(1e6))
	}
	return b.Bytes()[:n]
}

// noise returns 8 KB that nothing compresses.
func noise(seed uint64) string {
	r := rand.New(rand.NewPCG(seed, 1))
	b := make([]byte, 8<<10)
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return string(b)
}

// jsonNoise returns a document that has nothing in common with another.
func jsonNoise(seed uint64) string {
	return fmt.Sprintf(`{"a":"%s"}`, base64.StdEncoding.EncodeToString([]byte(noise(seed))))
}

// edit returns doc with n short insertions.
func edit(doc []byte, n int) []byte {
	out := bytes.Clone(doc)
	for i := range n {
		at := (i + 1) * len(out) / (n + 1)
		out = append(out[:at:at], append([]byte("<edited>"), out[at:]...)...)
	}
	return out
}

// delta has a Keeper make a delta.
func delta(t tb, before, after []byte) []byte {
	t.Helper()
	p, err := bitstream.Diff(before, after)
	must(t, err)
	return p
}

func TestDelta(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name          string
		before, after []byte
		most          int // bytes of the delta
	}{
		{"4 KB", prose(1, 4<<10), edit(prose(1, 4<<10), 1), 200},
		{"small encoder again", prose(2, 100<<10), edit(prose(2, 100<<10), 3), 300},
		{"6.3 MB with 3 edits", prose(3, 6_300_000), edit(prose(3, 6_300_000), 3), 1200},
		{"cut", prose(4, 1<<20), prose(4, 1<<19), 200},
		{"grown", prose(5, 1<<19), prose(5, 1<<20), 1 << 19},
		{"moved", prose(6, 1<<20), append(prose(6, 1<<20)[1<<19:], prose(6, 1<<20)[:1<<19]...), 400},
		{"from nothing", nil, prose(7, 1000), 1100},
		{"to nothing", prose(8, 1000), nil, 100},
		{"same", prose(9, 1000), prose(9, 1000), 100},
		{"dictionary that looks like a formatted one", append([]byte{0x37, 0xa4, 0x30, 0xec}, prose(10, 5000)...), prose(10, 5000), 200},
	} {
		if underRace && len(tt.before) > 2<<20 {
			continue
		}
		p := delta(t, tt.before, tt.after)
		if len(p) > tt.most {
			t.Errorf("%s: delta of %d bytes, want at most %d", tt.name, len(p), tt.most)
		}
		sum := sha256.Sum256(tt.before)
		if want := "5e2a4d1820000000" + hex.EncodeToString(sum[:]); hex.EncodeToString(p[:40]) != want {
			t.Errorf("%s: header %x, want %s", tt.name, p[:40], want)
		}
		got, err := bitstream.ApplyDelta(tt.before, p, int64(len(tt.after)))
		if err != nil || !bytes.Equal(got, tt.after) {
			t.Errorf("%s: got %d bytes, %v", tt.name, len(got), err)
		}
		if len(tt.after) > 0 {
			if _, err := bitstream.ApplyDelta(tt.before, p, int64(len(tt.after))-1); !errors.Is(err, bitstream.ErrTooLarge) {
				t.Errorf("%s: a byte above the limit: %v, want ErrTooLarge", tt.name, err)
			}
		}
		if _, err := bitstream.ApplyDelta(append([]byte("x"), tt.before...), p, 1<<30); !errors.Is(err, bitstream.ErrPatch) {
			t.Errorf("%s: applied to other bytes: %v, want ErrPatch", tt.name, err)
		}
	}
}

// TestDeltaZstd: the program everybody has applies a delta, header and all.
func TestDeltaZstd(t *testing.T) {
	t.Parallel()
	program, err := exec.LookPath("zstd")
	if err != nil {
		t.Skip("zstd is not installed")
	}
	dir := t.TempDir()
	before, after := prose(11, 3<<20), edit(prose(11, 3<<20), 5)
	write(t, dir, "before", string(before))
	write(t, dir, "patch", string(delta(t, before, after)))
	got, err := exec.Command(program, "-q", "-d", "--long=27", "-c", "-D", filepath.Join(dir, "before"), filepath.Join(dir, "patch")).Output()
	if err != nil || !bytes.Equal(got, after) {
		t.Errorf("zstd yields %d bytes, %v", len(got), err)
	}
}

// TestDeltaHostile: nothing a stranger writes takes memory beyond the limit.
func TestDeltaHostile(t *testing.T) {
	old := prose(1, 1000)
	sum := sha256.Sum256(old)
	header := append([]byte{0x5e, 0x2a, 0x4d, 0x18, 0x20, 0, 0, 0}, sum[:]...)
	frame := func(n int64, o ...zstd.EOption) []byte {
		var b bytes.Buffer
		e, err := zstd.NewWriter(&b, o...)
		must(t, err)
		_, err = io.Copy(e, io.LimitReader(zeros{}, n))
		must(t, err)
		must(t, e.Close())
		return b.Bytes()
	}
	claims := append([]byte{0x28, 0xb5, 0x2f, 0xfd, 0xe0}, bytes.Repeat([]byte{0xff}, 7)...) // a frame of 2^56 bytes, in one segment
	claims = append(claims, 0x3f, 1, 0, 0)
	window := []byte{0x28, 0xb5, 0x2f, 0xfd, 0x00, 0xf8, 1, 0, 0} // a window of 2^41 bytes
	frames := 2000
	if underRace {
		frames = 300
	}
	bomb := frame(int64(frames) << 19) // bytes: half of what the frames have
	many := bytes.Repeat(frame(1<<20), frames)
	skips := bytes.Repeat([]byte{0x50, 0x2a, 0x4d, 0x18, 0, 0, 0, 0}, 100_000)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for name, patch := range map[string][]byte{
		"empty": nil, "header only": header, "no header": bomb, "claims": append(header[:40:40], claims...),
		"window": append(header[:40:40], window...), "bomb": append(header[:40:40], bomb...), "frames": append(header[:40:40], many...),
		"skipped": append(header[:40:40], skips...), "cut": append(header[:40:40], frame(1000)[:10]...),
		"rubbish": append(header[:40:40], old...),
	} {
		out, err := bitstream.ApplyDelta(old, patch, 1<<20)
		if !errors.Is(err, bitstream.ErrPatch) && !errors.Is(err, bitstream.ErrTooLarge) || out != nil {
			t.Errorf("%s: %d bytes, %v; want ErrPatch or ErrTooLarge", name, len(out), err)
		}
	}
	runtime.ReadMemStats(&after)
	if got := after.TotalAlloc - before.TotalAlloc; got > 256<<20 {
		t.Errorf("%d MB were allocated for ten patches with a limit of 1 MB", got>>20)
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

// TestPatches: updates get links to patches that make of the old bytes the new.
func TestPatches(t *testing.T) {
	t.Parallel()
	w := newWorld(t, t.TempDir(), nil, nil, bitstream.SetOptions{Past: true, Patches: &bitstream.PatchOptions{MaxBytes: 2 << 20}})
	versions := map[string][]string{
		"small.txt":  {string(prose(1, 8<<10)), string(edit(prose(1, 8<<10), 1)), string(edit(prose(1, 8<<10), 3))},
		"large.txt":  {string(prose(2, 1<<20)), string(edit(prose(2, 1<<20), 1)), string(edit(prose(2, 1<<20), 2))},
		"huge.txt":   {string(prose(3, 3<<20)), string(edit(prose(3, 3<<20), 1)), string(edit(prose(3, 3<<20), 2))},
		"tiny.txt":   {"a", "b", "c"},
		"tiny.json":  {`{"a":1}`, `{"a":2}`, strings.Repeat(" ", 2000) + `{"a":2}`},
		"other.txt":  {noise(4), noise(5), noise(6)},
		"new.json":   {jsonNoise(1), jsonNoise(2), jsonNoise(3)},
		"data.json":  {object(1, "  ", 1), object(1, "  ", 2), object(1, "  ", 3)},
		"touch.json": {object(2, "", 1), object(2, "", 2), object(3, "\t", 2)},
	}
	want := map[string][]string{ // media types, per change
		"small.txt": {bitstream.TypeDelta, bitstream.TypeDelta}, "large.txt": {bitstream.TypeDelta, bitstream.TypeDelta},
		"huge.txt": {"", ""}, "tiny.txt": {"", ""}, "tiny.json": {"", bitstream.TypeDelta}, "new.json": {"", ""}, "other.txt": {"", ""},
		"data.json":  {bitstream.TypeJSON + " " + bitstream.TypeDelta, bitstream.TypeJSON + " " + bitstream.TypeDelta},
		"touch.json": {bitstream.TypeJSON + " " + bitstream.TypeDelta, bitstream.TypeDelta},
	}
	for i := range 3 {
		for name, texts := range versions {
			write(t, w.root, name, texts[i])
		}
		w.scan(t)
		if i == 0 {
			write(t, w.root, "small.txt", versions["small.txt"][1])
			w.scan(t)
			write(t, w.root, "small.txt", versions["small.txt"][0])
			w.scan(t)
			if len(w.puts.all) != 0 {
				t.Errorf("%d patches made before anybody could know what they apply to", len(w.puts.all))
			}
			w.mark(t)
		}
	}
	got := make(map[string][]string)
	for _, c := range w.changes(t) {
		name := strings.TrimPrefix(c.URI, base)
		n := len(got[name])
		var types []string
		for _, l := range c.Links {
			if l.Rel != resourcesync.RelPatch {
				t.Errorf("%s: link %v", name, l)
			}
			types = append(types, l.Type)
			w.checkPatch(t, l, versions[name][n], versions[name][n+1])
		}
		got[name] = append(got[name], strings.Join(types, " "))
	}
	for name := range want {
		if strings.Join(got[name], "|") != strings.Join(want[name], "|") {
			t.Errorf("%s: patches %q, want %q", name, got[name], want[name])
		}
	}
	w.sweep(t)
	if n := w.blobs(t); n != 18 {
		t.Errorf("%d representations kept, want those of 18 changes", n)
	}
}

// checkPatch applies a patch that was announced.
func (w *world) checkPatch(t tb, l resourcesync.Link, before, after string) {
	t.Helper()
	p := w.puts.all[l.Href]
	sum := sha256.Sum256(p)
	if int64(len(p)) != l.Length || l.Hashes.Get(resourcesync.SHA256) != string(sum[:]) || len(p) > len(after)/2 {
		t.Errorf("patch of %d bytes to %d, link %v", len(p), len(after), l)
	}
	apply := bitstream.ApplyDelta
	if l.Type == bitstream.TypeJSON {
		apply = bitstream.ApplyJSON
	}
	if got, err := apply([]byte(before), p, int64(len(after))); err != nil || string(got) != after {
		t.Errorf("%s yields %d bytes, %v", l.Type, len(got), err)
	}
}

// TestPatchesFail: what cannot be published is no reason to miss a change.
func TestPatchesFail(t *testing.T) {
	t.Parallel()
	w := newWorld(t, t.TempDir(), nil, nil, bitstream.SetOptions{Patches: &bitstream.PatchOptions{
		Put: func(context.Context, string, []byte) (string, error) { return "", errors.New("disk full") }}})
	write(t, w.root, "a", string(prose(1, 8<<10)))
	w.scan(t)
	w.mark(t)
	write(t, w.root, "a", string(edit(prose(1, 8<<10), 1)))
	w.scan(t)
	cs := w.changes(t)
	if len(cs) != 1 || len(cs[0].Links) != 0 {
		t.Errorf("changes %v, want one without links", cs)
	}
}
