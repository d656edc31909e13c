package bucket

import (
	"encoding/binary"
	"time"

	"lockstep/intake/internal/pathname"
)

// An object is an object in the listing of a bucket.
type object struct {
	path    string // the key, escaped as in a URI
	size    int64
	modTime time.Time // truncated to microseconds
	etag    string
}

// key returns the object's key.
func (o *object) key() string {
	key, _ := pathname.Unescape(o.path) // this package escaped it
	return key
}

// pack appends all fields but the path to dst.
func (o *object) pack(dst []byte) []byte {
	dst = binary.AppendVarint(dst, o.size)
	dst = binary.AppendVarint(dst, o.modTime.UnixMicro())
	return append(dst, o.etag...)
}

// parseObject is the inverse of [object.pack]; path is the escaped key.
func parseObject(path string, packed []byte) object {
	size, n := binary.Varint(packed)
	micro, m := binary.Varint(packed[n:])
	return object{path: path, size: size, modTime: time.UnixMicro(micro).UTC(), etag: string(packed[n+m:])}
}
