package fetch

import "net/http"

// Validators returns the validators of a response for the next conditional request, as
// its header has them; empty: none. What was changed in the second of the response may
// change again within that second: then neither Last-Modified nor an entity tag that the
// server derives from time and length, as nginx does, would show the change, and it would
// be considered unchanged forever (RFC 9110, 8.8.2.2). Such a response has no validators.
func Validators(h http.Header) (etag, lastModified string) {
	etag, lastModified = h.Get("ETag"), h.Get("Last-Modified")
	if lastModified == "" {
		return etag, ""
	}
	modified, err := http.ParseTime(lastModified)
	if err != nil {
		return etag, ""
	}
	date, err := http.ParseTime(h.Get("Date"))
	if err != nil {
		return etag, ""
	}
	if !modified.Before(date) {
		return "", ""
	}
	return etag, lastModified
}
