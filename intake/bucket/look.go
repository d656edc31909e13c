package bucket

import (
	"context"
	"crypto/md5"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"path"
	"strconv"
	"strings"

	"lockstep/catalog"
	"lockstep/intake/internal/filestat"
	"lockstep/internal/mediatype"
	"lockstep/resourcesync"
)

// tokenRules changes when a Record derived from the same object would
// differ: the next scan then examines every object again.
const tokenRules = "b1"

// tokenPrefix begins the Tokens of records made with these settings.
func tokenPrefix(content Reading, algs []resourcesync.Algorithm) string {
	p := strconv.AppendUint([]byte(tokenRules+"."), uint64(content), 36)
	if content != ReadNever {
		for _, a := range algs {
			p = strconv.AppendUint(p, uint64(a), 36)
		}
	}
	return string(append(p, '.'))
}

// maxETag is how much of an entity tag is used: the service decides how long it is.
const maxETag = 256

// token returns the Token of an object as listed: size, modification time in
// microseconds, entity tag. Without an entity tag an object that was written just
// before cannot be distinguished from one that was then written again.
func (b *Bucket) token(o *object) string {
	t := append(make([]byte, 0, 80), b.prefix...)
	t = strconv.AppendInt(t, o.size, 36)
	t = append(t, '.')
	t = strconv.AppendInt(t, o.modTime.UnixMicro(), 36)
	t = append(t, '.')
	return string(append(t, o.etag[:min(len(o.etag), maxETag)]...))
}

// contentBuffer is how many bytes of an object are read at a time.
const contentBuffer = 128 << 10

// A looker examines objects, one at a time.
type looker struct {
	s    *scan
	sum  *resourcesync.Hasher
	buf  []byte
	head []byte // the first bytes of an object
}

func newLooker(s *scan) *looker {
	l := &looker{s: s}
	if s.b.o.Content != ReadNever {
		l.sum = resourcesync.NewHasher(s.b.o.Algorithms...)
		l.buf = make([]byte, contentBuffer)
		l.head = make([]byte, 0, mediatype.HeadSize)
	}
	return l
}

// errLie matches errors that contradict the listing.
var errLie = errors.New("contradicts the listing")

// A sizeError reports an object whose length differs from that in its listing or
// in its own header.
type sizeError struct {
	listed int64
	found  int64
	by     string // where the size was stated
}

func (e *sizeError) Error() string {
	return fmt.Sprintf("is listed with %d bytes; %s has %d", e.listed, e.by, e.found)
}

func (e *sizeError) Is(target error) bool { return target == errLie }

// look examines an object and returns its Record.
func (l *looker) look(ctx context.Context, j *job) (catalog.Record, error) {
	if l.s.b.o.Content == ReadAlways {
		return l.read(ctx, j)
	}
	h, err := l.s.b.objects.Head(ctx, j.key)
	if err != nil {
		return catalog.Record{}, err
	}
	rec, err := l.describe(ctx, j, h)
	if err == nil && len(rec.Hashes) == 0 && l.s.b.o.Content == ReadMissing {
		return l.read(ctx, j)
	}
	return rec, err
}

// describe returns the Record of an object as its header h describes it.
func (l *looker) describe(ctx context.Context, j *job, h http.Header) (catalog.Record, error) {
	etag := strings.Trim(strings.TrimPrefix(h.Get("ETag"), "W/"), `"`)
	size, err := strconv.ParseInt(h.Get("Content-Length"), 10, 64)
	if err != nil {
		size = -1
	}
	listedVersion := etag == "" || j.etag == "" || etag == j.etag
	if listedVersion && size >= 0 && size != j.size {
		return catalog.Record{}, &sizeError{j.size, size, "its header"}
	}
	rec := catalog.Record{
		URI: j.uri, Lastmod: j.modTime, Length: j.size,
		Type: objectType(j.key, h.Get("Content-Type")), Encoding: contentCoding(h.Get("Content-Encoding")),
	}
	if !listedVersion || rec.Lastmod.IsZero() {
		rec.Lastmod, _ = http.ParseTime(h.Get("Last-Modified")) // zero if the header has none
	}
	if listedVersion {
		rec.Token = l.s.b.token(&j.object)
		if j.etag == "" && j.modTime.After(l.s.Start.Add(-filestat.CoarseTick)) {
			rec.Token += string(filestat.RacyMark)
		}
	} else {
		// It was replaced after it was listed. Without a Token the next scan,
		// which knows its exact time, examines it again.
		rec.Length = size
	}
	rec.Hashes, err = l.s.knownHashes(ctx, etag, h)
	return rec, err
}

