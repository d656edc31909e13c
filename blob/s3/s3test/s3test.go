// Package s3test changes how the S3 service of a test treats the conditions of writes.
package s3test

import (
	"fmt"
	"net/http"
	"sync"
)

// Unconditional makes a service ignore conditions of writes.
func Unconditional(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPut || r.Method == http.MethodPost {
			r.Header.Del("If-Match")
			r.Header.Del("If-None-Match")
		}
		next.ServeHTTP(w, r)
	})
}

// Conditional makes a service honor the conditions of multipart uploads.
func Conditional(next http.Handler) http.Handler {
	var mu sync.Mutex // one write at a time
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPut && r.Method != http.MethodPost {
			next.ServeHTTP(w, r)
			return
		}
		mu.Lock()
		defer mu.Unlock()
		match, none := r.Header.Get("If-Match"), r.Header.Get("If-None-Match")
		if match != "" || none != "" {
			there := &headOnly{header: http.Header{}}
			head := r.Clone(r.Context())
			head.Method, head.Header, head.Body, head.ContentLength, head.URL.RawQuery = http.MethodHead, http.Header{}, http.NoBody, 0, ""
			next.ServeHTTP(there, head)
			exists := there.status < http.StatusBadRequest
			if none != "" && exists || match != "" && (!exists || there.header.Get("ETag") != match) {
				w.WriteHeader(http.StatusPreconditionFailed)
				_, _ = fmt.Fprint(w, "<Error><Code>PreconditionFailed</Code><Message>the condition is false</Message></Error>")
				return
			}
		}
		next.ServeHTTP(w, r)
	})
}

// A headOnly records the header of an answer.
type headOnly struct {
	header http.Header
	status int
}

func (h *headOnly) Header() http.Header         { return h.header }
func (h *headOnly) Write(p []byte) (int, error) { return len(p), nil }
func (h *headOnly) WriteHeader(status int)      { h.status = status }
