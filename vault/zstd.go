package vault

import (
	"fmt"
	"sync"

	"github.com/klauspost/compress/zstd"
)

// Chunks are compressed independently of each other, so that each can be read
// alone.

var encoder = sync.OnceValue(func() *zstd.Encoder {
	// SpeedDefault reduces text by another fifth compared to SpeedFastest, at about
	// half the speed, which is still faster than disks.
	e, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedDefault), zstd.WithEncoderCRC(false),
		zstd.WithWindowSize(maxChunk), zstd.WithLowerEncoderMem(true))
	if err != nil {
		panic(err) // unreachable: the options are valid
	}
	return e
})

var decoder = sync.OnceValue(func() *zstd.Decoder {
	d, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(0), zstd.WithDecoderMaxMemory(2*maxChunk), zstd.WithDecoderLowmem(true))
	if err != nil {
		panic(err) // unreachable: the options are valid
	}
	return d
})

// deflate returns p compressed, in buf, or p itself if that is not longer.
func deflate(buf, p []byte) []byte {
	if out := encoder().EncodeAll(p, buf[:0]); len(out) < len(p) {
		return out
	}
	return p
}

// inflate decompresses the frame in p into data.
func inflate(data, p []byte) error {
	out, err := decoder().DecodeAll(p, data[:0])
	if err != nil {
		return fmt.Errorf("%w: %w", errFormat, err)
	}
	if len(out) != len(data) {
		return fmt.Errorf("%w: %d bytes where there should be %d", errFormat, len(out), len(data))
	}
	copy(data, out) // out is data, if the decoder had enough space
	return nil
}
