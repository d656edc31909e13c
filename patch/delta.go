package patch

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"math"
	"math/bits"
	"sync"

	"github.com/klauspost/compress/zstd"
)

// deltaMagic begins a delta: a skippable frame's header, so that tools which
// know only plain Zstandard skip it, followed by the dictionary's SHA-256 (RFC
// 9842, section 5).
var deltaMagic = [8]byte{0x5e, 0x2a, 0x4d, 0x18, 0x20, 0, 0, 0}

const deltaHeader = len(deltaMagic) + sha256.Size

// maxDelta is the maximum size of contents that deltas are applied to: the old
// bytes and as much of the new ones are held in memory.
const maxDelta = 16 << 20

// A reader of RFC 9842 need not accept a window, here the length of the new
// bytes, above 8 MiB or 1.25 times the dictionary, whichever is more.
const deltaWindow = 8 << 20

// DeltaFits reports whether every reader of RFC 9842 can read a delta between
// bytes of these lengths.
func DeltaFits(before, after int64) bool { return after <= max(deltaWindow, before+before/4) }

// smallDelta is the size, old and new together, up to which a pooled encoder is
// used, which takes a millisecond. For larger contents it loses matches that are
// far back, and a separate encoder is created, which takes ten times as long.
const smallDelta = 512 << 10

// Deltas makes deltas. Its methods are safe for concurrent use.
type Deltas struct{ small sync.Pool }

// Make returns the delta that turns before into after.
func (d *Deltas) Make(before, after []byte) ([]byte, error) {
	sum := sha256.Sum256(before)
	out := append(make([]byte, 0, deltaHeader+1<<10), deltaMagic[:]...)
	out = append(out, sum[:]...)
	if len(before)+len(after) > smallDelta {
		window := 1 << bits.Len(uint(len(before)+len(after)-1))
		e, err := zstd.NewWriter(nil, zstd.WithEncoderDictRaw(0, before), zstd.WithWindowSize(window), zstd.WithSingleSegment(true),
			zstd.WithEncoderLevel(zstd.SpeedBestCompression), zstd.WithEncoderConcurrency(1), zstd.WithLowerEncoderMem(true))
		if err != nil {
			return nil, fmt.Errorf("make delta: %w", err)
		}
		return e.EncodeAll(after, out), nil
	}
	e, _ := d.small.Get().(*zstd.Encoder)
	var err error
	if e == nil {
		e, err = zstd.NewWriter(nil, zstd.WithEncoderDictRaw(0, before), zstd.WithWindowSize(smallDelta), zstd.WithSingleSegment(true),
			zstd.WithEncoderLevel(zstd.SpeedDefault), zstd.WithEncoderConcurrency(1), zstd.WithLowerEncoderMem(true))
	} else {
		err = e.ResetWithOptions(nil, zstd.WithEncoderDictRaw(0, before))
	}
	if err != nil {
		return nil, fmt.Errorf("make delta: %w", err)
	}
	defer d.small.Put(e)
	return e.EncodeAll(after, out), nil
}

// ApplyDelta applies patch, of type [TypeDelta], to old and returns at most
// limit bytes, else [ErrTooLarge]. It refuses a patch for other bytes than old
// with [ErrInvalid] before decompressing anything, and also a damaged one.
// Memory is bounded by limit, whatever patch claims. The caller verifies the
// result against the announced hash (RS-REL-34).
func ApplyDelta(old, patch []byte, limit int64) ([]byte, error) {
	var out bytes.Buffer
	if err := unpack(&out, old, patch, max(limit, 0)); err != nil {
		return nil, fmt.Errorf("apply delta: %w", err)
	}
	return out.Bytes(), nil
}

// DeltaYields reports whether applying patch to old gives the bytes of after,
// without holding them a second time.
func DeltaYields(old, patch, after []byte) bool {
	c := &comparer{after}
	return unpack(c, old, patch, int64(len(after))) == nil && len(c.rest) == 0
}

// A comparer accepts only the expected bytes.
type comparer struct{ rest []byte }

func (c *comparer) Write(p []byte) (int, error) {
	if !bytes.HasPrefix(c.rest, p) {
		return 0, ErrInvalid
	}
	c.rest = c.rest[len(p):]
	return len(p), nil
}

// unpack writes the result of applying patch to old to w.
func unpack(w io.Writer, old, patch []byte, limit int64) error {
	if len(patch) < deltaHeader || !bytes.Equal(patch[:len(deltaMagic)], deltaMagic[:]) {
		return fmt.Errorf("does not begin like one: %w", ErrInvalid)
	}
	if sum := sha256.Sum256(old); !bytes.Equal(patch[len(deltaMagic):deltaHeader], sum[:]) {
		return fmt.Errorf("made for other bytes: %w", ErrInvalid)
	}
	frame := patch[deltaHeader:]
	var h zstd.Header
	if err := h.Decode(frame); err != nil || h.Skippable || h.DictionaryID != 0 {
		return fmt.Errorf("no frame follows the header: %w", ErrInvalid)
	}
	if h.HasFCS && h.FrameContentSize > uint64(limit) {
		return fmt.Errorf("result of %d bytes: %w", h.FrameContentSize, ErrTooLarge)
	}
	if buf, ok := w.(*bytes.Buffer); ok && h.HasFCS {
		buf.Grow(int(h.FrameContentSize) + bytes.MinRead) // at most limit
	}
	d, err := zstd.NewReader(bytes.NewReader(frame), zstd.WithDecoderDictRaw(0, old), zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true),
		zstd.WithDecoderMaxWindow(decoderWindow(limit)))
	if err != nil {
		return fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	defer d.Close()
	n, err := io.Copy(w, io.LimitReader(d, limit+1))
	switch {
	case errors.Is(err, zstd.ErrDecoderSizeExceeded), errors.Is(err, zstd.ErrWindowSizeExceeded), err == nil && n > limit:
		return fmt.Errorf("result above %d bytes: %w", limit, ErrTooLarge)
	case err != nil:
		return fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	return nil
}

// decoderWindow returns the largest window accepted for results up to limit: a
// frame that is not a single segment may claim a larger window than it fills.
func decoderWindow(limit int64) uint64 {
	return max(deltaWindow, min(uint64(limit)*2, math.MaxInt32))
}
