package vault

import (
	"fmt"
	"sync"

	"github.com/klauspost/compress/zstd"
)

// Chunks are compressed one by one, without what others have in front of them:
// each can be read for itself.

var encoder = sync.OnceValue(func() *zstd.Encoder {
	// SpeedDefault takes a fifth off what SpeedFastest leaves of text, at about
	// half the speed, which is still beyond that of disks.
	e, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedDefault), zstd.WithEncoderCRC(false),
		zstd.WithWindowSize(maxChunk), zstd.WithLowerEncoderMem(true))
	if err != nil {
		panic(err) // unreachable: the options are right
	}
	return e
})

var decoder = sync.OnceValue(func() *zstd.Decoder {
	d, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(0), zstd.WithDecoderMaxMemory(2*maxChunk), zstd.WithDecoderLowmem(true))
	if err != nil {
		panic(err) // unreachable: the options are right
	}
	return d
})

// deflate returns p compressed, in buf, or p itself if that is not shorter.
func deflate(buf, p []byte) []byte {
	if out := encoder().EncodeAll(p, buf[:0]); len(out) < len(p) {
		return out
	}
	return p
}

// inflate fills data with what the frame in p has.
func inflate(data, p []byte) error {
	out, err := decoder().DecodeAll(p, data[:0])
	if err != nil {
		return fmt.Errorf("%w: %w", errFormat, err)
	}
	if len(out) != len(data) {
		return fmt.Errorf("%w: %d bytes where there should be %d", errFormat, len(out), len(data))
	}
	copy(data, out) // which is data, where the decoder had room enough
	return nil
}