// read returns the Record of an object from its header and content.
func (l *looker) read(ctx context.Context, j *job) (catalog.Record, error) {
	body, h, err := l.s.b.objects.Get(ctx, j.key)
	if err != nil {
		return catalog.Record{}, err
	}
	defer body.Close() // only read from
	rec, err := l.describe(ctx, j, h)
	if err != nil {
		return catalog.Record{}, err
	}
	l.sum.Reset()
	l.head = l.head[:0]
	for {
		n, err := body.Read(l.buf)
		if room := cap(l.head) - len(l.head); room > 0 {
			l.head = append(l.head, l.buf[:min(n, room)]...)
		}
		_, _ = l.sum.Write(l.buf[:n])
		l.s.Bytes.Add(int64(n))
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return catalog.Record{}, fmt.Errorf("read: %w", err)
		}
		if err := ctx.Err(); err != nil {
			return catalog.Record{}, err
		}
	}
	if rec.Length < 0 {
		rec.Length = l.sum.Size()
	}
	if rec.Length != l.sum.Size() {
		return catalog.Record{}, &sizeError{rec.Length, l.sum.Size(), "its content"}
	}
	sums := l.sum.Sum()
	if _, differs := sums.Compare(checksums(h)); differs != 0 {
		return catalog.Record{}, fmt.Errorf("its content does not match the %s that the service reports", differs)
	}
	rec.Hashes = sums
	if rec.Type == "" || rec.Type == octets {
		rec.Type = mediatype.Of(path.Base(j.key), l.head)
	}
	l.s.Hashed.Add(1)
	return rec, nil
}

// octets is the media type that means the type is unknown.
const octets = "application/octet-stream"

// objectType returns the media type of an object: its Content-Type or, if that is
// the default of services and tools, the type for its extension.
func objectType(key, contentType string) string {
	t, _, err := mime.ParseMediaType(contentType)
	if err != nil && !errors.Is(err, mime.ErrInvalidMediaParameter) || !resourcesync.ValidMediaType(t) {
		t = "" // package mime accepts "a" and "a/}", too
	}
	switch t {
	case octets, "binary/octet-stream", "application/x-www-form-urlencoded", "":
		if named := mediatype.ByName(path.Base(key)); named != "" {
			return named
		}
		if t != "" {
			return octets
		}
	}
	return t
}

// contentCoding returns the codings in a Content-Encoding (RS-ENC-01). Some
// services also put the coding of the upload there.
func contentCoding(header string) string {
	var codings []string
	for c := range strings.SplitSeq(strings.ToLower(header), ",") {
		if c = strings.TrimSpace(c); token(c) && c != "identity" && c != "aws-chunked" {
			codings = append(codings, c)
		}
	}
	return strings.Join(codings, ", ")
}

// token reports whether s is an HTTP token (RFC 9110, 5.6.2).
func token(s string) bool {
	for _, c := range []byte(s) {
		if c <= ' ' || c >= 0x7f || strings.IndexByte(`"(),/:;<=>?@[\]{}`, c) >= 0 {
			return false
		}
	}
	return s != ""
}

// checksumHeaders are the hashes that a service may report, and their header fields.
var checksumHeaders = []struct {
	header string
	alg    resourcesync.Algorithm
}{
	{"X-Amz-Checksum-Md5", resourcesync.MD5},
	{"X-Amz-Checksum-Sha1", resourcesync.SHA1},
	{"X-Amz-Checksum-Sha256", resourcesync.SHA256},
	{"X-Amz-Checksum-Sha512", resourcesync.SHA512},
}

// checksums returns the hashes of the whole object in h.
func checksums(h http.Header) resourcesync.Hashes {
	var hs resourcesync.Hashes
	kind := h.Get("X-Amz-Checksum-Type")
	if kind != "" && kind != "FULL_OBJECT" || kind == "" && inParts(h) {
		return nil
	}
	for _, c := range checksumHeaders {
		// A hash of hashes is followed by "-" and the number of parts.
		digest, err := base64.StdEncoding.DecodeString(h.Get(c.header))
		if err == nil && len(digest) == c.alg.Size() {
			hs = append(hs, resourcesync.Hash{Algorithm: c.alg, Digest: string(digest)})
		}
	}
	return hs
}

// inParts reports whether an object was uploaded in parts.
func inParts(h http.Header) bool {
	return h.Get("X-Amz-Mp-Parts-Count") != "" || strings.Contains(h.Get("ETag"), "-")
}

// md5Form returns the entity tag as an MD5 if it has the form of one, or "".
func md5Form(etag string) string {
	if len(etag) != 2*md5.Size {
		return ""
	}
	digest, err := hex.DecodeString(etag)
	if err != nil {
		return ""
	}
	return string(digest)
}

// plain reports whether an object is of the kind whose entity tag is its MD5 at
// Amazon and compatible services: uploaded whole, and not encrypted with a key of
// a key service or of the customer's.
func plain(h http.Header) bool {
	return !inParts(h) && h.Get("X-Amz-Server-Side-Encryption-Customer-Algorithm") == "" &&
		!strings.HasPrefix(h.Get("X-Amz-Server-Side-Encryption"), "aws:")
}

// knownHashes returns the hashes that the service reports for an object.
func (s *scan) knownHashes(ctx context.Context, etag string, h http.Header) (resourcesync.Hashes, error) {
	hs := checksums(h)
	digest := md5Form(etag)
	if digest == "" || !plain(h) || hs.Get(resourcesync.MD5) != "" {
		return hs, nil
	}
	sure, err := s.proof.proven(ctx, s)
	if sure {
		hs = append(resourcesync.Hashes{{Algorithm: resourcesync.MD5, Digest: digest}}, hs...)
	}
	return hs, err
}
