package unpack_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"testing"

	"lockstep/internal/unpack"
)

// TestRefused: members that are not plain files state why they are not read,
// and other members are still read (RS-ZIP-06).
func TestRefused(t *testing.T) {
	t.Parallel()
	big := strings.Repeat("\x00", 100_000)
	tests := map[string]struct {
		file file
		want string // "" if it is read
	}{
		"plain":            {file{name: "x", data: "x"}, ""},
		"plain of Unix":    {file{name: "x", data: "x", attrs: 0o100644 << 16}, ""},
		"plain of Windows": {file{name: "x", data: "x", attrs: 0x20}, ""},
		"climbs":           {file{name: "../x", data: "x"}, "leads out"},
		"climbs inside":    {file{name: "a/../../x", data: "x"}, "leads out"},
		"climbs backwards": {file{name: `a\..\..\x`, data: "x"}, "leads out"},
		"absolute climb":   {file{name: "/../x", data: "x"}, "leads out"},
		"drive":            {file{name: "C:x", data: "x"}, "leads out"},
		"drive, absolute":  {file{name: `/c:\x`, data: "x"}, "leads out"},
		"NUL":              {file{name: "x\x00.txt", data: "x"}, "leads out"},
		"no name":          {file{name: "/", data: "x"}, "leads out"},
		"dots":             {file{name: "..x/x..", data: "x"}, ""},
		"folder":           {file{name: "x/", data: ""}, "directory"},
		"folder of Unix":   {file{name: "x", data: "", attrs: 0o040755 << 16}, "directory"},
		"symlink":          {file{name: "x", data: "/etc/passwd", attrs: 0o120777 << 16}, "link"},
		"reparse point":    {file{name: "x", data: "x", attrs: 0x400}, "link"},
		"device":           {file{name: "x", data: "", attrs: 0o020666 << 16}, "device"},
		"disk":             {file{name: "x", data: "", attrs: 0o060666 << 16}, "device"},
		"pipe":             {file{name: "x", data: "", attrs: 0o010666 << 16}, "device"},
		"socket":           {file{name: "x", data: "", attrs: 0o140666 << 16}, "device"},
		"device, Windows":  {file{name: "x", data: "", attrs: 0x40}, "device"},
		"encrypted":        {file{name: "x", data: "x", flags: 1}, "encrypted"},
		"strong":           {file{name: "x", data: "x", flags: 1 << 6}, "encrypted"},
		"masked":           {file{name: "x", data: "x", flags: 1 << 13}, "encrypted"},
		"other volume":     {file{name: "x", data: "x", disk: 1}, "volume"},
		"deflate64":        {file{name: "x", data: "x", method: 9}, "method 9"},
		"zstd":             {file{name: "x", data: "x", method: 93}, "method 93"},
		"patched data":     {file{name: "x", data: "x", flags: 1 << 5}, "method"},
		"stored, longer":   {file{name: "x", data: big, packed: []byte("abc")}, "larger"},
		"deflated, absurd": {file{name: "x", data: big, packed: []byte("abc"), method: 8}, "larger"},
		"dense":            {file{name: "x", data: big, method: 8}, ""},
		"beyond":           {file{name: "x", data: "x", at: 1 << 30}, "directory"},
		"into directory":   {file{name: "x", data: strings.Repeat("x", 80), packed: []byte{}, record: set32(20, 80)}, "directory"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := archive{files: []file{{name: "before", data: "1"}, tt.file, {name: "behind", data: "2"}}}
			if name == "into directory" {
				a.files = a.files[:2]
			}
			b := a.bytes(t)
			d := read(t, b)
			for i := range d.Members {
				m := &d.Members[i]
				switch m.Name {
				case tt.file.name:
					if got := m.Refused(); !strings.Contains(got, tt.want) || (got == "") != (tt.want == "") {
						t.Errorf("refused because %q, want %q", got, tt.want)
					}
					_, err := m.Open(bytes.NewReader(b))
					var wrong *unpack.MemberError
					if (tt.want != "") != errors.As(err, &wrong) && tt.want != "" {
						t.Errorf("Open = %v", err)
					}
				default:
					if got, err := content(b, m); err != nil || len(got) != 1 {
						t.Errorf("%s: %q, %v", m.Name, got, err)
					}
				}
			}
		})
	}
}

