package dump_test

import (
	"archive/zip"
	"bytes"
	"compress/flate"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"lockstep/resourcesync"
	"lockstep/validate/finding"
	"lockstep/validate/internal/dump"
	"lockstep/validate/internal/visit"
	"lockstep/validate/opener"
)

const mib = 1 << 20

// zeros returns n MiB of zeros as a deflate stream, and bytes behind its end.
func zeros(t *testing.T, n, behind int) []byte {
	t.Helper()
	var one bytes.Buffer
	w, _ := flate.NewWriter(&one, flate.BestCompression) // a valid level
	_, _ = w.Write(make([]byte, mib))                    // a Buffer never fails
	_ = w.Flush()                                        // the same
	data := bytes.Repeat(one.Bytes(), n)
	one.Reset()
	w.Reset(&one)
	_ = w.Close() // the same
	return append(append(data, one.Bytes()...), make([]byte, behind)...)
}

// A bitstream is a file of a package, deflated.
type bitstream struct {
	name string
	data []byte
	size int // MiB
}

func packageOf(t *testing.T, files ...bitstream) *bytes.Reader {
	t.Helper()
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	if _, err := z.Create("manifest.xml"); err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		w, err := z.CreateRaw(&zip.FileHeader{Name: f.name, Method: zip.Deflate, CompressedSize64: uint64(len(f.data)), UncompressedSize64: uint64(f.size) * mib})
		if err == nil {
			_, err = w.Write(f.data)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return bytes.NewReader(b.Bytes())
}

// naming returns what reads a manifest with these paths, each times times. The
// hashes it states are those of one MiB of zeros.
func naming(times int, paths ...string) dump.ReadManifest {
	sum := sha256.Sum256(make([]byte, mib))
	return func(_ *visit.Source, entry dump.EntryFunc) (finding.Kinds, bool, error) {
		for _, path := range paths {
			for i := range times {
				entry(func() string { return fmt.Sprintf("entry %d", i+1) }, &resourcesync.Entry{
					Loc: "https://h.example/a", Metadata: resourcesync.Metadata{Path: path, Hashes: resourcesync.Hashes{{Algorithm: resourcesync.SHA256, Digest: string(sum[:])}}},
				})
			}
		}
		return finding.KindResourceDumpManifest, true, nil
	}
}

func visitor(t *testing.T, open opener.Func) *visit.Visitor {
	return visit.NewVisitor(finding.NewCollector(1, false, true, nil), open, &visit.Settings{
		Sample: visit.SampleAll, ResourceBytes: 16 << 30, DocumentBytes: mib, Documents: 10, TempDir: t.TempDir(), Now: time.Now,
	})
}

// A watched counts what is read after ctx was canceled, which happens when the
// first byte at or behind from is read.
type watched struct {
	io.ReaderAt
	from   int64
	cancel func()
	after  int
}

func (w *watched) ReadAt(p []byte, off int64) (int, error) {
	n, err := w.ReaderAt.ReadAt(p, off)
	if w.cancel != nil && w.from > 0 && off >= w.from {
		w.cancel()
		w.cancel = nil
	} else if w.cancel == nil {
		w.after += n
	}
	return n, err
}

// TestUnpackingEnds: unpacking a large file ends with the context.
func TestUnpackingEnds(t *testing.T) {
	t.Parallel()
	gone := errors.New("gone home")
	ctx, cancel := context.WithCancelCause(t.Context())
	data := packageOf(t, bitstream{"a", zeros(t, 256, 0), 256})
	// The directory is at the end, and is read first.
	w := &watched{ReaderAt: data, cancel: func() { cancel(gone) }}
	read := naming(1, "/a")
	o := dump.Package{URI: "p.zip", Bitstreams: visit.SampleAll, Read: func(src *visit.Source, entry dump.EntryFunc) (finding.Kinds, bool, error) {
		w.from = 1
		return read(src, entry)
	}}
	v := visitor(t, nil)
	if err := dump.Check(ctx, v, w, data.Size(), o); !errors.Is(err, gone) {
		t.Errorf("error %v, want the cause", err)
	}
	if w.after > 16<<10 || w.cancel != nil {
		t.Errorf("%d bytes of the package were read after the end", w.after)
	}
	if len(v.Collector.Report.Findings) > 0 {
		t.Errorf("findings %v", v.Collector.Report.Findings)
	}
}

// A canceling is a body that has ctx canceled when it is first read.
type canceling struct {
	io.Reader
	cancel func()
	reads  int
}

func (c *canceling) Read(p []byte) (int, error) {
	c.cancel()
	c.reads++
	return c.Reader.Read(p)
}

func (c *canceling) Close() error { return nil }

// TestDownloadEnds: copying a package ends with the context.
func TestDownloadEnds(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancelCause(t.Context())
	gone := errors.New("gone home")
	body := &canceling{Reader: bytes.NewReader(make([]byte, 8*mib)), cancel: func() { cancel(gone) }}
	_, err := dump.OpenRemote(ctx, visitor(t, func(context.Context, opener.Request) (*opener.Answer, error) {
		return &opener.Answer{Body: body, Size: 8 * mib}, nil
	}), "https://h.example/p.zip")
	if !errors.Is(err, gone) || body.reads > 1 {
		t.Errorf("%d reads, error %v", body.reads, err)
	}
}

// TestCompareEnds: hashing a package ends with the context.
func TestCompareEnds(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancelCause(t.Context())
	gone := errors.New("gone home")
	v := visitor(t, func(context.Context, opener.Request) (*opener.Answer, error) {
		return &opener.Answer{Body: io.NopCloser(bytes.NewReader(make([]byte, 8*mib))), Size: 8 * mib}, nil
	})
	r, err := dump.OpenRemote(ctx, v, "https://h.example/p.zip")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	cancel(gone)
	e := &resourcesync.Entry{Loc: "https://h.example/p.zip", Metadata: resourcesync.Metadata{Hashes: resourcesync.Hashes{{Algorithm: resourcesync.SHA256, Digest: strings.Repeat("x", 32)}}}}
	if err := r.Compare(v.Collector.In("d.xml"), "entry 1", e); !errors.Is(err, gone) || len(v.Collector.Report.Findings) > 0 {
		t.Errorf("error %v, findings %v", err, v.Collector.Report.Findings)
	}
}

// TestUnpackingIsBounded: a file that becomes too large is not unpacked, of
// which there is one advice; the others are compared.
func TestUnpackingIsBounded(t *testing.T) {
	t.Parallel()
	bomb := zeros(t, 14<<10, 0)
	data := packageOf(t, bitstream{"bomb", bomb, 14 << 10}, bitstream{"bomb2", bomb, 14 << 10}, bitstream{"one", zeros(t, 1, 0), 1})
	v := visitor(t, nil)
	begun := time.Now()
	if err := dump.Check(t.Context(), v, data, data.Size(), dump.Package{URI: "p.zip", Bitstreams: visit.SampleAll, Read: naming(2, "/bomb", "/bomb2", "/one")}); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(begun); took > 5*time.Second {
		t.Errorf("it took %s", took)
	}
	wantAdvice(t, v, "4 of 6 bitstreams")
	if n := v.Collector.Report.Resources; n != 2 {
		t.Errorf("%d resources, want 2", n)
	}
}

// TestCompressedLengthLies: the limit is that of what was read, whatever the
// directory states.
func TestCompressedLengthLies(t *testing.T) {
	t.Parallel()
	data := packageOf(t, bitstream{"a", zeros(t, 1024, 16*mib), 1024})
	v := visitor(t, nil)
	v.Unpacking.Unpacked = visit.FreeBytes // used up
	if err := dump.Check(t.Context(), v, data, data.Size(), dump.Package{URI: "p.zip", Bitstreams: visit.SampleAll, Read: naming(1, "/a")}); err != nil {
		t.Fatal(err)
	}
	wantAdvice(t, v, "1 of 1 bitstreams")
	if n := v.Unpacking.Unpacked - visit.FreeBytes; n > 700*mib {
		t.Errorf("%d bytes were unpacked", n)
	}
}

// TestUnpackedOnce: a file that many entries name is unpacked once, and each of
// them is compared with it.
func TestUnpackedOnce(t *testing.T) {
	t.Parallel()
	data := packageOf(t, bitstream{"a", zeros(t, 8, 0), 8})
	v := visitor(t, nil)
	if err := dump.Check(t.Context(), v, data, data.Size(), dump.Package{URI: "p.zip", Bitstreams: visit.SampleAll, Read: naming(5, "/a")}); err != nil {
		t.Fatal(err)
	}
	if r := v.Collector.Report; r.Resources != 5 || len(r.Findings) != 5 || v.Unpacking.Unpacked != 8*mib {
		t.Errorf("%d resources, %d bytes unpacked, findings %v", r.Resources, v.Unpacking.Unpacked, r.Findings)
	}
}

// TestTextIsCompared: what grows by a hundred times is compared, even when a run
// has used up what it may unpack besides.
func TestTextIsCompared(t *testing.T) {
	t.Parallel()
	data := packageOf(t, bitstream{"a", zeros(t, 8, 8*mib/100), 8})
	v := visitor(t, nil)
	v.Unpacking.Unpacked = visit.FreeBytes
	if err := dump.Check(t.Context(), v, data, data.Size(), dump.Package{URI: "p.zip", Bitstreams: visit.SampleAll, Read: naming(1, "/a")}); err != nil {
		t.Fatal(err)
	}
	if r := v.Collector.Report; r.Resources != 1 || r.Advice > 0 {
		t.Errorf("%d resources, findings %v", r.Resources, r.Findings)
	}
}

func wantAdvice(t *testing.T, v *visit.Visitor, text string) {
	t.Helper()
	r := v.Collector.Report
	if len(r.Findings) != 1 || r.Findings[0].Rule != "RS-ZIP-06" || r.Findings[0].Level != finding.Advice || !strings.Contains(r.Findings[0].Message, text) {
		t.Errorf("findings %v, want one of %s", r.Findings, text)
	}
}
