package chunkdelta_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"io"
	"math"
	"slices"
	"testing"
	"testing/iotest"

	"github.com/klauspost/compress/zstd"
	"pgregory.net/rapid"

	"lockstep/internal/chunkdelta"
)

// TestSmallEditsMakeSmallDeltas: a delta has the chunks that changed.
func TestSmallEditsMakeSmallDeltas(t *testing.T) {
	t.Parallel()
	old := noise(1, 3<<20)
	edited := slices.Concat(old[:100_000], []byte("inserted"), old[100_000:1_000_000], []byte("overwritten"), old[1_000_011:2_000_000], old[2_000_100:])
	for name, tt := range map[string]struct {
		content []byte
		most    int
	}{
		"same":               {old, 100},
		"three edits":        {edited, 3 * 3 * 16 << 10},
		"beginning":          {old[:1<<20], 20 << 10},
		"end":                {old[1<<20:], 20 << 10},
		"parts swapped":      {slices.Concat(old[1<<20:], old[:1<<20]), 40 << 10},
		"twice":              {slices.Concat(old, old), 40 << 10},
		"with zeros":         {slices.Concat(old, make([]byte, 1<<20)), 40 << 10},
		"empty":              {nil, 100},
		"one byte":           {[]byte("x"), 100},
		"appended":           {slices.Concat(old, []byte("more")), 20 << 10},
		"of another content": {noise(2, 100_000), 110_000},
	} {
		p := delta(t, old, tt.content)
		if len(p) > tt.most {
			t.Errorf("%s: delta of %d bytes, want at most %d", name, len(p), tt.most)
		}
		d := parse(t, p)
		if got := apply(t, d, old); !bytes.Equal(got, tt.content) {
			t.Errorf("%s: another content of %d bytes, want %d", name, len(got), len(tt.content))
		}
		if d.Old != sha256.Sum256(old) || d.OldSize != int64(len(old)) || d.Size != int64(len(tt.content)) {
			t.Errorf("%s: made for %x of %d bytes, result of %d", name, d.Old, d.OldSize, d.Size)
		}
		first := tt.content[:min(len(tt.content), 20_000)]
		got, err := io.ReadAll(io.LimitReader(iotest.OneByteReader(d.Reader(bytes.NewReader(old))), int64(len(first))))
		if err != nil || !bytes.Equal(got, first) {
			t.Errorf("%s: read byte by byte: %d bytes, %v", name, len(got), err)
		}
	}
}

// TestRandomEdits: whatever was edited, each delta yields the next version, and all
// of them together the last one from the first.
func TestRandomEdits(t *testing.T) {
	t.Parallel()
	base := noise(3, 200_000)
	rapid.Check(t, func(t *rapid.T) {
		first := base[:rapid.IntRange(0, len(base)).Draw(t, "size")]
		old := first
		var all *chunkdelta.Delta
		for range rapid.IntRange(1, 3).Draw(t, "versions") {
			content := slices.Clone(old)
			for range rapid.IntRange(0, 4).Draw(t, "edits") {
				content = edit(t, content)
			}
			d := parse(t, delta(t, old, content))
			if !bytes.Equal(apply(t, d, old), content) {
				t.Fatal("a delta yields another content")
			}
			if all == nil {
				all = d
			} else {
				var err error
				all, err = all.Then(d)
				must(t, err)
			}
			old = content
		}
		if !bytes.Equal(apply(t, all, first), old) {
			t.Fatal("the deltas together yield another content")
		}
	})
}

// edit changes content at a random place.
func edit(t *rapid.T, content []byte) []byte {
	at := rapid.IntRange(0, len(content)).Draw(t, "at")
	n := rapid.IntRange(0, min(len(content)-at, 20_000)).Draw(t, "n")
	more := noise(byte(rapid.IntRange(10, 20).Draw(t, "seed")), n)
	switch rapid.SampledFrom([]string{"insert", "delete", "overwrite", "move", "append", "truncate"}).Draw(t, "edit") {
	case "insert":
		return slices.Insert(content, at, more...)
	case "delete":
		return slices.Delete(content, at, at+n)
	case "overwrite":
		copy(content[at:], more)
		return content
	case "move":
		part := slices.Clone(content[at : at+n])
		content = slices.Delete(content, at, at+n)
		return slices.Insert(content, rapid.IntRange(0, len(content)).Draw(t, "to"), part...)
	case "append":
		return append(content, more...)
	}
	return content[:at]
}

// frame compresses what follows the header of a delta.
func frame(t testing.TB, p []byte) []byte {
	t.Helper()
	e, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1))
	must(t, err)
	return e.EncodeAll(p, nil)
}