// TestDisagree: the properties of a member are verified when it is read.
func TestDisagree(t *testing.T) {
	t.Parallel()
	text := strings.Repeat("text ", 1000)
	both := func(edits ...func([]byte) []byte) func([]byte) []byte {
		return func(b []byte) []byte {
			for _, e := range edits {
				b = e(b)
			}
			return b
		}
	}
	tests := map[string]struct {
		file file
		want string
	}{
		"no header":      {file{data: text, local: set32(0, 0x12345678)}, "no member"},
		"name":           {file{data: text, local: func(b []byte) []byte { b[len(b)-1] = 'y'; return b }}, "name"},
		"no name":        {file{data: text, local: func(b []byte) []byte { le.PutUint16(b[26:], 0); return b[:30] }}, "name"},
		"method":         {file{data: text, local: set16(8, 8)}, "method"},
		"encryption":     {file{data: text, local: set16(6, 1)}, "encryption"},
		"checksum":       {file{data: text, local: set32(14, 7)}, "checksum"},
		"packed size":    {file{data: text, local: set32(18, 7)}, "size"},
		"size":           {file{data: text, local: set32(22, 7)}, "size"},
		"long extra":     {file{data: text, local: set16(28, 60_000)}, "overlaps"},
		"wrong data":     {file{data: text, packed: []byte(strings.ToUpper(text))}, "checksum"},
		"wrong deflated": {file{data: text, packed: deflated(strings.ToUpper(text)), method: 8}, "checksum"},
		"no deflate":     {file{data: text, packed: []byte(text), method: 8}, "cannot be read"},
		"cut":            {file{data: text, packed: deflated(text)[:10], method: 8}, ""},
		"more":           {file{data: text, packed: deflated(text + "and more"), method: 8}, "more"},
		"fewer":          {file{data: text, packed: deflated(text[1:]), method: 8}, "directory says"},
		"nothing":        {file{data: text, packed: deflated(""), method: 8, local: both(set32(22, 5000))}, "directory says"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tt.file.name = "x"
			a := archive{files: []file{tt.file, {name: "behind", data: "2", gap: 1}}}
			b := a.bytes(t)
			d := read(t, b)
			m, ok := d.Find("x")
			if !ok {
				t.Fatal("there is none")
			}
			_, err := content(b, m)
			var wrong *unpack.MemberError
			if !errors.As(err, &wrong) || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%v, want %q", err, tt.want)
			}
			if m, _ := d.Find("behind"); m == nil {
				t.Error("what is behind is gone")
			} else if got, err := content(b, m); got != "2" || err != nil {
				t.Errorf("what is behind: %q, %v", got, err)
			}
		})
	}
}

// TestOverlap: members that share bytes are refused (a quine, or a bomb whose
// members share compressed data).
func TestOverlap(t *testing.T) {
	t.Parallel()
	inner := archive{files: []file{{name: "inner", data: strings.Repeat("y", 500)}}}
	kernel := inner.bytes(t)
	a := archive{files: []file{{name: "outer", data: string(kernel)}}}
	offset := int64(30 + len("outer"))
	a.files = append(a.files, file{name: "inner", data: strings.Repeat("y", 500), at: offset}, file{name: "apart", data: "z"})
	b := a.bytes(t)
	d := read(t, b)
	for _, name := range []string{"outer", "inner"} {
		if m, _ := d.Find(name); m == nil || !strings.Contains(m.Refused(), "overlaps") {
			t.Errorf("%s is not refused: %+v", name, m)
		}
	}
	if m, _ := d.Find("apart"); m == nil {
		t.Error("apart is gone")
	} else if got, err := content(b, m); got != "z" || err != nil {
		t.Errorf("apart: %q, %v", got, err)
	}
}

// TestTwice: of two members with the same name neither is used.
func TestTwice(t *testing.T) {
	t.Parallel()
	a := archive{files: []file{{name: "x", data: "1"}, {name: "/x", data: "2"}, {name: "y", data: "3"}}}
	d := read(t, a.bytes(t))
	if m, ok := d.Find("x"); !ok || !strings.Contains(m.Refused(), "two") {
		t.Errorf("Find(x) = %+v, %v", m, ok)
	}
	if m, ok := d.Find("y"); !ok || m.Refused() != "" {
		t.Errorf("Find(y) = %+v, %v", m, ok)
	}
}

// TestDirectoryLies: impossible directories are refused.
func TestDirectoryLies(t *testing.T) {
	t.Parallel()
	files := []file{{name: "a", data: "1"}, {name: "b", data: "2"}}
	tests := map[string]archive{
		"count too high":      {files: files, count: 1},
		"count too low":       {files: files, count: -1},
		"no count":            {files: files, count: -2},
		"beyond the end":      {files: files, end: set32(16, 1<<31)},
		"longer than all":     {files: files, end: set32(12, 1<<31)},
		"several disks":       {files: files, end: set16(4, 1)},
		"directory elsewhere": {files: files, end: set16(6, 1)},
		"comment beyond":      {files: files, end: set16(20, 100)},
		"name beyond":         {files: []file{{name: "a", record: set16(28, 60_000)}}},
		"comment of member":   {files: []file{{name: "a", record: set16(32, 60_000)}}},
	}
	for name, a := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := a.bytes(t)
			d, err := unpack.Read(bytes.NewReader(b), int64(len(b)), unpack.Limits{})
			var form *unpack.FormatError
			if !errors.Is(err, unpack.ErrNotZip) && !errors.As(err, &form) {
				t.Errorf("Read = %+v, %v, want an error of form", d, err)
			}
		})
	}
}

// TestComment: a comment that looks like an end record does not hide the true
// one.
func TestComment(t *testing.T) {
	t.Parallel()
	false1 := "PK\x05\x06" + strings.Repeat("\x00", 18)
	false2 := "PK\x05\x06\x00\x00\x00\x00\x01\x00\x01\x00\x2f\x00\x00\x00\x00\x00\x00\x00\x00\x00"
	for _, comment := range []string{false1, false2, false1 + false2 + "x", strings.Repeat("PK\x05\x06", 2000)} {
		a := archive{files: []file{{name: "a", data: "1"}}, comment: comment}
		b := a.bytes(t)
		d := read(t, b)
		if m, _ := d.Find("a"); m == nil {
			t.Errorf("comment %.30q: the member is gone", comment)
		} else if got, err := content(b, m); got != "1" || err != nil {
			t.Errorf("comment %.30q: %q, %v", comment, got, err)
		}
	}
}

// TestLimits: reading stops at the limits, before it becomes expensive.
func TestLimits(t *testing.T) {
	t.Parallel()
	a := archive{}
	for i := range 20 {
		a.files = append(a.files, file{name: fmt.Sprint("name", i), data: "x"})
	}
	b := a.bytes(t)
	for _, l := range []unpack.Limits{{Members: 19}, {Directory: 500}} {
		if _, err := unpack.Read(bytes.NewReader(b), int64(len(b)), l); !errors.Is(err, unpack.ErrLimit) {
			t.Errorf("%+v: %v, want ErrLimit", l, err)
		}
	}
	if _, err := unpack.Read(bytes.NewReader(b), int64(len(b)), unpack.Limits{Members: 20, Directory: 2000}); err != nil {
		t.Error(err)
	}
}

// An endless is a package whose directory has ten million members, generated
// while it is read.
type endless struct {
	record []byte
	n      int64
	end    []byte
}

func (e *endless) size() int64 { return e.n*int64(len(e.record)) + int64(len(e.end)) }

func (e *endless) ReadAt(p []byte, off int64) (int, error) {
	n := 0
	for n < len(p) && off < e.size() {
		var from []byte
		if dir := e.n * int64(len(e.record)); off < dir {
			from = e.record[off%int64(len(e.record)):]
		} else {
			from = e.end[off-dir:]
		}
		k := copy(p[n:], from)
		n, off = n+k, off+int64(k)
	}
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

// TestMemory: any directory stays below 32 MB.
func TestMemory(t *testing.T) { // alone: it measures
	entry := func(name string) *endless {
		var a archive
		a.files = []file{{name: name}}
		b := a.bytes(t)
		i := bytes.LastIndex(b, []byte("PK\x01\x02"))
		j := bytes.LastIndex(b, []byte("PK\x05\x06"))
		return &endless{record: b[i:j], end: b[j:]}
	}
	tests := map[string]struct {
		name string
		n    int64
		fold bool
		ok   bool
	}{
		"ten million":      {"abc", 10_000_000, false, false},
		"the most":         {strings.Repeat(`\x`, 50), unpack.DefaultMembers, true, true},
		"the longest":      {strings.Repeat(`e`, 65_000), 250, true, true},
		"the most, folded": {strings.Repeat("e\u0301", 35), unpack.DefaultMembers, true, true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			e := entry(tt.name)
			if e.n = tt.n; raced && tt.ok {
				e.n /= 10
			}
			dir := uint64(e.n) * uint64(len(e.record))
			le.PutUint16(e.end[8:], uint16(e.n))
			le.PutUint16(e.end[10:], uint16(e.n))
			le.PutUint32(e.end[12:], uint32(dir))
			le.PutUint32(e.end[16:], 0)
			var before, after runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&before)
			d, err := unpack.Read(e, e.size(), unpack.Limits{})
			if (err == nil) != tt.ok {
				t.Errorf("Read: %v", err)
			}
			if d != nil && tt.fold {
				d.Find("something else")
			}
			runtime.GC()
			runtime.ReadMemStats(&after)
			t.Logf("%d KB held", (int64(after.HeapAlloc)-int64(before.HeapAlloc))>>10)
			if grown := int64(after.HeapAlloc) - int64(before.HeapAlloc); grown > 32<<20 {
				t.Errorf("%d MB held", grown>>20)
			}
			runtime.KeepAlive(d)
		})
	}
}
