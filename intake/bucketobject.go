package intake

import (
	"encoding/binary"
	"time"
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
	key, _ := unescape(o.path) // it was escaped by us
	return key
}

// pack returns all but the path in bytes.
func (o *object) pack(dst []byte) []byte {
	dst = binary.AppendVarint(dst, o.size)
	dst = binary.AppendVarint(dst, o.modTime.UnixMicro())
	return append(dst, o.etag...)
}

// object returns the object that was packed into l.said.
func (l *listed) object() object {
	o := object{path: string(l.uri)}
	size, n := binary.Varint(l.said)
	micro, m := binary.Varint(l.said[n:])
	o.size = size
	o.modTime, o.etag = time.UnixMicro(micro).UTC(), string(l.said[n+m:])
	return o
}