// forged returns a delta with those numbers in its header, and that compressed part.
func forged(t testing.TB, oldSize, size, count, literals uint32, rest []byte) []byte {
	b := append([]byte("lsdelta1"), make([]byte, 32)...)
	for _, n := range []uint32{oldSize, size, literals, count} {
		b = binary.LittleEndian.AppendUint32(b, n)
	}
	return append(b, frame(t, rest)...)
}

// instruct returns numbers as instructions have them.
func instruct(first uint64, distance ...int64) []byte {
	b := binary.AppendUvarint(nil, first)
	for _, d := range distance {
		b = binary.AppendVarint(b, d)
	}
	return b
}

// TestHostileDeltas: every length and position that a delta states is checked.
func TestHostileDeltas(t *testing.T) {
	t.Parallel()
	const top = math.MaxInt64
	good := forged(t, 10, 12, 2, 2, slices.Concat([]byte("xy"), instruct(10<<1|1, 0), instruct(2<<1)))
	if got := apply(t, parse(t, good), []byte("0123456789")); string(got) != "0123456789xy" {
		t.Fatalf("a delta made by hand yields %q", got)
	}
	for name, p := range map[string][]byte{
		"nothing":                        nil,
		"magic only":                     good[:8],
		"header only":                    good[:40],
		"header cut":                     good[:50],
		"no frame":                       good[:56],
		"frame cut":                      good[:len(good)-3],
		"other magic":                    append([]byte("lsdelta2"), good[8:]...),
		"more after the frame":           append(slices.Clone(good), frame(t, []byte("x"))...),
		"garbage after the frame":        append(slices.Clone(good), "x"...),
		"copy beyond the end":            forged(t, 10, 11, 1, 0, instruct(11<<1|1, 0)),
		"copy past the end":              forged(t, 10, 5, 1, 0, instruct(5<<1|1, 6)),
		"copy before the beginning":      forged(t, 10, 5, 1, 0, instruct(5<<1|1, -1)),
		"copy from far before":           forged(t, 10, 5, 1, 0, instruct(5<<1|1, math.MinInt64)),
		"copy from far after":            forged(t, 10, 5, 1, 0, instruct(5<<1|1, top)),
		"copy after a copy":              forged(t, 10, 11, 2, 0, slices.Concat(instruct(10<<1|1, 0), instruct(1<<1|1, 0))),
		"copy of nothing":                forged(t, 10, 0, 1, 0, instruct(1, 0)),
		"literal of nothing":             forged(t, 10, 0, 1, 0, instruct(0)),
		"longer than stated":             forged(t, 10, 5, 1, 0, instruct(6<<1|1, 0)),
		"shorter than stated":            forged(t, 10, 5, 1, 0, instruct(4<<1|1, 0)),
		"huge instruction":               forged(t, 10, 5, 1, 0, instruct(math.MaxUint64, 0)),
		"huge literal":                   forged(t, 10, 5, 1, 5, append([]byte("abcde"), instruct(math.MaxUint64-1)...)),
		"more literals than stated":      forged(t, 10, 5, 1, 4, append([]byte("abcd"), instruct(5<<1)...)),
		"fewer literals than stated":     forged(t, 10, 5, 1, 5, append([]byte("abcde"), instruct(4<<1)...)),
		"literals missing":               forged(t, 10, 5, 1, 5, append([]byte("abcd"), instruct(5<<1)...)),
		"literals left":                  forged(t, 10, 5, 1, 5, append([]byte("abcdef"), instruct(5<<1)...)),
		"fewer instructions than stated": forged(t, 10, 5, 2, 0, instruct(5<<1|1, 0)),
		"endless number":                 forged(t, 10, 5, 1, 0, bytes.Repeat([]byte{0xff}, 20)),
		"more instructions than useful":  forged(t, 10, 5, 1000, 0, instruct(5<<1|1, 0)),
		"more literals than the result":  forged(t, 10, 5, 1, 6, instruct(5<<1)),
		"old of 4 GiB":                   forged(t, math.MaxUint32, 5, 1, 0, instruct(5<<1|1, 0)),
		"result of 4 GiB":                forged(t, 10, math.MaxUint32, 1, 0, instruct(5<<1|1, 0)),
		"literals of 17 MiB":             forged(t, 10, 1<<30, 1, 17<<20, instruct(5<<1)),
		"a billion instructions":         forged(t, 10, 1<<30, 1<<30, 0, instruct(5<<1|1, 0)),
	} {
		if d, err := chunkdelta.Parse(p); !errors.Is(err, chunkdelta.ErrInvalid) && !errors.Is(err, chunkdelta.ErrTooLarge) {
			t.Errorf("%s: Parse = %v, %v; want it refused", name, d, err)
		}
	}
	d := parse(t, good)
	if _, err := d.Then(d); !errors.Is(err, chunkdelta.ErrInvalid) {
		t.Errorf("a delta of 10 bytes after one that yields 12: %v, want ErrInvalid", err)
	}
	if got, err := io.ReadAll(d.Reader(bytes.NewReader([]byte("0123")))); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("applied to a shorter content: %q, %v; want io.ErrUnexpectedEOF", got, err)
	}
}

