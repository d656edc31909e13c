package vault

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"reflect"
	"testing"
)

// FuzzTable: any bytes in place of a table, with a valid checksum, are either
// refused, or a table that is written as the same bytes.
func FuzzTable(f *testing.F) {
	d := Digest(sha256.Sum256([]byte("content")))
	for _, t := range []table{
		{kind: kindWhole},
		{kind: kindWhole, size: 5, data: 5, chunks: []chunk{{digest: d, size: 5, stored: 5, off: 8}}},
		{kind: kindShared, size: 9000, data: 100, sources: []Digest{{1}, {2}}, chunks: []chunk{
			{digest: Digest{3}, size: 4000, stored: 100, off: 8},
			{digest: Digest{4}, source: 2, size: 1000, stored: 1000, off: 77, at: 4000},
			{digest: Digest{3}, size: 4000, stored: 100, off: 8, at: 5000},
		}},
		{kind: kindRemnant, size: 100_000, data: 7, chunks: []chunk{{digest: Digest{9}, size: 7, stored: 7, off: 8}}},
	} {
		b := t.appendTo(nil, d)
		f.Add(b[:len(b)-footSize], int64(len(magic)+len(b))+t.data)
	}
	f.Fuzz(func(t *testing.T, body []byte, size int64) {
		sum := sumOf(d, body)
		tail := append(binary.LittleEndian.AppendUint32(bytes.Clone(body), uint32(len(body))), sum[:]...)
		if size < int64(len(magic)+len(tail)) {
			return // tableSize refuses it
		}
		got, err := parseTable(tail, d, size)
		if err != nil {
			if !errors.Is(err, errFormat) {
				t.Fatalf("parseTable = %v, which is no errFormat", err)
			}
			return
		}
		at := int64(0)
		for i, c := range got.chunks {
			if c.size < 1 || c.size > maxChunk || c.stored > c.size || c.source > len(got.sources) || c.at != at ||
				c.source == 0 && c.off+int64(c.stored) > int64(len(magic))+got.data {
				t.Fatalf("chunk %d of %+v", i, got)
			}
			at += int64(c.size)
		}
		again, err := parseTable(got.appendTo(nil, d), d, size)
		if err == nil && !reflect.DeepEqual(again, got) {
			t.Fatalf("read %+v, written and read again %+v", got, again)
		}
	})
}

// TestTableSize: an impossible length is refused before it is used.
func TestTableSize(t *testing.T) {
	t.Parallel()
	foot := make([]byte, footSize)
	for n, ok := range map[uint32]bool{0: true, 68: true, 69: false, 1<<32 - 1: false} {
		binary.LittleEndian.PutUint32(foot, n)
		if _, err := tableSize(foot, 96); (err == nil) != ok {
			t.Errorf("tableSize of %d = %v", n, err)
		}
	}
}

// TestCuts: chunks have the right sizes, and their boundaries do not depend on
// preceding bytes. Both are part of the format: with other values, stored chunks
// would no longer be found.
func TestCuts(t *testing.T) {
	t.Parallel()
	p := make([]byte, 4<<20)
	r := rand.NewChaCha8([32]byte{1})
	_, _ = r.Read(p) // never fails
	sum := sha256.New()
	for _, c := range classes {
		n, cuts := 0, make(map[int]bool)
		for off := 0; off < len(p); n++ {
			size := c.Cut(p[off:])
			if off += size; size > c.Max || size < c.Min && off < len(p) {
				t.Fatalf("a chunk of %d bytes", size)
			}
			cuts[off] = true
			_, _ = sum.Write(binary.AppendUvarint(nil, uint64(off))) // never fails
		}
		if mean := len(p) / n; mean < c.Avg*3/4 || mean > c.Avg*3/2 {
			t.Errorf("chunks have %d bytes on average, want about %d", mean, c.Avg)
		}
		same := 0
		for off := 12_345; off < len(p); {
			off += c.Cut(p[off:])
			if cuts[off] {
				same++
			}
		}
		if same < n*3/4 {
			t.Errorf("%d of %d cuts are the same after an offset", same, n)
		}
	}
	const want = "2f5c429684d0b12e94077abf37a92eeaa71e6d56167fab2d0eea92e6aceec4e9"
	if got := Digest(sum.Sum(nil)).String(); got != want {
		t.Errorf("cut elsewhere: %s, want %s", got, want)
	}
}

// TestMarks: added digests are found, at any number.
func TestMarks(t *testing.T) {
	t.Parallel()
	digest := func(i int) Digest { return sha256.Sum256(binary.AppendVarint(nil, int64(i))) }
	for _, limit := range []int{100_000, 1000} {
		m := newMarks(limit)
		for i := range 10_000 {
			m.add(digest(i))
		}
		wrong := 0
		for i := range 20_000 {
			if has := m.has(digest(i)); i < 10_000 && !has {
				t.Fatalf("limit %d: %d is not there", limit, i)
			} else if i >= 10_000 && has {
				wrong++
			}
		}
		if wrong > 10 {
			t.Errorf("limit %d: %d of 10,000 others seem to be there", limit, wrong)
		}
	}
}

// TestUses: ranges with few uses together have all of them.
func TestUses(t *testing.T) {
	t.Parallel()
	digest := func(i int) Digest { return sha256.Sum256(binary.AppendVarint(nil, int64(i))) }
	got := make(map[Digest]int)
	passes := 0
	for first := uint64(0); ; passes++ {
		u := newUses(first, 100)
		for i := range 3000 {
			u.add(digest(i%300), digest(i))
			u.add(digest(i%300), digest(i))
		}
		if u.count > 100 {
			t.Fatalf("%d uses held", u.count)
		}
		for d, used := range u.of {
			got[d] += len(used)
		}
		if u.last == ^uint64(0) {
			break
		}
		first = u.last + 1
	}
	if len(got) != 300 || passes < 10 {
		t.Errorf("%d blobs in %d passes, want 300", len(got), passes)
	}
	for d, n := range got {
		if n != 10 {
			t.Errorf("%s: %d uses, want 10", d, n)
		}
	}
}
