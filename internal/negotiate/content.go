package negotiate

import (
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// ServeContent is [http.ServeContent] for content whose type is set. That would answer a request for the last 0 bytes,
// or for the last bytes of an empty content, with an empty part and a Content-Range that is not valid: such a range
// cannot be satisfied (RFC 9110, 14.1.2).
func ServeContent(w http.ResponseWriter, r *http.Request, modified time.Time, content io.ReadSeeker) {
	if ranges, ok := withoutEmptySuffixes(r.Header.Get("Range"), content); ok {
		r = r.Clone(r.Context())
		r.Header.Set("Range", ranges)
	}
	http.ServeContent(w, r, "", modified, content)
}

// behindAll is a range that begins behind the end of any content.
const behindAll = "9223372036854775807-"

// withoutEmptySuffixes returns the value of a Range header with behindAll in place of suffixes that have no bytes of the
// content, and reports whether there are any.
func withoutEmptySuffixes(ranges string, content io.Seeker) (without string, found bool) {
	unit, specs, _ := strings.Cut(ranges, "=")
	all := strings.Split(specs, ",")
	for i, spec := range all {
		suffix, ok := strings.CutPrefix(strings.TrimSpace(spec), "-")
		if !ok {
			continue
		}
		n, err := strconv.ParseUint(strings.TrimSpace(suffix), 10, 64)
		if err == nil && (n == 0 || isEmpty(content)) {
			all[i], found = behindAll, true
		}
	}
	return unit + "=" + strings.Join(all, ","), found
}

// isEmpty reports whether content, of which nothing has been read, has no bytes.
func isEmpty(content io.Seeker) bool {
	size, err := content.Seek(0, io.SeekEnd)
	_, _ = content.Seek(0, io.SeekStart) // what reads it reports the error
	return err == nil && size == 0
}