// TestWindowIsLimited: a delta that would be decompressed with more memory than
// useful is refused.
func TestWindowIsLimited(t *testing.T) {
	t.Parallel()
	b := append([]byte("lsdelta1"), make([]byte, 32)...)
	b = append(b, 10, 0, 0, 0, 5, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0)
	b = append(b, 0x28, 0xb5, 0x2f, 0xfd, 0, 14<<3) // a window of 16 MiB
	b = append(b, 3<<3|1, 0, 0, 5<<1|1, 0, 0)
	if _, err := chunkdelta.Parse(b); !errors.Is(err, chunkdelta.ErrTooLarge) {
		t.Errorf("a window of 16 MiB: %v, want ErrTooLarge", err)
	}
}

// TestDeltasThatAreTooLarge: no delta is made, and none is composed, with more new
// bytes than are held in memory.
func TestDeltasThatAreTooLarge(t *testing.T) {
	t.Parallel()
	old := make([]byte, 17<<20) // every chunk has the same bytes
	fresh := noise(4, 17<<20)
	s := chunkdelta.NewScanner(nil, index(t, old))
	must(t, s.Scan(bytes.NewReader(fresh)))
	if p, err := s.Delta(); p != nil || err != nil {
		t.Errorf("a delta of %d bytes, %v; want none", len(p), err)
	}
	literals := func() *chunkdelta.Delta {
		return parse(t, forged(t, 16<<20, 16<<20, 1, 16<<20, append(make([]byte, 16<<20), instruct(16<<20<<1)...)))
	}
	two, err := literals().Then(literals())
	must(t, err)
	if _, err := two.Then(literals()); !errors.Is(err, chunkdelta.ErrTooLarge) {
		t.Errorf("three deltas with 48 MiB of new bytes: %v, want ErrTooLarge", err)
	}
}

// TestDamagedIndexes: no damage of an index goes unnoticed.
func TestDamagedIndexes(t *testing.T) {
	t.Parallel()
	content := noise(5, 20_000)
	good := storedIndex(t, content)
	refused := func(p []byte, of chunkdelta.Digest) bool {
		_, err := chunkdelta.ReadIndex(bytes.NewReader(p), of)
		return errors.Is(err, chunkdelta.ErrIndex)
	}
	if !refused(good, sha256.Sum256(nil)) {
		t.Error("the index of another content is accepted")
	}
	for i := range good {
		bad := slices.Clone(good)
		bad[i] ^= 1
		if !refused(bad, sha256.Sum256(content)) || !refused(good[:i], sha256.Sum256(content)) {
			t.Fatalf("an index damaged at byte %d, or cut there, is accepted", i)
		}
	}
	broken := errors.New("broken disk")
	if _, err := chunkdelta.ReadIndex(iotest.ErrReader(broken), sha256.Sum256(content)); !errors.Is(err, broken) {
		t.Errorf("an index that cannot be read: %v, want %v", err, broken)
	}
	s := chunkdelta.NewScanner(failing{broken}, nil)
	if err := errors.Join(s.Scan(bytes.NewReader(content)), s.EndIndex(chunkdelta.Digest{})); !errors.Is(err, broken) {
		t.Errorf("an index that cannot be written: %v, want %v", err, broken)
	}
}

type failing struct{ err error }

func (f failing) Write([]byte) (int, error) { return 0, f.err }

// FuzzDelta: no bytes cause a panic, or a result of another length than stated.
func FuzzDelta(f *testing.F) {
	old := noise(6, 1000)
	f.Add(delta(f, old, append(noise(6, 500), "new"...))[8:], []byte{})
	f.Add(forged(f, 1000, 12, 2, 2, nil)[8:56], slices.Concat([]byte("xy"), instruct(10<<1|1, 5), instruct(2<<1)))
	f.Fuzz(func(t *testing.T, head, rest []byte) {
		p := append([]byte("lsdelta1"), head...)
		if len(rest) > 0 {
			p = append(p, frame(t, rest)...)
		}
		d, err := chunkdelta.Parse(p)
		if err != nil {
			if !errors.Is(err, chunkdelta.ErrInvalid) && !errors.Is(err, chunkdelta.ErrTooLarge) {
				t.Fatal(err)
			}
			return
		}
		n, err := io.Copy(io.Discard, d.Reader(bytes.NewReader(old)))
		if n > d.Size || err == nil && n != d.Size || err != nil && d.OldSize <= int64(len(old)) {
			t.Fatalf("%d of %d bytes, %v", n, d.Size, err)
		}
		if d.Size == d.OldSize && d.Size < 1<<16 {
			if both, err := d.Then(d); err != nil || both.Size != d.Size {
				t.Fatal(both, err)
			}
		}
	})
}
