package unpack_test

import (
	"archive/zip"
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"

	"lockstep/internal/unpack"
)

// seeds are archives of all kinds.
func seeds(t testing.TB) [][]byte {
	text := strings.Repeat("some text ", 20)
	long := le.AppendUint16(le.AppendUint16(nil, 1), 24)
	for _, v := range []uint64{200, 200, 0} {
		long = le.AppendUint64(long, v)
	}
	all := []archive{
		{},
		{files: []file{{name: "a", data: text}}},
		{files: []file{{name: "manifest.xml", data: text, method: 8}, {name: "x/", attrs: 0o40755 << 16}, {name: "x/y", data: ""}}},
		{files: []file{{name: "b", data: text, flags: 8, method: 8, local: set32(14, 0)}}, prefix: []byte("#!/bin/sh\n")},
		{files: []file{{name: "c", data: text, extra: long, record: set32(24, 1<<32-1)}}, comment: "PK\x05\x06 and so on, and on, and on"},
		{files: []file{{name: "d", data: text, at: 5}, {name: "e", data: text, gap: 9}, {name: "e", data: "other"}}},
	}
	var out [][]byte
	for _, a := range all {
		out = append(out, a.bytes(t))
	}
	var buf bytes.Buffer
	w := zip.NewWriter(&buf)
	f, _ := w.Create("streamed") // in memory
	_, _ = io.WriteString(f, text)
	_ = w.Close()
	return append(out, buf.Bytes())
}

// FuzzDirectory reads any input: without panic, within limits, and with the
// same result as archive/zip, if that accepts the input.
func FuzzDirectory(f *testing.F) {
	for _, b := range seeds(f) {
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		d, err := unpack.Read(bytes.NewReader(b), int64(len(b)), unpack.Limits{})
		if err != nil {
			var form *unpack.FormatError
			if !errors.Is(err, unpack.ErrNotZip) && !errors.Is(err, unpack.ErrLimit) && !errors.As(err, &form) {
				t.Fatalf("Read: %v is of no kind", err)
			}
			return
		}
		d.Manifest()
		theirs := filesOf(b, len(d.Members))
		for i := range d.Members {
			m := &d.Members[i]
			d.Find(m.Name)
			if m.Refused() != "" {
				continue
			}
			if m.Offset < 0 || m.Offset+m.Extent() > d.Start || m.Extent() < m.Packed {
				t.Fatalf("%q lies at %d, %d bytes, before %d", m.Name, m.Offset, m.Extent(), d.Start)
			}
			if m.Size > 1<<20 {
				continue
			}
			got, err := content(b, m)
			if err != nil {
				continue
			}
			if int64(len(got)) != m.Size {
				t.Fatalf("%q has %d bytes, said %d", m.Name, len(got), m.Size)
			}
			if theirs == nil {
				continue
			}
			if !contains(theirs, m, got) {
				t.Errorf("%q holds %q, archive/zip has no such file", m.Name, got)
			}
		}
	})
}

// filesOf returns what archive/zip finds in b, if it finds n files.
func filesOf(b []byte, n int) []*zip.File {
	r, err := zip.NewReader(bytes.NewReader(b), int64(len(b)))
	if err != nil && !errors.Is(err, zip.ErrInsecurePath) || len(r.File) != n {
		return nil
	}
	return r.File
}

// contains reports whether one of the files is m, with the same content; one
// that archive/zip cannot read may have any content.
func contains(files []*zip.File, m *unpack.Member, got string) bool {
	for _, f := range files {
		if f.CRC32 != m.CRC || f.UncompressedSize64 != uint64(m.Size) || f.CompressedSize64 != uint64(m.Packed) || f.Method != m.Method {
			continue
		}
		r, err := f.Open()
		if err != nil {
			return true
		}
		data, err := io.ReadAll(r)
		_ = r.Close() // only read
		if err != nil || string(data) == got {
			return true
		}
	}
	return false
}

// FuzzMember reads any input in place of a member.
func FuzzMember(f *testing.F) {
	text := strings.Repeat("some text ", 20)
	for _, method := range []uint16{0, 8} {
		b := (&archive{files: []file{{name: "x", data: text, method: method}, {name: "y", data: "z", gap: 100}}}).bytes(f)
		f.Add(b[:60], method == 8)
		f.Add(b, method == 8)
	}
	packages := map[bool][]byte{}
	for _, deflated := range []bool{false, true} {
		method := uint16(0)
		if deflated {
			method = 8
		}
		packages[deflated] = (&archive{files: []file{{name: "x", data: text, method: method}, {name: "y", data: "z", gap: 100}}}).bytes(f)
	}
	f.Fuzz(func(t *testing.T, b []byte, deflated bool) {
		m, _ := read(t, packages[deflated]).Find("x")
		whole, werr := m.Bytes(b, nil)
		r, err := m.Open(bytes.NewReader(b))
		var streamed []byte
		if err == nil {
			defer r.Close()
			streamed, err = io.ReadAll(r)
		}
		if (werr == nil) != (err == nil) || err == nil && (string(streamed) != text || string(whole) != text) {
			t.Errorf("Bytes: %q, %v, Open: %q, %v", whole, werr, streamed, err)
		}
		if int64(len(streamed)) > m.Size {
			t.Errorf("%d bytes of %d", len(streamed), m.Size)
		}
		var wrong *unpack.MemberError
		if err != nil && !errors.As(err, &wrong) {
			t.Errorf("%v is of no kind", err)
		}
	})
}
