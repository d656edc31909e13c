package vault

import "lockstep/internal/chunks"

// classes are the sizes of chunks. They are part of the format: with other values,
// stored chunks would no longer be found. Large contents have larger chunks, so that
// the table of a terabyte is still small.
var classes = []chunks.Class{
	{Until: 64 << 20, Min: 4 << 10, Avg: 16 << 10, Max: 64 << 10},
	{Until: 1 << 30, Min: 16 << 10, Avg: 64 << 10, Max: 256 << 10},
	{Min: 256 << 10, Avg: 1 << 20, Max: maxChunk},
}

// maxChunk is the maximum length of a chunk.
const maxChunk = 4 << 20

// bufferSize is how much of a content is read at a time, while its chunks are
// small.
const bufferSize = 256 << 10
