package s3

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// mtimeHeader is the metadata field for a blob's modification time, which
// rclone and other tools use too.
const mtimeHeader = "X-Amz-Meta-Mtime"

// formatModTime formats t as seconds since 1970 with nine decimal places.
func formatModTime(t time.Time) string {
	sec, nano := t.Unix(), int64(t.Nanosecond())
	sign := ""
	if sec < 0 {
		sign = "-"
		if nano > 0 {
			sec, nano = sec+1, 1_000_000_000-nano
		}
		sec = -sec
	}
	return fmt.Sprintf("%s%d.%09d", sign, sec, nano)
}

// parseModTime is the inverse of formatModTime, and accepts fewer decimal
// places, or none.
func parseModTime(s string) (time.Time, bool) {
	digits, negative := strings.CutPrefix(s, "-")
	whole, frac, _ := strings.Cut(digits, ".")
	sec, err := strconv.ParseUint(whole, 10, 40)
	if err != nil || len(frac) > 9 {
		return time.Time{}, false
	}
	nano, err := strconv.ParseUint((frac + "000000000")[:9], 10, 32)
	if err != nil {
		return time.Time{}, false
	}
	if negative {
		return time.Unix(-int64(sec), -int64(nano)).UTC(), true
	}
	return time.Unix(int64(sec), int64(nano)).UTC(), true
}

// modTime returns the modification time of an object by its header.
func modTime(h http.Header) time.Time {
	if t, ok := parseModTime(h.Get(mtimeHeader)); ok {
		return t
	}
	t, err := http.ParseTime(h.Get("Last-Modified"))
	if err != nil {
		return time.Time{}
	}
	return t
}
