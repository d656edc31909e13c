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

// How the buffers of Writers grow. All together they keep no more in memory
// than Options.Held: those that wait for their Commit are many at times, each
// with the end of its blob. What is beyond goes to files.
const (
	firstGrowth = 4 << 10 // of a buffer; it doubles,
	lastGrowth  = 1 << 20 // and beyond this takes all it may need
)

// A buffer holds bytes that wait to be sent: in memory or, where that is short,
// in a file without a name.
type buffer struct {
	b     *Bucket
	mem   []byte
	file  *os.File // nil: all is in mem
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

// grow makes room for size bytes in memory, if there may be so much.
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

// content returns what is in f, to be read from the beginning.
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
		_ = f.file.Close() // nobody reads it again
		if f.named {
			_ = os.Remove(f.file.Name()) // what remains is an empty shell
		}
	}
	*f = buffer{b: f.b}
}

// A content is the body of a request.
type content struct {
	io.ReadSeeker
	size int64
}

// sums returns the digest that goes with a body, by which the service sees that
// it got what we sent: a SHA-256, which is signed, or MD5 where nothing is.
func (b *Bucket) sums(c content) (md5Base64, sha256Hex string, err error) {
	h := md5.New()
	if b.signed {
		h = sha256.New()
	}
	if _, err = io.Copy(h, c.ReadSeeker); err == nil {
		_, err = c.Seek(0, io.SeekStart)
	}
	if err != nil {
		return "", "", fmt.Errorf("read what is to be sent: %w", err)
	}
	if b.signed {
		return "", hex.EncodeToString(h.Sum(nil)), nil
	}
	return base64.StdEncoding.EncodeToString(h.Sum(nil)), "", nil
}
