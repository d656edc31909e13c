package s3

import (
	"bytes"
	"crypto/md5"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"hash"
	"io"
	"os"
)

// maxHeld bounds what all Writers of a Bucket together keep in memory: those
// that wait for their Commit are many at times, each with the end of its blob.
// What is beyond goes to files.
const maxHeld = 64 << 20

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
	if f.file == nil && f.b.held.Add(int64(len(p))) > maxHeld {
		f.b.held.Add(-int64(len(p)))
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
	f.b.held.Add(-int64(len(f.mem)))
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
	f.b.held.Add(-int64(len(f.mem)))
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

// sums returns the digests that go with a body: MD5, by which the service sees
// that it got what we sent, and where no TLS protects it SHA-256, signed.
func (b *Bucket) sums(c content) (md5Base64, sha256Hex string, err error) {
	sum, signed := md5.New(), sha256.New()
	hashes := []hash.Hash{sum, signed}
	if b.secure {
		hashes = hashes[:1]
	}
	ws := make([]io.Writer, len(hashes))
	for i, h := range hashes {
		ws[i] = h
	}
	if _, err = io.Copy(io.MultiWriter(ws...), c.ReadSeeker); err == nil {
		_, err = c.Seek(0, io.SeekStart)
	}
	if err != nil {
		return "", "", fmt.Errorf("read what is to be sent: %w", err)
	}
	if !b.secure {
		sha256Hex = hex.EncodeToString(signed.Sum(nil))
	}
	return base64.StdEncoding.EncodeToString(sum.Sum(nil)), sha256Hex, nil
}
