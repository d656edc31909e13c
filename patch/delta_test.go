package patch_test

import (
	"bytes"
	"crypto/sha256"
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

	"lockstep/patch"
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

// edit returns doc with n short insertions.
func edit(doc []byte, n int) []byte {
	out := bytes.Clone(doc)
	for i := range n {
		at := (i + 1) * len(out) / (n + 1)
		out = append(out[:at:at], append([]byte("<edited>"), out[at:]...)...)
	}
	return out
}

// delta makes a delta.
func delta(t tb, before, after []byte) []byte {
	t.Helper()
	p, err := deltas.Make(before, after)
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
		got, err := patch.ApplyDelta(tt.before, p, int64(len(tt.after)))
		if err != nil || !bytes.Equal(got, tt.after) {
			t.Errorf("%s: got %d bytes, %v", tt.name, len(got), err)
		}
		if len(tt.after) > 0 {
			if _, err := patch.ApplyDelta(tt.before, p, int64(len(tt.after))-1); !errors.Is(err, patch.ErrTooLarge) {
				t.Errorf("%s: a byte above the limit: %v, want ErrTooLarge", tt.name, err)
			}
		}
		if _, err := patch.ApplyDelta(append([]byte("x"), tt.before...), p, 1<<30); !errors.Is(err, patch.ErrInvalid) {
			t.Errorf("%s: applied to other bytes: %v, want ErrInvalid", tt.name, err)
		}
	}
}

// TestDeltaZstd: the zstd program applies a delta, including its header.
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

// TestDeltaHostile: no input uses memory beyond the limit.
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
	for name, p := range map[string][]byte{
		"empty": nil, "header only": header, "no header": bomb, "claims": append(header[:40:40], claims...),
		"window": append(header[:40:40], window...), "bomb": append(header[:40:40], bomb...), "frames": append(header[:40:40], many...),
		"skipped": append(header[:40:40], skips...), "cut": append(header[:40:40], frame(1000)[:10]...),
		"rubbish": append(header[:40:40], old...),
	} {
		out, err := patch.ApplyDelta(old, p, 1<<20)
		if !errors.Is(err, patch.ErrInvalid) && !errors.Is(err, patch.ErrTooLarge) || out != nil {
			t.Errorf("%s: %d bytes, %v; want ErrInvalid or ErrTooLarge", name, len(out), err)
		}
	}
	runtime.ReadMemStats(&after)
	if got := after.TotalAlloc - before.TotalAlloc; got > 256<<20 {
		t.Errorf("%d MB were allocated for ten patches with a limit of 1 MB", got>>20)
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }
