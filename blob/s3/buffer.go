package s3

import (
	"bytes"
	"crypto/md5"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io"
	"os"
)

// The growth of the Writers' buffers. All together they use no more memory than
// Options.Held: there can be many Writers waiting for their Commit, each with
// the end of its blob. The rest goes to files.
const (
	firstGrowth = 4 << 10 // of a buffer; it doubles,
	lastGrowth  = 1 << 20 // and beyond this is allocated in full
)

// A buffer holds bytes waiting to be sent: in memory or, if that is scarce, in
// a file without a name.
type buffer struct {
	b     *Bucket
	mem   []byte
	file  *os.File // nil: everything is in mem
	named bool     // the file could not be unlinked while open
	size  int64
}

func (f *buffer) write(p []byte) error {
	if f.file == nil && !f.grow(len(f.mem)+len(p)) {
		if err := f.spill(); err != nil {
			return err
		}
	}
	if f.file == nil {
		f.mem = append(f.mem, p...)
	} else if _, err := f.file.Write(p); err != nil {
		return fmt.Errorf("keep what is to be sent: %w", err)
	}
	f.size += int64(len(p))
	return nil
}

// grow allocates memory for size bytes, if the limit allows.
func (f *buffer) grow(size int) bool {
	have := cap(f.mem)
	if size <= have {
		return true
	}
	want := max(size, 2*have, firstGrowth)
	if want > lastGrowth {
		want = f.b.opts.Memory
	}
	if size > want || f.b.held.Add(int64(want)) > f.b.opts.Held {
		if size <= want {
			f.b.held.Add(-int64(want))
		}
		return false
	}
	// Not from a pool: a request that failed may still be reading its body.
	f.mem = append(make([]byte, 0, want), f.mem...)
	f.b.held.Add(-int64(have))
	return true
}

// spill moves what is in memory to a file.
func (f *buffer) spill() error {
	file, err := os.CreateTemp(f.b.opts.TempDir, "lockstep-part-*")
	if err != nil {
		return fmt.Errorf("keep what is to be sent: %w", err)
	}
	f.named = os.Remove(file.Name()) != nil
	f.file = file
	if _, err := file.Write(f.mem); err != nil {
		return fmt.Errorf("keep what is to be sent: %w", err)
	}
	f.b.held.Add(-int64(cap(f.mem)))
	f.mem = nil
	return nil
}

// content returns the content of f, to be read from the beginning.
func (f *buffer) content() content {
	if f.file == nil {
		return content{bytes.NewReader(f.mem), f.size}
	}
	return content{io.NewSectionReader(f.file, 0, f.size), f.size}
}

// reset empties f.
func (f *buffer) reset() {
	f.b.held.Add(-int64(cap(f.mem)))
	if f.file != nil {
		_ = f.file.Close() // it is never read again
		if f.named {
			_ = os.Remove(f.file.Name()) // an empty file remains if this fails
		}
	}
	*f = buffer{b: f.b}
}

// A content is the body of a request.
type content struct {
	io.ReadSeeker
	size int64
}

// sums returns the digest of a body, by which the service verifies what it
// received: a SHA-256, which is signed, or MD5 for unsigned requests.
func (c content) sums(signed bool) (md5Base64, sha256Hex string, err error) {
	h := md5.New()
	if signed {
		h = sha256.New()
	}
	if _, err = io.Copy(h, c.ReadSeeker); err == nil {
		_, err = c.Seek(0, io.SeekStart)
	}
	if err != nil {
		return "", "", fmt.Errorf("read what is to be sent: %w", err)
	}
	if signed {
		return "", hex.EncodeToString(h.Sum(nil)), nil
	}
	return base64.StdEncoding.EncodeToString(h.Sum(nil)), "", nil
}

// md5 returns the digest that most services use as the entity tag of an object.
func (c content) md5() (string, error) {
	h := md5.New()
	if _, err := io.Copy(h, c.ReadSeeker); err != nil {
		return "", fmt.Errorf("read what is to be sent: %w", err)
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}
