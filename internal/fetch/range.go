package fetch

import (
	"strconv"
	"strings"
)

// acceptRange checks that a contains the range that r requested.
func (a *answer) acceptRange(r *Request) error {
	text := a.Header.Get("Content-Range")
	wrong := func(reason string) error {
		return &RangeError{From: r.RangeFrom, ContentRange: text, Reason: reason}
	}
	rg, ok := parseContentRange(text)
	switch {
	case !ok:
		return wrong("not a byte range")
	case r.RangeLast > 0 && (rg.Total < 0 || rg.First != max(rg.Total-r.RangeLast, 0) || rg.Last != rg.Total-1):
		return wrong("not the end")
	case r.RangeLast <= 0 && (rg.First != r.RangeFrom || r.RangeTo > 0 && rg.Last > r.RangeTo):
		return wrong("another range")
	case r.RangeLast <= 0 && rg.Last != last(r, rg.Total) && last(r, rg.Total) >= 0:
		return wrong("less than was asked for") // allowed, but the caller would consider it complete
	case multipart(a.Header.Get("Content-Type")):
		return wrong("several parts")
	case a.Length >= 0 && a.Length != rg.Last-rg.First+1:
		return wrong("body of " + strconv.FormatInt(a.Length, 10) + " bytes")
	}
	a.Range, a.want = rg, rg.Last-rg.First+1
	return nil
}

// last returns the end of the requested range in a resource of length total; -1
// if unknown.
func last(r *Request, total int64) int64 {
	switch {
	case r.RangeTo > 0 && total > 0:
		return min(r.RangeTo, total-1)
	case r.RangeTo > 0:
		return -1
	}
	return max(total, 0) - 1
}

// multipart reports whether a media type is that of several ranges.
func multipart(t string) bool {
	t, _, _ = strings.Cut(t, ";")
	return strings.EqualFold(strings.TrimSpace(t), "multipart/byteranges")
}

// parseContentRange parses "bytes 5-9/10" or "bytes 5-9/*".
func parseContentRange(s string) (Range, bool) {
	unit, rest, _ := strings.Cut(strings.TrimSpace(s), " ")
	span, total, ok := strings.Cut(strings.TrimSpace(rest), "/")
	if !ok || !strings.EqualFold(unit, "bytes") {
		return Range{}, false
	}
	first, last, ok := strings.Cut(span, "-")
	if !ok {
		return Range{}, false
	}
	r := Range{Total: -1}
	var ok1, ok2, ok3 bool
	r.First, ok1 = digits(first)
	r.Last, ok2 = digits(last)
	if ok3 = total == "*"; !ok3 {
		r.Total, ok3 = digits(total)
	}
	if !ok1 || !ok2 || !ok3 || r.First > r.Last || r.Total >= 0 && r.Last >= r.Total {
		return Range{}, false
	}
	return r, true
}

func digits(s string) (int64, bool) {
	if s == "" || s[0] < '0' || s[0] > '9' {
		return 0, false
	}
	n, err := strconv.ParseInt(s, 10, 64)
	return n, err == nil
}
