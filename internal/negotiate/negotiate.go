// Package negotiate parses request headers about acceptable answers: content
// codings, versions that the client already has, and ranges (RFC 9110).
package negotiate

import (
	"strconv"
	"strings"
)

// Gzip reports whether a client accepts the content coding gzip and does not
// prefer an unencoded document (RFC 9110, 12.5.3). headers are the values of
// Accept-Encoding.
func Gzip(headers []string) bool {
	gzip, identity, other := -1.0, -1.0, -1.0 // -1: not mentioned
	for _, header := range headers {
		for item := range strings.SplitSeq(header, ",") {
			coding, params, _ := strings.Cut(item, ";")
			q, ok := quality(params)
			if !ok {
				continue
			}
			switch strings.ToLower(strings.Trim(coding, " \t")) {
			case "gzip", "x-gzip":
				gzip = max(gzip, q)
			case "identity":
				identity = q
			case "*":
				other = q
			}
		}
	}
	if gzip < 0 {
		gzip = other
	}
	return gzip > 0 && gzip >= identity
}

// quality returns the weight that follows a coding; 1 if there is none. ok is
// false for an invalid weight.
func quality(params string) (q float64, ok bool) {
	params = strings.Trim(params, " \t")
	if params == "" {
		return 1, true
	}
	name, value, found := strings.Cut(params, "=")
	if !found || !strings.EqualFold(strings.TrimRight(name, " \t"), "q") {
		return 0, false
	}
	value = strings.TrimLeft(value, " \t")
	if value == "" || len(value) > 5 || value[0] != '0' && value[0] != '1' || strings.Trim(value, "0123456789.") != "" {
		return 0, false
	}
	q, err := strconv.ParseFloat(value, 64)
	return q, err == nil && q <= 1
}

// Has reports whether a client says that it has the version with entity tag
// etag; always false for "". headers are the values of If-None-Match, where
// tags are compared weakly (RFC 9110, 13.1.2).
func Has(headers []string, etag string) bool {
	if etag == "" {
		return false
	}
	etag = strings.TrimPrefix(etag, "W/")
	for _, header := range headers {
		for tag := range strings.SplitSeq(header, ",") {
			if tag = strings.TrimPrefix(strings.TrimSpace(tag), "W/"); tag == etag || tag == "*" {
				return true
			}
		}
	}
	return false
}
