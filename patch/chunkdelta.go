package patch

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"

	"lockstep/internal/chunkdelta"
)

// ApplyChunkDelta applies patch, of type [TypeChunkDelta], to old and returns at most
// limit bytes, else [ErrTooLarge]. It refuses a patch for other bytes than old with
// [ErrInvalid], and also a damaged one.
func ApplyChunkDelta(old, patch []byte, limit int64) ([]byte, error) {
	d, err := chunkdelta.Parse(patch)
	switch {
	case errors.Is(err, chunkdelta.ErrTooLarge):
		return nil, fmt.Errorf("%w: %w", ErrTooLarge, err)
	case err != nil:
		return nil, fmt.Errorf("%w: %w", ErrInvalid, err)
	case d.Size > limit:
		return nil, fmt.Errorf("apply delta: result of %d bytes: %w", d.Size, ErrTooLarge)
	case d.OldSize != int64(len(old)) || d.Old != sha256.Sum256(old):
		return nil, fmt.Errorf("apply delta: made for other bytes: %w", ErrInvalid)
	}
	out := make([]byte, d.Size)
	_, err = io.ReadFull(d.Reader(bytes.NewReader(old)), out)
	return out, err
}
