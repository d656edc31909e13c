package bucket

import (
	"encoding/binary"
	"time"

	"lockstep/intake/internal/pathname"
)

// An object is what a bucket lists.
type object struct {
	path    string // the key as it stands in a URI
	size    int64
	modTime time.Time // to the microsecond
	etag    string
}

// key returns the object's key.
func (o *object) key() string {
	key, _ := pathname.Unescape(o.path) // it was escaped by us
	return key
}

// pack returns all but the path in bytes.
func (o *object) pack(dst []byte) []byte {
	dst = binary.AppendVarint(dst, o.size)
	dst = binary.AppendVarint(dst, o.modTime.UnixMicro())
	return append(dst, o.etag...)
}

// parseObject undoes [object.pack]; path is the key as it stands in a URI.
func parseObject(path string, packed []byte) object {
	size, n := binary.Varint(packed)
	micro, m := binary.Varint(packed[n:])
	return object{path: path, size: size, modTime: time.UnixMicro(micro).UTC(), etag: string(packed[n+m:])}
}
