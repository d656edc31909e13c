package lists

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"hash"
	"io"

	"lockstep/blob"
	"lockstep/catalog"
	"lockstep/resourcesync"
	"lockstep/source/internal/document"
)

// closingTag ends a list; entries are appended before it.
const closingTag = "</urlset>\n"

// copyBytes is the size of the buffer with which old bytes are copied.
const copyBytes = 256 << 10

// errForeign reports a document whose bytes are not those that were written last.
var errForeign = errors.New("the document was changed by another program")

// extend writes the open list again, with the changes through upto added. It copies the
// bytes of the present entries, so that no change is read twice, however long the list
// is. It fails with errForeign if they differ from the size and digest in st.
func (b *changeBuild) extend(ctx context.Context, st *changeState, name string, h resourcesync.Header, upto catalog.Seq) (catalog.Seq, error) {
	old, err := b.docs.Open(ctx, name)
	if errors.Is(err, blob.ErrNotExist) {
		return 0, errForeign
	}
	if err != nil {
		return 0, err
	}
	defer old.Close() // opened for reading only
	if old.Info().Size != st.Open.Size+int64(len(closingTag)) {
		return 0, errForeign
	}
	d, to, err := b.beginOpen(ctx, name, h)
	if err != nil {
		return 0, err
	}
	if err := to.copy(old, st.Open.Size, st.Open.Sum); err != nil {
		d.Discard()
		return 0, err
	}
	to.skip = int(d.Bytes()) - len(closingTag) // the header
	d.Before = st.Open.Size - int64(to.skip)
	return b.finishOpen(ctx, st, d, to, st.Through, upto)
}

// write writes the open list from its first change through upto.
func (b *changeBuild) write(ctx context.Context, st *changeState, name string, h resourcesync.Header, upto catalog.Seq) (catalog.Seq, error) {
	d, to, err := b.beginOpen(ctx, name, h)
	if err != nil {
		return 0, err
	}
	return b.finishOpen(ctx, st, d, to, st.Open.After, upto)
}

func (b *changeBuild) beginOpen(ctx context.Context, name string, h resourcesync.Header) (*document.Writer, *openWriter, error) {
	to := &openWriter{sum: sha256.New()}
	d, err := b.docs.BeginTo(ctx, name, h, b.stamp, func(w io.Writer) io.Writer {
		to.Writer = w
		return to
	})
	return d, to, err
}

// finishOpen writes the changes above after, through upto, and records the size and
// digest of the document in st.
func (b *changeBuild) finishOpen(ctx context.Context, st *changeState, d *document.Writer, to *openWriter, after, upto catalog.Seq) (catalog.Seq, error) {
	first, last, err := b.fill(ctx, d, after, upto)
	if err == nil {
		err = d.Close()
	}
	if err != nil {
		d.Discard()
		return last.Seq, err
	}
	b.open = d.Blob
	b.refused += d.Refused
	b.bytes += to.size + int64(len(to.held))
	if after == st.Open.After {
		st.Open.First = first.At
	}
	st.Open.Size, st.Open.Sum = to.size, hex.EncodeToString(to.sum.Sum(nil))
	if string(to.held) != closingTag { // unreachable: that is how a list ends
		st.Open.Size = 0
	}
	if last.Seq > after || after == st.Open.After && len(st.Closed) == 0 && last.Seq != st.Through {
		st.Through, st.ThroughTime = last.Seq, last.At
	}
	return last.Seq, nil
}

// An openWriter passes a document on and computes the digest of all of it except its
// end, which later entries replace.
type openWriter struct {
	io.Writer
	skip int // bytes to drop: a header that was copied already
	sum  hash.Hash
	size int64  // bytes in the digest
	held []byte // the end, which is not in the digest yet
}

func (w *openWriter) Write(p []byte) (int, error) {
	n := min(w.skip, len(p))
	w.skip -= n
	m, err := w.Writer.Write(p[n:])
	if err != nil {
		return n + m, err
	}
	w.held = append(w.held, p[n:]...)
	if over := len(w.held) - len(closingTag); over > 0 {
		w.add(w.held[:over])
		w.held = append(w.held[:0], w.held[over:]...)
	}
	return len(p), nil
}

func (w *openWriter) add(p []byte) {
	_, _ = w.sum.Write(p) // never fails
	w.size += int64(len(p))
}

// copy copies the first size bytes of r, which must have the digest sum, and
// be followed by the end of a list.
func (w *openWriter) copy(r io.Reader, size int64, sum string) error {
	buf := make([]byte, min(copyBytes, size))
	for size > 0 {
		n, err := io.ReadFull(r, buf[:min(int64(len(buf)), size)])
		if err != nil {
			return err
		}
		w.add(buf[:n])
		if _, err := w.Writer.Write(buf[:n]); err != nil {
			return err
		}
		size -= int64(n)
	}
	end, err := io.ReadAll(r)
	if err != nil {
		return err
	}
	if hex.EncodeToString(w.sum.Sum(nil)) != sum || !bytes.Equal(end, []byte(closingTag)) {
		return errForeign
	}
	return nil
}
